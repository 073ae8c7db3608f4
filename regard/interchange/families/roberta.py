"""RoBERTa (Liu et al. 2019): BERT's encoder with byte-level BPE; its positions are counted from the padding's id on."""

from __future__ import annotations

from typing import Any

from regard.config import Recipe
from regard.interchange.families import _bert_layout as layout
from regard.interchange.families._config import Config
from regard.interchange.families._encoder import CLASSIFY, FILL, TAG, EncoderFamily
from regard.interchange.families._encoder_layout import Shape
from regard.interchange.families._encoder_tokens import BYTE_LEVEL

__all__ = ["RoBERTa"]


class RoBERTa(EncoderFamily):
    """Position 0 of a text is the row after that of the padding's id."""

    model_types = ("roberta",)
    heads = {
        "RobertaForMaskedLM": FILL,
        "RobertaForSequenceClassification": CLASSIFY,
        "RobertaForTokenClassification": TAG,
    }
    architectures = tuple(heads)
    names = layout.names(
        "roberta",
        fill=("lm_head.dense", "lm_head.layer_norm"),
        output="lm_head.decoder",
        output_bias="lm_head.bias",
        classify=("classifier.dense", "classifier.out_proj"),
    )
    tokenizer, head_activation = BYTE_LEVEL, "tanh"
    unused = ("roberta.pooler.", "roberta.embeddings.position_ids", "roberta.embeddings.token_type_ids")

    def name(self, theirs: str) -> str:
        theirs = layout.modern(theirs)
        return theirs if theirs.startswith(("roberta.", "lm_head.", "classifier.")) else f"roberta.{theirs}"

    def shape(self, config: Config) -> Shape:
        return layout.shape(config, config.integer("pad_token_id", 1) + 1, 512, 2)

    def head_dropout(self, config: Config, task: str) -> float:
        return layout.head_dropout(config)

    def fill_activation(self, encoder: str) -> str:
        return "gelu"

    def shape_of(self, recipe: Recipe, pad: int) -> Shape:
        return layout.shape_of(recipe, kinds=1, skip=pad + 1)

    def config(self, recipe: Recipe, shape: Shape) -> dict[str, Any]:
        return layout.config(recipe, shape)
