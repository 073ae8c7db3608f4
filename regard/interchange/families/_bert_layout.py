"""What BERT and RoBERTa share: the names of their tensors, and the keys of their configs."""

from __future__ import annotations

import re
from typing import Any

from regard.config import Recipe
from regard.interchange.families._base import ACTIVATIONS, THEIR_ACTIVATIONS
from regard.interchange.families._config import Config
from regard.interchange.families._encoder_layout import Names, Shape
from regard.interchange.families._language_model import table_of

_UNUSED = """initializer_range pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head
pooler_type"""
_OLD = re.compile(r"\.LayerNorm\.(gamma|beta)$")


def names(prefix: str, **heads: Any) -> Names:
    """BERT's names, RoBERTa has them with another prefix."""
    return Names(
        embeddings=f"{prefix}.embeddings",
        layer=f"{prefix}.encoder.layer.{{}}",
        attention=("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"),
        attention_norm="attention.output.LayerNorm",
        feed_forward=("intermediate.dense", "output.dense"),
        feed_forward_norm="output.LayerNorm",
        **heads,
    )


def modern(name: str) -> str:
    """The name of a tensor where an older file calls the parts of a norm gamma and beta."""
    return _OLD.sub(lambda found: ".LayerNorm." + ("weight" if found[1] == "gamma" else "bias"), name)


def shape(config: Config, skip: int, positions: int, kinds: int) -> Shape:
    """The sizes of a config of BERT's or RoBERTa's."""
    for key in _UNUSED.split():
        config.get(key)
    return Shape(
        width=config.integer("hidden_size", 768, least=1),
        layers=config.integer("num_hidden_layers", 12, least=1, most=1000),
        heads=config.integer("num_attention_heads", 12, least=1),
        feed_forward=config.integer("intermediate_size", 3072, least=1),
        activation=config.choice("hidden_act", "gelu", ACTIVATIONS),
        epsilon=config.number("layer_norm_eps", 1e-12),
        positions=config.integer("max_position_embeddings", positions, least=1),
        dropout=config.dropout("hidden_dropout_prob", 0.1),
        attention_dropout=config.dropout("attention_probs_dropout_prob", 0.1),
        kinds=config.integer("type_vocab_size", kinds, least=1),
        skip=skip,
    )


def head_dropout(config: Config) -> float:
    return config.dropout("classifier_dropout", config.dropout("hidden_dropout_prob", 0.1))


def config(recipe: Recipe, shape: Shape) -> dict[str, Any]:
    """A config of BERT's or RoBERTa's."""
    encoder = recipe.model["encoder"]
    return {
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.feed_forward,
        "hidden_act": THEIR_ACTIVATIONS[encoder["activation"]],
        "layer_norm_eps": shape.epsilon,
        "max_position_embeddings": shape.positions,
        "type_vocab_size": shape.kinds,
        "hidden_dropout_prob": shape.dropout,
        "attention_probs_dropout_prob": shape.attention_dropout,
        "classifier_dropout": recipe.model.get("head_dropout"),
    }


def shape_of(recipe: Recipe, kinds: int = 0, skip: int = 0) -> Shape:
    """The sizes of a model of ours."""
    stem, encoder = recipe.model["stem"], recipe.model["encoder"]
    return Shape(
        width=encoder["width"],
        layers=encoder["layers"],
        heads=encoder["heads"],
        feed_forward=encoder["feed_forward"],
        activation=encoder["activation"],
        epsilon=encoder["norm_epsilon"],
        positions=table_of(stem["position"]).get("length", 512) + skip,
        dropout=encoder["dropout"],
        attention_dropout=table_of(encoder["attention"]).get("dropout", 0.0),
        kinds=kinds,
        skip=skip,
    )
