"""M2M100 (Fan et al. 2021) and NLLB (Costa-jussà et al. 2022): pre-norm, positions that begin behind the padding's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import ClassVar

from regard.config import Languages, Recipe
from regard.errors import UserError
from regard.interchange.families import _fairseq, _tokens
from regard.interchange.families._bart_layout import BartLayout, Choices
from regard.interchange.families._base import Text
from regard.interchange.families._config import Config
from regard.interchange.families._vocabulary import renumbered
from regard.interchange.read.foreign_folder import ForeignFolder

__all__ = ["M2M100"]

_TAG = re.compile(r"__([a-z]{2,3})__")
_M2M100 = """
af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy id ig
ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so
sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu
"""
CODES = {"m2m100": _M2M100.split(), "wmt21": ["en", "ha", "is", "ja", "cs", "ru", "zh", "de"]}
"""Languages in the order of their tokens, which follow the vocabulary and are in no file."""


class M2M100(BartLayout):
    """The source begins with the tag of its language, the output with that of its own."""

    model_types = ("m2m_100",)
    architectures = ("M2M100ForConditionalGeneration", "M2M100Model")
    computed = ("embed_positions.weights", "embed_positions.weight")
    choices: ClassVar[Mapping[str, Choices]] = {
        "m2m_100": Choices(
            "pre",
            "inclusive",
            False,
            False,
            "M2M100ForConditionalGeneration",
            128112,
            activation="relu",
            attention_dropout=0.1,
            scale=True,
            start=2,
        ),
    }

    def text(self, config: Config, generation: Config, files: ForeignFolder, note: Callable[[str], None]) -> Text:
        if "vocab.json" not in files:
            return _fairseq.text(self.choice, config, generation, files, note)
        size = config.integer("vocab_size", self.choice.vocabulary, least=4)
        pieces = _tokens.vocabulary_file(files, "vocab.json", size)
        stated = _tokens.tokenizer_config(files).get("language_codes", "m2m100")
        if not isinstance(stated, str) or stated not in CODES:
            raise UserError(f"{files.path / 'tokenizer_config.json'}: language_codes: not known; use m2m100 or wmt21")
        listed = [found[1] for tag in _tokens.extra_special_tokens(files) if (found := _TAG.fullmatch(tag))]
        order = listed or CODES[stated]
        first = len(pieces)
        tags = {first + number: f"__{code}__" for number, code in enumerate(order) if first + number < size}
        pieces = {**tags, **pieces}
        start, end, pad = _fairseq.special(self.choice, config, generation, size)
        unknown = _fairseq.row(files, pieces, _tokens.special_token(files, "unk_token", "<unk>"), "vocab.json")
        vocabulary = renumbered(size, pad, unknown, start, end)
        model, _ = _tokens.sentencepiece_model(files, "sentencepiece.bpe.model")
        hidden = {*tags.values(), "<s>", "</s>", "<pad>"}
        tokenizer = _tokens.sentencepiece_tokenizer(model, pieces, vocabulary, hidden)
        by_code = _tokens.by_language((code, f"__{code}__") for code in order if f"__{code}__" in tags.values())
        spoken = Languages(
            source=list(by_code), target=list(by_code), source_tag="before", target_tag="output", tags=by_code
        )
        return Text(tokenizer, vocabulary, vocabulary, spoken, limit=_tokens.limit(files))

    def _why_not_output(self, recipe: Recipe) -> str:
        if not recipe.model.get("share", True) or not recipe.model["decoder"]["tie"]:
            return "only one table for both languages and the output"
        return ""
