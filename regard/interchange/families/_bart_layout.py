"""What Marian, Pegasus, M2M100, BART and mBART share: one set of names, and a few choices that tell them apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.config import Recipe
from regard.interchange.families._base import ACTIVATIONS, THEIR_ACTIVATIONS, Family, Tables, no_transformer
from regard.interchange.families._config import Config
from regard.interchange.families._entry import Entry

SKIPPED = 2
"""Rows at the start of BART's position tables that are never used."""


@dataclass(frozen=True)
class Choices:
    """How one of these architectures differs from the others, and the defaults of its config."""

    norm: str
    position: str
    """halves, inclusive (M2M100's denominator) or learned."""
    embedding_norm: bool
    logits_bias: bool
    architecture: str
    vocabulary: int
    activation: str = "gelu"
    attention_dropout: float = 0.0
    scale: bool = False
    start: int | None = None
    pad: int = 1
    end: int = 2


class BartLayout(Family):
    """An encoder and a decoder of Transformer layers with names that fairseq began."""

    tables: ClassVar[Tables] = Tables(
        "model.shared.weight",
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
        "lm_head.weight",
    )
    prefix: ClassVar[str] = "model."
    choices: ClassVar[Mapping[str, Choices]]

    @property
    def choice(self) -> Choices:
        return self.choices[self.variant]

    def model(self, config: Config, share: bool, tie: bool) -> dict[str, Any]:
        choice = self.choice
        pre = choice.norm == "pre"
        for key, value in (
            ("normalize_before", pre),
            ("add_final_layer_norm", pre),
            ("normalize_embedding", choice.embedding_norm),
            ("static_position_embeddings", choice.position != "learned"),
            ("add_bias_logits", False),
        ):
            config.must_be(key, value)
        width = config.integer("d_model", 1024, least=2)
        position = self._position(config)
        both = {
            "width": width,
            "dropout": config.dropout("dropout", 0.1),
        }
        scale = config.flag("scale_embedding", choice.scale)
        activation = config.choice("activation_function", choice.activation, ACTIVATIONS)
        dropped = config.dropout("attention_dropout", choice.attention_dropout)
        config.number("activation_dropout", 0.0)  # matters for training alone, and ours has none

        def stack(side: str) -> dict[str, Any]:
            return {
                "kind": "transformer",
                **both,
                "layers": config.integer(f"{side}_layers", 12, least=1, most=1000),
                "heads": config.integer(f"{side}_attention_heads", 16, least=1),
                "feed_forward": config.integer(f"{side}_ffn_dim", 4096, least=1),
                "norm": choice.norm,
                "activation": activation,
                "attention": {"kind": "multi_head", "dropout": dropped} if dropped else "multi_head",
            }

        return {
            "kind": "seq2seq",
            "share": share,
            "stem": {
                "kind": "tokens",
                **both,
                "position": position,
                "scale": scale,
                "embedding_norm": choice.embedding_norm,
            },
            "encoder": stack("encoder"),
            "decoder": {
                **stack("decoder"),
                "position": position,
                "tie": tie,
                "scale": scale,
                "embedding_norm": choice.embedding_norm,
                "output_bias": True,
            },
        }

    def _position(self, config: Config) -> dict[str, Any] | str:
        if self.choice.position == "learned":
            return {"kind": "learned", "length": self.longest_source(config)}
        if self.choice.position == "inclusive":
            offset = config.integer("pad_token_id", self.choice.pad) + 1
            return {"kind": "sinusoidal_halves", "offset": offset, "inclusive": True}
        return "sinusoidal_halves"

    def longest_source(self, config: Config) -> int:
        return config.integer("max_position_embeddings", 1024, least=1)

    def entries(self, model: Mapping[str, Any], scaled_output: bool = False) -> list[Entry]:
        return list(self._entries(model))

    def _entries(self, model: Mapping[str, Any]) -> Iterator[Entry]:
        learned = self.choice.position == "learned"
        for side, part, ours in (("encoder", "encoder", "stem"), ("decoder", "decoder", "decoder")):
            if learned:
                theirs = (f"model.{side}.embed_positions.weight",)
                yield Entry(f"{ours}.embedding.position.table.weight", theirs, skip=SKIPPED)
            if self.choice.embedding_norm:
                yield from _same(f"{ours}.embedding.norm", f"model.{side}.layernorm_embedding")
            if self.choice.norm == "pre":
                yield from _same(f"{part}.norm", f"model.{side}.layer_norm")
            for number in range(model[part]["layers"]):
                yield from _layer(f"{part}.layers.{number}", f"model.{side}.layers.{number}", side == "decoder")
        if self.choice.logits_bias:
            yield Entry("decoder.output_bias", ("final_logits_bias",), rows="target", flat=True)

    def why_not(self, recipe: Recipe) -> str:
        model, choice = recipe.model, self.choice
        stem, encoder, decoder = (model.get(part, {}) for part in ("stem", "encoder", "decoder"))
        if obstacle := no_transformer(recipe):
            return obstacle
        for part in (encoder, decoder):
            for key, value in (
                ("norm", choice.norm),
                ("norm_kind", "layer"),
                ("norm_epsilon", 1e-5),
                ("gated", False),
                ("bias", True),
                ("head_width", 0),
                ("relative_position", "none"),
            ):
                if part.get(key, value) != value:
                    return f"only {key} = {value}"
            if part["activation"] not in THEIR_ACTIVATIONS:
                return f"no activation {part['activation']}"
        if len({part["width"] for part in (stem, encoder, decoder)}) > 1:
            return "only parts of one width"
        if encoder["activation"] != decoder["activation"] or bool(stem["scale"]) != bool(decoder["scale"]):
            return "only the same activation and scale on both sides"
        if stem["position"] != decoder["position"]:
            return "only the same positions on both sides"
        for part in (stem, decoder):
            if bool(part.get("embedding_norm", False)) != choice.embedding_norm:
                return f"only embedding_norm = {str(choice.embedding_norm).lower()}"
        return self._why_not_position(stem["position"]) or self._why_not_output(recipe)

    def _why_not_position(self, position: Any) -> str:
        table = dict(position) if isinstance(position, dict) else {"kind": position}
        kind = table.pop("kind")
        if self.choice.position == "learned":
            return "" if kind == "learned" else f"no positions of the kind {kind}"
        if self.choice.position == "inclusive":
            # The offset is the row of the padding token plus one, which is always the same here.
            wanted = {"offset": self.choice.pad + 1, "inclusive": True}
            return "" if kind == "sinusoidal_halves" and table == wanted else "only M2M100's positions"
        if kind == "sinusoidal":
            return ""
        plain = kind == "sinusoidal_halves" and not table.get("offset") and not table.get("inclusive")
        return "" if plain else f"no positions of the kind {kind}"

    def _why_not_output(self, recipe: Recipe) -> str:
        return ""

    def config(self, recipe: Recipe, special: Mapping[str, int], sizes: tuple[int, int]) -> dict[str, Any]:
        model = recipe.model
        stem, encoder, decoder = model["stem"], model["encoder"], model["decoder"]
        attention = encoder["attention"]
        position = stem["position"]
        learned = isinstance(position, dict) and position.get("kind") == "learned"
        return {
            "model_type": self.variant,
            "architectures": [self.choice.architecture],
            "d_model": encoder["width"],
            "encoder_layers": encoder["layers"],
            "decoder_layers": decoder["layers"],
            "encoder_attention_heads": encoder["heads"],
            "decoder_attention_heads": decoder["heads"],
            "encoder_ffn_dim": encoder["feed_forward"],
            "decoder_ffn_dim": decoder["feed_forward"],
            "activation_function": THEIR_ACTIVATIONS[encoder["activation"]],
            "dropout": encoder["dropout"],
            "attention_dropout": attention.get("dropout", 0.0) if isinstance(attention, dict) else 0.0,
            "activation_dropout": 0.0,
            "encoder_layerdrop": 0.0,
            "decoder_layerdrop": 0.0,
            "scale_embedding": bool(stem["scale"]),
            "tie_word_embeddings": bool(decoder["tie"]),
            "max_position_embeddings": position.get("length", 512) if learned else self._positions(recipe),
            "is_encoder_decoder": True,
            "use_cache": True,
            "vocab_size": sizes[0],
            **special,
        }

    def _positions(self, recipe: Recipe) -> int:
        """Rows of the table that they compute: as many as a source or an output may need."""
        return max(recipe.data.max_length, recipe.decoding.max_length + 1)


