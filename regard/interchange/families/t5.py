"""T5 (Raffel et al. 2020), mT5 and MADLAD: pre-norm with RMS norms, no biases, relative positions in buckets.

Scores are not divided by sqrt(head width), so W_q is multiplied by it here; the first T5 divides the output layer's
input by sqrt(width), which here is part of the decoder's last norm.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from regard import languages as codes
from regard.config import Languages, Recipe
from regard.interchange.families import _fairseq, _tokens
from regard.interchange.families._bart_layout import Choices
from regard.interchange.families._base import ACTIVATIONS, THEIR_ACTIVATIONS, Family, Tables, Text, no_transformer
from regard.interchange.families._config import Config
from regard.interchange.families._entry import Entry
from regard.interchange.families._vocabulary import renumbered
from regard.interchange.read.foreign_folder import ForeignFolder

__all__ = ["T5"]

_SENTENCEPIECE = ("spiece.model", "sentencepiece.model")
_TAG = re.compile(r"<2([a-z]{2,3}(?:_[A-Za-z0-9]{2,8})?)>")
_PREFIX = re.compile(r"translate ([A-Z][a-z]+) to ([A-Z][a-z]+): ")
_FEW = 10
"""Tags below which a vocabulary just happens to have pieces like <2de>."""
_SPECIAL = Choices("pre", "none", False, False, "", 32128, start=0, pad=0, end=1)


class T5(Family):
    """A prefix of the source says what to do with it, or a tag such as <2de>; mT5 has neither."""

    model_types = ("t5", "mt5")
    architectures = (
        "T5ForConditionalGeneration",
        "T5WithLMHeadModel",
        "T5Model",
        "MT5ForConditionalGeneration",
        "MT5Model",
    )
    tables: ClassVar[Tables] = Tables(
        "shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"
    )
    computed = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)

    def model(self, config: Config, share: bool, tie: bool) -> dict[str, Any]:
        projection = config.get("feed_forward_proj", "gated-gelu" if self.variant == "mt5" else "relu")
        gated = isinstance(projection, str) and projection.startswith("gated-")
        name = str(projection).removeprefix("gated-")
        # "gated-gelu" stands for the approximation by tanh, a name that files already had when this was noticed.
        theirs = "gelu_new" if projection == "gated-gelu" else name
        if theirs not in ACTIVATIONS:
            raise config.refuse("feed_forward_proj", "not known here")
        config.must_be("is_gated_act", gated)
        if config.get("dense_act_fn", theirs) not in (theirs, name):
            raise config.refuse("dense_act_fn", f"feed_forward_proj has {theirs}")
        width = config.integer("d_model", 512, least=2)
        layers = config.integer("num_layers", 8 if self.variant == "mt5" else 6, least=1, most=1000)
        heads = config.integer("num_heads", 6 if self.variant == "mt5" else 8, least=1)
        head_width = config.integer("d_kv", 64, least=1)
        buckets = {
            "kind": "buckets",
            "buckets": config.integer("relative_attention_num_buckets", 32, least=2),
            "distance": config.integer("relative_attention_max_distance", 128, least=1),
        }
        both = {"width": width, "dropout": config.dropout("dropout_rate", 0.1)}
        stack = {
            "kind": "transformer",
            **both,
            "heads": heads,
            "head_width": head_width,
            "feed_forward": config.integer("d_ff", 1024 if self.variant == "mt5" else 2048, least=1),
            "norm": "pre",
            "norm_kind": "rms",
            "norm_epsilon": config.number("layer_norm_epsilon", 1e-6),
            "activation": ACTIVATIONS[theirs],
            "gated": gated,
            "bias": False,
            "relative_position": buckets,
        }
        deep = config.get("num_decoder_layers")
        return {
            "kind": "seq2seq",
            "share": share,
            "stem": {"kind": "tokens", **both, "position": "none", "scale": False},
            "encoder": {**stack, "layers": layers},
            "decoder": {
                **stack,
                "layers": layers if deep is None else config.integer("num_decoder_layers", least=1, most=1000),
                "position": "none",
                "tie": tie,
                "scale": False,
                "output_bias": True,
            },
        }

    def ties(self, config: Config) -> bool | None:
        config.get("tie_word_embeddings")  # says in truth whether the output is scaled: see `scaled_output`
        return None

    def scaled_output(self, config: Config) -> bool:
        if self.variant == "mt5":
            return False
        return config.flag("scale_decoder_outputs", config.get("tie_word_embeddings") is not False)

    def longest_source(self, config: Config) -> int:
        return config.integer("n_positions", 512, least=1)

    def entries(self, model: Mapping[str, Any], scaled_output: bool = False) -> list[Entry]:
        return list(_entries(model, scaled_output))

    def text(self, config: Config, generation: Config, files: ForeignFolder, note: Callable[[str], None]) -> Text:
        size = config.integer("vocab_size", 250112 if self.variant == "mt5" else 32128, least=4)
        start, end, pad = _fairseq.special(_SPECIAL, config, generation, size)
        file = next((name for name in _SENTENCEPIECE if name in files), "")
        added = _tokens.added_tokens(files)
        if file:
            model, processor = _tokens.sentencepiece_model(files, file)
            cut = _tokens.pieces_of(processor)
            if not added:
                listed = [one for one in _tokens.extra_special_tokens(files) if one not in set(cut)]
                added = dict(enumerate(sorted(listed, key=_sentinel), len(cut)))
            pieces = dict(enumerate(cut)) | {id: piece for id, piece in added.items() if id >= len(cut)}
        else:
            pieces = _tokens.hugging_face_pieces(files)
        pieces = {id: piece for id, piece in pieces.items() if id < size}
        unknown = _fairseq.row(
            files, pieces, _tokens.special_token(files, "unk_token", "<unk>"), file or _tokens.TOKENIZER
        )
        vocabulary = renumbered(size, pad, unknown, start, end)
        tags = {piece: found[1] for piece in pieces.values() if (found := _TAG.fullmatch(piece))}
        tags = tags if len(tags) >= _FEW else {}
        if file:
            hidden = {piece for id, piece in added.items() if id >= len(cut)} | set(tags)
            tokenizer = _tokens.sentencepiece_tokenizer(model, pieces, vocabulary, hidden)
        else:
            without = {*added, *(id for id, piece in pieces.items() if piece in tags)}
            hidden_ids = without | {id for id in range(size) if id not in pieces}
            tokenizer = _tokens.hugging_face(files, vocabulary, hidden_ids)
        limit = _tokens.limit(files)
        if tags:
            by_code = _tokens.by_language((theirs, tag) for tag, theirs in tags.items())
            spoken = Languages(source=list(by_code), target=list(by_code), target_tag="source", tags=by_code)
        else:
            spoken = _prefixed(config)
        return Text(tokenizer, vocabulary, vocabulary, spoken, limit=limit)

    def why_not(self, recipe: Recipe) -> str:
        model = recipe.model
        stem, encoder, decoder = (model.get(part, {}) for part in ("stem", "encoder", "decoder"))
        if obstacle := no_transformer(recipe):
            return obstacle
        for part in (encoder, decoder):
            for key, value in (("norm", "pre"), ("norm_kind", "rms"), ("bias", False)):
                if part.get(key) != value:
                    return f"only {key} = {value}"
            relative = part.get("relative_position")
            if (relative.get("kind") if isinstance(relative, dict) else relative) != "buckets":
                return "only relative positions in buckets"
            if part["activation"] not in THEIR_ACTIVATIONS or (part["gated"] and part["activation"] == "gelu"):
                return f"no activation {part['activation']}"
        for key in ("width", "heads", "head_width", "feed_forward", "activation", "gated", "relative_position"):
            if encoder.get(key) != decoder.get(key):
                return f"only the same {key} on both sides"
        if stem["position"] != "none" or decoder["position"] != "none" or stem["scale"] or decoder["scale"]:
            return "only embeddings without positions and scale"
        if stem.get("embedding_norm") or decoder.get("embedding_norm"):
            return "no norm after the embedding"
        return "" if model.get("share", True) else "only one vocabulary for both languages"

    def config(self, recipe: Recipe, special: Mapping[str, int], sizes: tuple[int, int]) -> dict[str, Any]:
        encoder, decoder = recipe.model["encoder"], recipe.model["decoder"]
        relative = encoder["relative_position"]
        table = relative if isinstance(relative, dict) else {}
        activation = THEIR_ACTIVATIONS[encoder["activation"]]
        gated = bool(encoder["gated"])
        projection = f"gated-{'gelu' if activation == 'gelu_new' else activation}" if gated else activation
        return {
            "model_type": self.variant,
            "architectures": ["T5ForConditionalGeneration"],
            "d_model": encoder["width"],
            "d_kv": encoder.get("head_width") or encoder["width"] // encoder["heads"],
            "d_ff": encoder["feed_forward"],
            "num_layers": encoder["layers"],
            "num_decoder_layers": decoder["layers"],
            "num_heads": encoder["heads"],
            "feed_forward_proj": projection,
            "dense_act_fn": activation,
            "is_gated_act": gated,
            "relative_attention_num_buckets": table.get("buckets", 32),
            "relative_attention_max_distance": table.get("distance", 128),
            "layer_norm_epsilon": encoder.get("norm_epsilon", 1e-6),
            "dropout_rate": encoder["dropout"],
            "tie_word_embeddings": False,  # the output is not scaled: the norm before it holds the factor
            "is_encoder_decoder": True,
            "n_positions": recipe.data.max_length,
            "use_cache": True,
            "vocab_size": sizes[0],
            **special,
        }


def _entries(model: Mapping[str, Any], scaled_output: bool) -> Iterator[Entry]:
    for side in ("encoder", "decoder"):
        spec = model[side]
        first = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield Entry(f"{side}.relative_position.table.weight", (first,))
        factor = spec["width"] ** -0.5 if scaled_output and side == "decoder" else 1.0
        yield Entry(f"{side}.norm.weight", (f"{side}.final_layer_norm.weight",), (factor,))
        scale = (spec.get("head_width") or spec["width"] // spec["heads"]) ** 0.5
        for number in range(spec["layers"]):
            ours, theirs = f"{side}.layers.{number}", f"{side}.block.{number}.layer"
            yield from _attention(f"{ours}.attention", f"{theirs}.0.SelfAttention", scale)
            yield Entry(f"{ours}.around_attention.norm.weight", (f"{theirs}.0.layer_norm.weight",))
            last = 1
            if side == "decoder":
                yield from _attention(f"{ours}.cross_attention", f"{theirs}.1.EncDecAttention", scale)
                yield Entry(f"{ours}.around_cross_attention.norm.weight", (f"{theirs}.1.layer_norm.weight",))
                last = 2
            dense = f"{theirs}.{last}.DenseReluDense"
            inward = "wi_1" if spec["gated"] else "wi"
            yield Entry(f"{ours}.feed_forward.inward.weight", (f"{dense}.{inward}.weight",))
            if spec["gated"]:
                yield Entry(f"{ours}.feed_forward.gate.weight", (f"{dense}.wi_0.weight",))
            yield Entry(f"{ours}.feed_forward.outward.weight", (f"{dense}.wo.weight",))
            yield Entry(f"{ours}.around_feed_forward.norm.weight", (f"{theirs}.{last}.layer_norm.weight",))


def _attention(ours: str, theirs: str, scale: float) -> Iterator[Entry]:
    yield Entry(f"{ours}.inward.weight", tuple(f"{theirs}.{one}.weight" for one in "qkv"), (scale, 1.0, 1.0))
    yield Entry(f"{ours}.outward.weight", (f"{theirs}.o.weight",))


def _prefixed(config: Config) -> Languages:
    """The directions that a config lists as tasks, such as "translate English to German: "."""
    tasks = config.values.get("task_specific_params")
    prefixes: dict[str, Any] = {}
    for task in tasks.values() if isinstance(tasks, dict) else ():
        prefix = task.get("prefix") if isinstance(task, dict) else None
        if isinstance(prefix, str) and (found := _PREFIX.fullmatch(prefix)):
            one, other = map(codes.code_of, found.groups())
            if one and other:
                prefixes[f"{one}-{other}"] = prefix
    pairs = [pair for name in prefixes if (pair := codes.split_pair(name))]
    return Languages(
        source=list(dict.fromkeys(one for one, _ in pairs)),
        target=list(dict.fromkeys(other for _, other in pairs)),
        prefixes=prefixes,
    )


def _sentinel(piece: str) -> tuple[int, str]:
    """<extra_id_99> comes first."""
    number = re.fullmatch(r"<extra_id_(\d{1,6})>", piece)
    return (-int(number[1]), piece) if number else (1, piece)
