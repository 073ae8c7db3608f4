"""GPT-2 (Radford et al. 2019) and DistilGPT-2: pre-norm with learned positions, one matrix for query, key and value.

Their linear layers hold W and not its transpose, since they compute x W and not x W^T.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor

from regard.config import Recipe
from regard.interchange.families import _language_model
from regard.interchange.families._base import ACTIVATIONS, THEIR_ACTIVATIONS
from regard.interchange.families._config import Config
from regard.interchange.families._entry import Entry
from regard.interchange.families._language_model import OUTPUT, TABLE
from regard.interchange.families._task_family import Reading, TaskFamily
from regard.interchange.read.foreign_folder import ForeignFolder
from regard.interchange.read.stored_tensors import StoredTensors

__all__ = ["GPT2"]

_PREFIX, _WTE, _HEAD = "transformer.", "transformer.wte.weight", "lm_head.weight"
_UNUSED = ("n_ctx", "initializer_range", "summary_activation", "summary_first_dropout", "summary_proj_to_labels")
_UNUSED += ("summary_type", "summary_use_proj", "reorder_and_upcast_attn")


class GPT2(TaskFamily):
    """A language model that begins every text with <|endoftext|>, as its documents did in training."""

    model_types = ("gpt2",)
    architectures = ("GPT2LMHeadModel", "GPT2Model", "GPT2DoubleHeadsModel")

    def name(self, theirs: str) -> str:
        return theirs if theirs.startswith((_PREFIX, "lm_head.", "multiple_choice_head.")) else _PREFIX + theirs

    def read(
        self,
        config: Config,
        generation: Config,
        files: ForeignFolder,
        stored: StoredTensors,
        note: Callable[[str], None],
    ) -> Reading:
        size = _language_model.rows(config, stored, _WTE, 50257)
        tie = config.flag("tie_word_embeddings", True) or _HEAD not in stored
        if tie and _HEAD in stored and not stored.same(_HEAD, _WTE):
            tie = False
        model = _model(config, tie)
        pieces = _language_model.pieces_of(files, size)
        vocabulary = _language_model.numbering(config, generation, files, pieces, size)
        tokenizer = _language_model.tokenizer(files, vocabulary, pieces)
        decoder = model["decoder"]
        recipe = _language_model.recipe(model, decoder["position"]["length"], tokenizer, generation, note)
        entries = [*_entries(decoder), _language_model.bias(vocabulary)]
        layers = range(decoder["layers"])
        masks = [f"{_PREFIX}h.{n}.attn.{name}" for n in layers for name in ("bias", "masked_bias")]
        return Reading(recipe, tokenizer, entries, vocabulary, (*masks, _HEAD, "multiple_choice_head."))

    @staticmethod
    def why_not(recipe: Recipe) -> str:
        """Why GPT-2 cannot hold a language model with this recipe exactly; empty if it can."""
        decoder = recipe.model["decoder"]
        if decoder["kind"] != "transformer":
            return f"only a Transformer, not {decoder['kind']}"
        for key, value in (
            ("norm", "pre"),
            ("norm_kind", "layer"),
            ("gated", False),
            ("bias", True),
            ("scale", False),
            ("embedding_norm", False),
            ("relative_position", "none"),
        ):
            if decoder[key] != value:
                return f"only {key} = {str(value).lower() if isinstance(value, bool) else value}"
        position, attention = decoder["position"], _table(decoder["attention"])
        if _table(position)["kind"] != "learned":
            return f"only learned positions, not {_table(position)['kind']}"
        if attention["kind"] != "multi_head" or attention.keys() - {"kind", "dropout", "heads"}:
            return "only the attention multi_head"
        if decoder["head_width"] not in (0, decoder["width"] // decoder["heads"]):
            return "only heads that share the width"
        if decoder["activation"] not in THEIR_ACTIVATIONS:
            return f"no activation {decoder['activation']}"
        return ""

    @staticmethod
    def config(recipe: Recipe, rows: int, begin: int, end: int) -> dict[str, Any]:
        """Their config of a model with this recipe."""
        decoder = recipe.model["decoder"]
        attention = _table(decoder["attention"])
        return {
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            "vocab_size": rows,
            "n_positions": _table(decoder["position"]).get("length", 512),
            "n_embd": decoder["width"],
            "n_layer": decoder["layers"],
            "n_head": attention.get("heads", decoder["heads"]),
            "n_inner": decoder["feed_forward"],
            "activation_function": THEIR_ACTIVATIONS[decoder["activation"]],
            "layer_norm_epsilon": decoder["norm_epsilon"],
            "resid_pdrop": decoder["dropout"],
            "embd_pdrop": decoder["dropout"],
            "attn_pdrop": attention.get("dropout", 0.0),
            "tie_word_embeddings": decoder["tie"],
            "bos_token_id": begin,
            "eos_token_id": end,
            "use_cache": True,
        }

    @staticmethod
    def entries(decoder: Mapping[str, Any]) -> list[Entry]:
        """All parameters but the output's bias, for a resolved decoder section."""
        return list(_entries(decoder))