def _same(ours: str, theirs: str) -> Iterator[Entry]:
    for kind in ("weight", "bias"):
        yield Entry(f"{ours}.{kind}", (f"{theirs}.{kind}",))


def _layer(ours: str, theirs: str, decoder: bool) -> Iterator[Entry]:
    yield from _attention(f"{ours}.attention", f"{theirs}.self_attn")
    yield from _same(f"{ours}.around_attention.norm", f"{theirs}.self_attn_layer_norm")
    if decoder:
        yield from _attention(f"{ours}.cross_attention", f"{theirs}.encoder_attn")
        yield from _same(f"{ours}.around_cross_attention.norm", f"{theirs}.encoder_attn_layer_norm")
    yield from _same(f"{ours}.feed_forward.inward", f"{theirs}.fc1")
    yield from _same(f"{ours}.feed_forward.outward", f"{theirs}.fc2")
    yield from _same(f"{ours}.around_feed_forward.norm", f"{theirs}.final_layer_norm")


def _attention(ours: str, theirs: str) -> Iterator[Entry]:
    for kind in ("weight", "bias"):
        yield Entry(f"{ours}.inward.{kind}", tuple(f"{theirs}.{one}_proj.{kind}" for one in "qkv"))
    yield from _same(f"{ours}.outward", f"{theirs}.out_proj")
