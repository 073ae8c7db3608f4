"""GPT-2 (Radford et al. 2019) and DistilGPT-2: pre-norm with learned positions, one matrix for query, key and value.

Their linear layers hold the transpose of ours: they compute x W and not x W^T.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from regard.config import Recipe
from regard.interchange.families._base import ACTIVATIONS, THEIR_ACTIVATIONS
from regard.interchange.families._config import Config
from regard.interchange.families._entry import Entry
from regard.interchange.families._language_model import OUTPUT, TABLE, LanguageModelFamily, other_decoder, table_of

__all__ = ["GPT2"]

_PREFIX = "transformer."
_UNUSED = [
    "n_ctx",
    "initializer_range",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "reorder_and_upcast_attn",
]


class GPT2(LanguageModelFamily):
    """Files of the bare model leave out the prefix of the names."""

    model_types = ("gpt2",)
    architectures = ("GPT2LMHeadModel", "GPT2Model", "GPT2DoubleHeadsModel")
    table, tokens, tied = f"{_PREFIX}wte.weight", 50257, True

    def name(self, theirs: str) -> str:
        return theirs if theirs.startswith((_PREFIX, "lm_head.", "multiple_choice_head.")) else _PREFIX + theirs

    def decoder(self, config: Config, tie: bool) -> dict[str, Any]:
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
        config.dropout("embd_pdrop", 0.1)  # ours has one dropout for both
        return {
            "kind": "transformer",
            "width": width,
            "layers": config.integer("n_layer", 12, least=1, most=1000),
            "heads": config.integer("n_head", 12, least=1),
            "feed_forward": config.optional_integer("n_inner", least=1) or 4 * width,
            "dropout": config.dropout("resid_pdrop", 0.1),
            "norm": "pre",
            "norm_epsilon": config.number("layer_norm_epsilon", 1e-5),
            "activation": config.choice("activation_function", "gelu_new", ACTIVATIONS),
            "position": {"kind": "learned", "length": self.longest(config)},
            "attention": {"kind": "multi_head", "dropout": dropped} if dropped else "multi_head",
            "tie": tie,
            "scale": False,
            "output_bias": True,
        }

    def longest(self, config: Config) -> int:
        return config.integer("n_positions", 1024, least=2)

    def entries(self, decoder: Mapping[str, Any]) -> list[Entry]:
        return list(self._entries(decoder))

    def _entries(self, decoder: Mapping[str, Any]) -> Iterator[Entry]:
        width, inner = decoder["width"], decoder["feed_forward"]
        yield Entry(TABLE, (self.table,), rows="target")
        if not decoder["tie"]:
            yield Entry(OUTPUT, (self.output,), rows="target")
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

    def computed(self, decoder: Mapping[str, Any]) -> list[str]:
        masks = [f"{_PREFIX}h.{n}.attn.{name}" for n in range(decoder["layers"]) for name in ("bias", "masked_bias")]
        return [*masks, "multiple_choice_head."]

    def why_not(self, recipe: Recipe) -> str:
        decoder = recipe.model["decoder"]
        if why := other_decoder(
            decoder,
            norm="pre",
            norm_kind="layer",
            gated=False,
            bias=True,
            scale=False,
            embedding_norm=False,
            relative_position="none",
        ):
            return why
        position, attention = table_of(decoder["position"]), table_of(decoder["attention"])
        if position["kind"] != "learned":
            return f"only learned positions, not {position['kind']}"
        if attention["kind"] != "multi_head" or attention.keys() - {"kind", "dropout"}:
            return "only the attention multi_head, with as many keys as queries"
        if decoder["head_width"] not in (0, decoder["width"] // decoder["heads"]):
            return "only heads that share the width"
        return "" if decoder["activation"] in THEIR_ACTIVATIONS else f"no activation {decoder['activation']}"

    def config(self, recipe: Recipe, rows: int, begin: int, end: int) -> dict[str, Any]:
        decoder = recipe.model["decoder"]
        return {
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            "vocab_size": rows,
            "n_positions": table_of(decoder["position"]).get("length", 512),
            "n_embd": decoder["width"],
            "n_layer": decoder["layers"],
            "n_head": decoder["heads"],
            "n_inner": decoder["feed_forward"],
            "activation_function": THEIR_ACTIVATIONS[decoder["activation"]],
            "layer_norm_epsilon": decoder["norm_epsilon"],
            "resid_pdrop": decoder["dropout"],
            "embd_pdrop": decoder["dropout"],
            "attn_pdrop": table_of(decoder["attention"]).get("dropout", 0.0),
            "tie_word_embeddings": decoder["tie"],
            "bos_token_id": begin,
            "eos_token_id": end,
            "use_cache": True,
        }


def _norm(ours: str, theirs: str) -> Iterator[Entry]:
    for part in ("weight", "bias"):
        yield Entry(f"{ours}.{part}", (f"{theirs}.{part}",))


def _linear(ours: str, theirs: str, inputs: int, outputs: int) -> Iterator[Entry]:
    shapes = ((inputs, outputs),)
    yield Entry(f"{ours}.weight", (f"{theirs}.weight",), shapes=shapes, make=Tensor.t, split=lambda ours: (ours.t(),))
    yield Entry(f"{ours}.bias", (f"{theirs}.bias",))
