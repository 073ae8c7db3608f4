"""DistilBERT (Sanh et al. 2019): BERT's encoder without segments and without a pooler."""

from __future__ import annotations

from typing import Any

from regard.config import Recipe
from regard.interchange.families import _bert_layout as layout
from regard.interchange.families._base import ACTIVATIONS, THEIR_ACTIVATIONS
from regard.interchange.families._config import Config
from regard.interchange.families._encoder import CLASSIFY, FILL, TAG, EncoderFamily
from regard.interchange.families._encoder_layout import Names, Shape
from regard.interchange.families._encoder_tokens import WORD_PIECE

__all__ = ["DistilBERT"]

_EPSILON = 1e-12


class DistilBERT(EncoderFamily):
    """Its norms add 1e-12, whatever a config says."""

    model_types = ("distilbert",)
    heads = {
        "DistilBertForMaskedLM": FILL,
        "DistilBertForSequenceClassification": CLASSIFY,
        "DistilBertForTokenClassification": TAG,
    }
    architectures = tuple(heads)
    names = Names(
        embeddings="distilbert.embeddings",
        layer="distilbert.transformer.layer.{}",
        attention=("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"),
        attention_norm="sa_layer_norm",
        feed_forward=("ffn.lin1", "ffn.lin2"),
        feed_forward_norm="output_layer_norm",
        fill=("vocab_transform", "vocab_layer_norm"),
        output="vocab_projector",
        output_bias="vocab_projector.bias",
        classify=("pre_classifier", "classifier"),
    )
    tokenizer, head_activation = WORD_PIECE, "relu"
    unused = ("distilbert.embeddings.position_ids",)

    def name(self, theirs: str) -> str:
        theirs = layout.modern(theirs)
        heads = ("vocab_transform.", "vocab_layer_norm.", "vocab_projector.", "pre_classifier.", "classifier.")
        return theirs if theirs.startswith(("distilbert.", *heads)) else f"distilbert.{theirs}"

    def shape(self, config: Config) -> Shape:
        for key in ("initializer_range", "qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "tie_weights_"):
            config.get(key)
        return Shape(
            width=config.integer("dim", 768, least=1),
            layers=config.integer("n_layers", 6, least=1, most=1000),
            heads=config.integer("n_heads", 12, least=1),
            feed_forward=config.integer("hidden_dim", 3072, least=1),
            activation=config.choice("activation", "gelu", ACTIVATIONS),
            epsilon=_EPSILON,
            positions=config.integer("max_position_embeddings", 512, least=1),
            dropout=config.dropout("dropout", 0.1),
            attention_dropout=config.dropout("attention_dropout", 0.1),
        )

    def head_dropout(self, config: Config, task: str) -> float:
        if task == CLASSIFY:
            return config.dropout("seq_classif_dropout", 0.2)
        return config.dropout("dropout", 0.1)

    def fill_activation(self, encoder: str) -> str:
        return encoder

    def shape_of(self, recipe: Recipe, pad: int) -> Shape:
        return layout.shape_of(recipe)

    def other_sizes(self, recipe: Recipe) -> str:
        epsilon = recipe.model["encoder"]["norm_epsilon"]
        return "" if epsilon == _EPSILON else f"only norm_epsilon = {_EPSILON:g}, not {epsilon:g}"

    def config(self, recipe: Recipe, shape: Shape) -> dict[str, Any]:
        return {
            "dim": shape.width,
            "n_layers": shape.layers,
            "n_heads": shape.heads,
            "hidden_dim": shape.feed_forward,
            "activation": THEIR_ACTIVATIONS[shape.activation],
            "max_position_embeddings": shape.positions,
            "dropout": shape.dropout,
            "attention_dropout": shape.attention_dropout,
            "seq_classif_dropout": recipe.model.get("head_dropout", 0.2),
        }
