"""What the small files of a Hugging Face folder say about its tokens, without any library of theirs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import sentencepiece

from regard import languages
from regard.data.tokenizer._base import Tokenizer
from regard.errors import UserError
from regard.interchange.families._config import Config
from regard.interchange.families._vocabulary import Vocabulary, spelled
from regard.interchange.read.foreign_folder import ForeignFolder

TOKENIZER = "tokenizer.json"
_MOST_TOKENS = 1 << 20


def sentencepiece_model(files: ForeignFolder, name: str) -> tuple[bytes, sentencepiece.SentencePieceProcessor]:
    """A sentencepiece file, and what reads it."""
    content = files.read(name)
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
        if not 0 < len(processor) <= _MOST_TOKENS:
            raise ValueError("no pieces, or too many")
    except (RuntimeError, ValueError, TypeError, OSError):
        raise UserError(f"{files.path / name}: not a sentencepiece model; take another copy") from None
    return content, processor


def pieces_of(processor: sentencepiece.SentencePieceProcessor) -> list[str]:
    try:
        found: list[str] = processor.id_to_piece(list(range(len(processor))))
    except UnicodeDecodeError:
        raise UserError("a sentencepiece model has pieces that are no text; take another copy of the folder") from None
    return found


def _check_texts(pieces: Iterable[str], where: object) -> None:
    """Refuses pieces that no file could hold: JSON can spell half of a character."""
    try:
        "".join(pieces).encode()
    except UnicodeEncodeError:
        raise UserError(f"{where}: a token is no text; take another copy") from None


def vocabulary_file(files: ForeignFolder, name: str, size: int) -> dict[int, str]:
    """A vocabulary of the form {piece: id}."""
    where = files.path / name
    table: dict[int, str] = {}
    for piece, id in files.json(name).items():
        if type(id) is not int or not 0 <= id < size:
            raise UserError(f"{where}: {piece[:40]!r} has the id {str(id)[:20]}, and the model has {size:,} tokens")
        if id in table:
            raise UserError(f"{where}: {piece[:40]!r} and {table[id][:40]!r} have the same id {id}")
        table[id] = piece
    _check_texts(table.values(), where)
    return table


def tokenizer_config(files: ForeignFolder) -> dict[str, Any]:
    return files.json_if_there("tokenizer_config.json")


def added_tokens(files: ForeignFolder) -> dict[int, str]:
    """Tokens beside those of the tokenizer's model, by id."""
    found: dict[int, str] = {}
    for piece, id in files.json_if_there("added_tokens.json").items():
        if type(id) is int:
            found[id] = piece
    listed = tokenizer_config(files).get("added_tokens_decoder")
    if isinstance(listed, dict):
        for key, entry in listed.items():
            if key.isascii() and key.isdigit() and len(key) < 10 and (text := _content(entry)):
                found[int(key)] = text
    if TOKENIZER in files:
        for entry in _list(files.json(TOKENIZER).get("added_tokens")):
            if isinstance(entry, dict) and type(entry.get("id")) is int and (text := _content(entry)):
                found[entry["id"]] = text
    return found


def extra_special_tokens(files: ForeignFolder) -> list[str]:
    """Special tokens that have no role, such as language tags, in the order of their ids."""
    for table in (files.json_if_there("special_tokens_map.json"), tokenizer_config(files)):
        for key in ("additional_special_tokens", "extra_special_tokens"):
            if found := [text for entry in _list(table.get(key)) if (text := _content(entry))]:
                return found
    return []


def special_token(files: ForeignFolder, name: str, default: str) -> str:
    """A special token by its role, such as unk_token."""
    for table in (tokenizer_config(files), files.json_if_there("special_tokens_map.json")):
        if text := _content(table.get(name)):
            return text
    return default


def hugging_face_pieces(files: ForeignFolder) -> dict[int, str]:
    """The vocabulary in a tokenizer.json, of the model and added."""
    where, whole = files.path / TOKENIZER, files.json(TOKENIZER)
    model = whole.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        table = {id: piece for piece, id in vocabulary.items() if type(id) is int}
        if not all(type(id) is int for id in vocabulary.values()):
            raise UserError(f"{where}: its vocabulary is damaged; take another copy")
    elif isinstance(vocabulary, list):
        table = {id: entry[0] for id, entry in enumerate(vocabulary) if isinstance(entry, list) and entry}
    else:
        raise UserError(f"{where}: no vocabulary in it; take another copy")
    if not all(type(id) is int and isinstance(piece, str) for id, piece in table.items()):
        raise UserError(f"{where}: its vocabulary is damaged; take another copy")
    table |= added_tokens(files)
    _check_texts(table.values(), where)
    return table


def hugging_face(files: ForeignFolder, vocabulary: Vocabulary, hidden: Iterable[int]) -> Tokenizer:
    """The tokenizer of a tokenizer.json."""
    from regard.data.tokenizer.hugging_face import HuggingFace

    special, order = vocabulary.rows[:4], vocabulary.rows[4:]
    taken = set(order)
    return HuggingFace(files.read(TOKENIZER), order, special, {id for id in hidden if id in taken})


def sentencepiece_tokenizer(
    source: bytes,
    pieces: Mapping[int, str],
    vocabulary: Vocabulary,
    hidden: Collection[str],
    target: bytes | None = None,
    target_pieces: Mapping[int, str] | None = None,
    target_vocabulary: Vocabulary | None = None,
) -> Tokenizer:
    """The tokenizer of sentencepiece files, with the pieces of each row."""
    from regard.data.tokenizer.sentencepiece import SentencePiece

    tokens, unused = spelled(pieces, vocabulary.rows[4:])
    others: list[str] | None = None
    if target_pieces is not None and target_vocabulary is not None:
        others, more = spelled(target_pieces, target_vocabulary.rows[4:])
        unused |= more
    return SentencePiece(
        source,
        tokens,
        target_model=target if target != source else None,
        target_tokens=others,
        hidden={piece for piece in hidden if piece in set(tokens) | set(others or ())} | unused,
    )


def token_id(config: Config, generation: Config, key: str, size: int, default: int | None = None) -> int:
    """The id of a special token: generation_config.json comes first, as in transformers."""
    for place in (generation, config):
        value = place.get(key)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if value is None:
            continue
        if type(value) is not int or not 0 <= value < size:
            raise place.refuse(key, f"one id below {size:,} is needed")
        return value
    if default is None or default >= size:
        raise UserError(f"{config.where}: {key} is missing; take another copy of the folder")
    return default


def by_language(tags: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Language tags by our code, for pairs of their code and the tag. Of several that are one language to us, the
    shortest has its code, and the others have their country or script with it."""
    found: dict[str, str] = {}
    for theirs, tag in sorted(tags, key=lambda pair: len(pair[0])):
        code = languages.internal(theirs)
        if code in found:
            code = theirs.lower().replace("_", "-")
        if languages.is_code(code) and code not in found:
            found[code] = tag
    return found


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _content(value: Any) -> str:
    """A token that is written as a text, or as a table with its content."""
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else ""


def limit(files: ForeignFolder) -> int | None:
    """The longest text that the tokenizer's config allows; a number without meaning stands for none."""
    value = tokenizer_config(files).get("model_max_length")
    return value if type(value) is int and 0 < value <= _MOST_TOKENS else None
