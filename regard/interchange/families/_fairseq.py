"""Tokens of models that came from fairseq (NLLB, mBART): four special ones, a sentencepiece model's, then tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from regard.config import Languages
from regard.errors import UserError
from regard.interchange.families import _tokens
from regard.interchange.families._bart_layout import Choices
from regard.interchange.families._base import Text
from regard.interchange.families._config import Config
from regard.interchange.families._vocabulary import renumbered
from regard.interchange.read.foreign_folder import ForeignFolder

SENTENCEPIECE = "sentencepiece.bpe.model"
FIRST = ("<s>", "<pad>", "</s>", "<unk>")
"""Ids 0 to 3; piece i of the sentencepiece model has the id i + 1."""
TAG = re.compile(r"([a-z]{2,3})_([A-Z]{2}|[A-Z][a-z]{3})")
"""deu_Latn of NLLB, de_DE and en_XX of mBART."""
_LEGACY = "legacy_behaviour"
_MBART = """
ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX ro_RO
ru_RU si_LK tr_TR vi_VN zh_CN
"""
_MORE = """
af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN
th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI
"""
_UNLISTED = {len(codes): codes for codes in (_MBART.split(), (_MBART + _MORE).split())}
"""The tags of mBART and mBART-50 in the order of their rows, which folders without a tokenizer.json may leave out."""


def special(choice: Choices, config: Config, generation: Config, size: int) -> tuple[int, int, int]:
    """Start, end and padding."""
    start, end, pad = (
        _tokens.token_id(config, generation, key, size, default)
        for key, default in (
            ("decoder_start_token_id", choice.start),
            ("eos_token_id", choice.end),
            ("pad_token_id", choice.pad),
        )
    )
    return start, end, pad


def row(files: ForeignFolder, pieces: Mapping[int, str], piece: str, file: str) -> int:
    """The id of a piece."""
    found = next((id for id, one in pieces.items() if one == piece), None)
    if found is None:
        raise UserError(f"{files.path / file}: no token {piece[:40]!r} in it; take another copy")
    return found


def text(
    choice: Choices, config: Config, generation: Config, files: ForeignFolder, note: Callable[[str], None]
) -> Text:
    """Both kinds of files hold the same pieces; the sentencepiece model needs no further library."""
    size = config.integer("vocab_size", choice.vocabulary, least=4)
    start, end, pad = special(choice, config, generation, size)
    model = None
    if SENTENCEPIECE in files:
        model, processor = _tokens.sentencepiece_model(files, SENTENCEPIECE)
        cut = _tokens.pieces_of(processor)
        if cut[:3] != ["<unk>", "<s>", "</s>"]:
            raise UserError(f"{files.path / SENTENCEPIECE}: its first pieces are not <unk>, <s>, </s>")
        added = _tokens.added_tokens(files)
        if not any(TAG.fullmatch(piece) for piece in added.values()):
            listed = _tokens.extra_special_tokens(files)
            if not any(map(TAG.fullmatch, listed)):  # after the tags there is <mask>
                listed = _UNLISTED.get(size - len(cut) - 2, listed)
            added |= dict(enumerate(listed, len(cut) + 1))
        pieces = dict(enumerate([*FIRST, *cut[3:]])) | added
    else:
        pieces = _tokens.hugging_face_pieces(files)
        added = _tokens.added_tokens(files)
    pieces = {id: piece for id, piece in pieces.items() if id < size}
    unknown = row(files, pieces, _tokens.special_token(files, "unk_token", "<unk>"), "tokenizer.json")
    vocabulary = renumbered(size, pad, unknown, start, end)
    found = {id: piece for id, piece in sorted(pieces.items()) if id > 3 and TAG.fullmatch(piece)}
    if model is not None:
        tokenizer = _tokens.sentencepiece_tokenizer(model, pieces, vocabulary, {*added.values(), *FIRST})
    else:
        hidden = {*added, *found, 0, 1, 2} | {id for id in range(size) if id not in pieces}
        tokenizer = _tokens.hugging_face(files, vocabulary, hidden)
    limit = _tokens.limit(files)
    # A start that is a language's tag fixes the target: it is BEGIN now, and no tag any more.
    tags = _tokens.by_language((piece, piece) for id, piece in found.items() if id != start)
    if not tags:
        return Text(tokenizer, vocabulary, vocabulary, limit=limit)
    into = _tokens.by_language([(found[start], found[start])]) if start in found else tags
    after = start in found or bool(_tokens.tokenizer_config(files).get(_LEGACY))
    spoken = Languages(
        source=list(tags),
        target=list(into),
        source_tag="after" if after else "before",
        target_tag="none" if start in found else "output",
        tags=tags,
    )
    return Text(tokenizer, vocabulary, vocabulary, spoken, limit=limit)