def _table(spec: Any) -> dict[str, Any]:
    return dict(spec) if isinstance(spec, dict) else {"kind": spec}


def _model(config: Config, tie: bool) -> dict[str, Any]:
    for key, value in (
        ("scale_attn_weights", True),
        ("scale_attn_by_inverse_layer_idx", False),
        ("add_cross_attention", False),
    ):
        config.must_be(key, value)
    for key in _UNUSED:
        config.get(key)
    width = config.integer("n_embd", 768, least=1)
    dropped = config.dropout("attn_pdrop", 0.1)
    config.dropout("embd_pdrop", 0.1)  # ours is the same everywhere
    inner = config.optional_integer("n_inner", least=1)
    return {
        "kind": "language_model",
        "decoder": {
            "kind": "transformer",
            "width": width,
            "layers": config.integer("n_layer", 12, least=1, most=1000),
            "heads": config.integer("n_head", 12, least=1),
            "feed_forward": inner or 4 * width,
            "dropout": config.dropout("resid_pdrop", 0.1),
            "norm": "pre",
            "norm_epsilon": config.number("layer_norm_epsilon", 1e-5),
            "activation": config.choice("activation_function", "gelu_new", ACTIVATIONS),
            "position": {"kind": "learned", "length": config.integer("n_positions", 1024, least=2)},
            "attention": {"kind": "multi_head", "dropout": dropped} if dropped else "multi_head",
            "tie": tie,
            "scale": False,
            "output_bias": True,
        },
    }


def _entries(decoder: Mapping[str, Any]) -> Iterator[Entry]:
    width, inner = decoder["width"], decoder["feed_forward"]
    yield Entry(TABLE, (_WTE,), rows="target")
    if not decoder["tie"]:
        yield Entry(OUTPUT, (_HEAD,), rows="target")
    yield Entry("decoder.embedding.position.table.weight", (f"{_PREFIX}wpe.weight",))
    yield from _norm("decoder.norm", f"{_PREFIX}ln_f")
    for number in range(decoder["layers"]):
        ours, theirs = f"decoder.layers.{number}", f"{_PREFIX}h.{number}"
        yield from _linear(f"{ours}.attention.inward", f"{theirs}.attn.c_attn", width, 3 * width)
        yield from _linear(f"{ours}.attention.outward", f"{theirs}.attn.c_proj", width, width)
        yield from _linear(f"{ours}.feed_forward.inward", f"{theirs}.mlp.c_fc", width, inner)
        yield from _linear(f"{ours}.feed_forward.outward", f"{theirs}.mlp.c_proj", inner, width)
        yield from _norm(f"{ours}.around_attention.norm", f"{theirs}.ln_1")
        yield from _norm(f"{ours}.around_feed_forward.norm", f"{theirs}.ln_2")


def _norm(ours: str, theirs: str) -> Iterator[Entry]:
    for part in ("weight", "bias"):
        yield Entry(f"{ours}.{part}", (f"{theirs}.{part}",))


def _linear(ours: str, theirs: str, inputs: int, outputs: int) -> Iterator[Entry]:
    shapes = ((inputs, outputs),)
    yield Entry(f"{ours}.weight", (f"{theirs}.weight",), shapes=shapes, make=Tensor.t, split=lambda ours: (ours.t(),))
    yield Entry(f"{ours}.bias", (f"{theirs}.bias",))
