"""BERT (Devlin et al. 2019): post-norm, learned positions, a norm after the embedding."""

from __future__ import annotations

from typing import Any

from regard.config import Recipe
from regard.interchange.families import _bert_layout as layout
from regard.interchange.families._config import Config
from regard.interchange.families._encoder import CLASSIFY, FILL, TAG, EncoderFamily
from regard.interchange.families._encoder_layout import Shape
from regard.interchange.families._encoder_tokens import WORD_PIECE

__all__ = ["BERT"]


class BERT(EncoderFamily):
    """A classifier reads the first position through a layer with tanh, the pooler."""

    model_types = ("bert",)
    heads = {
        "BertForMaskedLM": FILL,
        "BertForPreTraining": FILL,
        "BertForSequenceClassification": CLASSIFY,
        "BertForTokenClassification": TAG,
    }
    architectures = tuple(heads)
    names = layout.names(
        "bert",
        fill=("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"),
        output="cls.predictions.decoder",
        output_bias="cls.predictions.bias",
        classify=("bert.pooler.dense", "classifier"),
    )
    tokenizer, head_activation = WORD_PIECE, "tanh"
    unused = ("bert.pooler.", "cls.seq_relationship.", "bert.embeddings.position_ids", "bert.embeddings.token_type_ids")

    def name(self, theirs: str) -> str:
        theirs = layout.modern(theirs)
        return theirs if theirs.startswith(("bert.", "cls.", "classifier.")) else f"bert.{theirs}"

    def shape(self, config: Config) -> Shape:
        config.must_be("directionality", "bidi")
        return layout.shape(config, 0, 512, 2)

    def head_dropout(self, config: Config, task: str) -> float:
        return layout.head_dropout(config)

    def fill_activation(self, encoder: str) -> str:
        return encoder

    def shape_of(self, recipe: Recipe, pad: int) -> Shape:
        return layout.shape_of(recipe, kinds=2)

    def config(self, recipe: Recipe, shape: Shape) -> dict[str, Any]:
        return layout.config(recipe, shape)
