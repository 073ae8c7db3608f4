"""BART (Lewis et al. 2020) and mBART (Liu et al. 2020): learned positions, a norm after the embedding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from regard.config import Languages, Recipe
from regard.interchange.families import _fairseq, _tokens
from regard.interchange.families._bart_layout import BartLayout, Choices
from regard.interchange.families._base import Text
from regard.interchange.families._config import Config
from regard.interchange.families._vocabulary import renumbered
from regard.interchange.read.foreign_folder import ForeignFolder

__all__ = ["Bart"]


class Bart(BartLayout):
    """Post-norm (BART) or pre-norm (mBART)."""

    model_types = ("bart", "mbart")
    architectures = (
        "BartForConditionalGeneration",
        "BartModel",
        "MBartForConditionalGeneration",
        "MBartModel",
    )
    choices: ClassVar[Mapping[str, Choices]] = {
        "bart": Choices("post", "learned", True, True, "BartForConditionalGeneration", 50265, start=2),
        "mbart": Choices("pre", "learned", True, True, "MBartForConditionalGeneration", 50265),
    }

    def text(self, config: Config, generation: Config, files: ForeignFolder, note: Callable[[str], None]) -> Text:
        if self.variant == "mbart":
            return _fairseq.text(self.choice, config, generation, files, note)
        size = config.integer("vocab_size", self.choice.vocabulary, least=4)
        pieces = {id: piece for id, piece in _tokens.hugging_face_pieces(files).items() if id < size}
        start, end, pad = _fairseq.special(self.choice, config, generation, size)
        unknown = _fairseq.row(files, pieces, _tokens.special_token(files, "unk_token", "<unk>"), _tokens.TOKENIZER)
        vocabulary = renumbered(size, pad, unknown, start, end)
        hidden = {*_tokens.added_tokens(files), 0, 1, 2} | {id for id in range(size) if id not in pieces}
        tokenizer = _tokens.hugging_face(files, vocabulary, hidden)
        begin = next(
            (id for id, piece in pieces.items() if piece == _tokens.special_token(files, "bos_token", "<s>")), -1
        )
        forced = generation.optional_integer("forced_bos_token_id")
        ordinary = set(vocabulary.rows[4:])
        spoken = Languages(
            source_token=pieces[begin] if begin in ordinary else "",
            output_token=pieces[forced] if forced in ordinary and forced in pieces else "",
        )
        return Text(tokenizer, vocabulary, vocabulary, spoken, limit=_tokens.limit(files))

    def _why_not_output(self, recipe: Recipe) -> str:
        if not recipe.model.get("share", True) or not recipe.model["decoder"]["tie"]:
            return "only one table for both languages and the output"
        return ""
