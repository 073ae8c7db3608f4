"""Marian (Junczys-Dowmunt et al. 2018), which OPUS-MT's models are, and Pegasus, its pre-norm form: sines in the first
half of a position's vector, cosines in the second."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from regard import languages as codes
from regard.config import Languages, Recipe
from regard.errors import UserError
from regard.interchange.families import _tokens
from regard.interchange.families._bart_layout import BartLayout, Choices
from regard.interchange.families._base import Text
from regard.interchange.families._config import Config
from regard.interchange.families._vocabulary import renumbered
from regard.interchange.read.foreign_folder import ForeignFolder

__all__ = ["Marian"]

_TAG = re.compile(r">>([A-Za-z]{2,3}(?:_[A-Za-z]{2,8})?)<<")


class Marian(BartLayout):
    """Post-norm (Marian) or pre-norm (Pegasus), without a norm after the embedding."""

    model_types = ("marian", "pegasus")
    architectures = ("MarianMTModel", "MarianModel", "PegasusForConditionalGeneration", "PegasusModel")
    computed = ("embed_positions.weight",)
    choices: ClassVar[Mapping[str, Choices]] = {
        "marian": Choices("post", "halves", False, True, "MarianMTModel", 58101, start=58100, pad=58100, end=0),
        "pegasus": Choices(
            "pre", "halves", False, True, "PegasusForConditionalGeneration", 50265, start=0, pad=0, end=1
        ),
    }

    def text(self, config: Config, generation: Config, files: ForeignFolder, note: Callable[[str], None]) -> Text:
        if self.variant == "pegasus":
            return self._pegasus(config, generation, files)
        choice = self.choice
        sizes = (
            config.integer("vocab_size", choice.vocabulary, least=4),
            config.optional_integer("decoder_vocab_size", 4),
        )
        separate = bool(_tokens.tokenizer_config(files).get("separate_vocabs")) or "target_vocab.json" in files
        shared = config.flag("share_encoder_decoder_embeddings", True)
        if separate and shared:
            raise UserError(f"{files.path}: two vocabularies, but config.json says that the languages share one")
        size, target_size = sizes[0], (sizes[1] or sizes[0]) if not shared else sizes[0]
        if not separate and target_size != size:
            raise UserError(f"{files.path}: target_vocab.json is missing: the target has {target_size:,} tokens")
        start = _tokens.token_id(config, generation, "decoder_start_token_id", target_size, choice.start)
        end = _tokens.token_id(config, generation, "eos_token_id", target_size, choice.end)
        pieces = _tokens.vocabulary_file(files, "vocab.json", size)
        others = _tokens.vocabulary_file(files, "target_vocab.json", target_size) if separate else pieces
        ids = {piece: id for id, piece in pieces.items()}
        unknown = _tokens.special_token(files, "unk_token", "<unk>")
        padding = _tokens.special_token(files, "pad_token", "<pad>")
        pad = _tokens.token_id(config, generation, "pad_token_id", max(size, target_size), choice.pad)

        def row(table: Mapping[str, int], piece: str, file: str) -> int:
            if piece not in table:
                raise UserError(f"{files.path / file}: no token {piece[:40]!r} in it; take another copy")
            return table[piece]

        source_model, _ = _tokens.sentencepiece_model(files, "source.spm")
        target_model, _ = _tokens.sentencepiece_model(files, "target.spm")
        hidden = {padding, others.get(end, ""), "</s>"} | {piece for piece in pieces.values() if _TAG.fullmatch(piece)}
        limit = _tokens.limit(files)
        if separate:
            target_ids = {piece: id for id, piece in others.items()}
            # The source's vocabulary has no start; its padding is only ever masked.
            ending = row(ids, others.get(end, "</s>"), "vocab.json")
            source_pad = ids.get(padding, ending)
            source = renumbered(size, source_pad, row(ids, unknown, "vocab.json"), source_pad, ending)
            target = renumbered(target_size, start, row(target_ids, unknown, "target_vocab.json"), start, end)
            tokenizer = _tokens.sentencepiece_tokenizer(
                source_model, pieces, source, hidden, target_model, others, target
            )
        else:
            source = target = renumbered(size, min(pad, size - 1), row(ids, unknown, "vocab.json"), start, end)
            tokenizer = _tokens.sentencepiece_tokenizer(source_model, pieces, source, hidden, target_model)
        stated = _tokens.tokenizer_config(files)
        one, other = (_language(stated.get(key)) for key in ("source_lang", "target_lang"))
        tags = _tokens.by_language((found[1], piece) for piece in pieces.values() if (found := _TAG.fullmatch(piece)))
        if not tags:
            return Text(tokenizer, source, target, source_language=one, target_language=other, limit=limit)
        sources = [one] if one else list(tags)
        if not one:
            note("its files do not say which languages it reads; those that it writes are taken for them")
        spoken = Languages(source=sources, target=list(tags), target_tag="source", tags=tags)
        return Text(tokenizer, source, target, spoken, limit=limit)

    def _pegasus(self, config: Config, generation: Config, files: ForeignFolder) -> Text:
        """Its tokens are numbered by a tokenizer.json."""
        choice = self.choice
        size = config.integer("vocab_size", choice.vocabulary, least=4)
        pieces = _tokens.hugging_face_pieces(files)
        unknown = _tokens.special_token(files, "unk_token", "<unk>")
        start, end, pad = (
            _tokens.token_id(config, generation, key, size, default)
            for key, default in (
                ("decoder_start_token_id", choice.start),
                ("eos_token_id", choice.end),
                ("pad_token_id", choice.pad),
            )
        )
        row = next((id for id, piece in pieces.items() if piece == unknown and id < size), pad)
        vocabulary = renumbered(size, pad, row, start, end)
        hidden = _tokens.added_tokens(files).keys() | {id for id in range(size) if id not in pieces}
        tokenizer = _tokens.hugging_face(files, vocabulary, hidden)
        stated = _tokens.tokenizer_config(files)
        one, other = (_language(stated.get(key)) for key in ("source_lang", "target_lang"))
        return Text(
            tokenizer, vocabulary, vocabulary, source_language=one, target_language=other, limit=_tokens.limit(files)
        )

    def config(self, recipe: Recipe, special: Mapping[str, int], sizes: tuple[int, int]) -> dict[str, Any]:
        found = super().config(recipe, special, sizes)
        if self.variant == "marian":
            found |= {
                "decoder_vocab_size": sizes[1],
                "share_encoder_decoder_embeddings": bool(recipe.model.get("share", True)),
            }
        return found

    def _why_not_output(self, recipe: Recipe) -> str:
        if self.variant == "pegasus" and not recipe.model.get("share", True):
            return "only one vocabulary for both languages"
        return ""


def _language(value: Any) -> str:
    """Our code of a language that a tokenizer's config names; groups of languages have none."""
    code = codes.internal(value) if isinstance(value, str) else ""
    return code if codes.is_known(code) else ""
