"""A `tokenizer.json` of Hugging Face's library `tokenizers`, in our numbering.

Encoding and decoding equal transformers' for the same file, except that text which reads like a special token or a
language tag (`</s>`, `de_DE`) stays text here. Only the parts that the families here use are accepted: a file from
anyone may otherwise make a text a million times as long, or take hours to split it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from regard.data.tokenizer._base import SPACE, SPECIALS, is_byte
from regard.data.tokenizer._charsmap import is_bounded
from regard.data.tokenizer._imported_tokenizer import ImportedTokenizer
from regard.data.tokenizer._imported_vocabulary import ImportedVocabulary, without_surrogates
from regard.errors import UserError
from regard.registry import MOST
from regard.special_tokens import END, UNKNOWN

if TYPE_CHECKING:
    import tokenizers

__all__ = ["HuggingFace"]

_OURS, _FILE = "tokenizer.json", "tokenizer.huggingface.json"
_AGAIN = "take another copy of the model"
_PARTS = {
    "model": {"BPE", "Unigram", "WordLevel", "WordPiece"},
    "normalizer": {"Sequence", "Precompiled", "Replace", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Strip", "StripAccents"}
    | {"Lowercase", "Prepend", "BertNormalizer"},
    "pre_tokenizer": {"Sequence", "Metaspace", "WhitespaceSplit", "Whitespace", "ByteLevel", "Digits", "Punctuation"}
    | {"Split", "BertPreTokenizer"},
    "decoder": {"Sequence", "Metaspace", "ByteLevel", "ByteFallback", "Replace", "Fuse", "Strip", "WordPiece"},
}
_LISTS = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}
DROPPED = r"[\x{00}-\x{08}\x{0E}-\x{1B}\x{7F}-\x{84}\x{86}-\x{9F}\x{AD}\x{200B}\x{FEFF}]"
APOSTROPHES = "[\u2018\u2019\u201b\u02bc\uff07]"
CONTROLS = r"[\x{00}-\x{08}\x{0B}-\x{1F}\x{7F}-\x{9F}]"
"""Characters that the normalisation of models trained here replaces, in the files that they are exported to."""
_PATTERNS = {" {2,}", " +", r"\s+", "[\\n\\r\\t]", r"\n", "▁{2,}", DROPPED, APOSTROPHES, CONTROLS}
"""The regular expressions that may be replaced: those that take time in proportion to the text."""
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = tuple(_WORDS + numbers + _OTHERS for numbers in (r"\p{N}{1,3}", r"\p{N}"))
"""Where Llama 3 and Qwen2 split texts; other regular expressions may take hours."""
_LONGEST_WORD = 1000
"""Characters of the longest word that WordPiece may cut up: it takes time in proportion to their square."""
_GROWTH = 16
"""How many times as long replacements may make a text."""


class HuggingFace(ImportedTokenizer):
    """The tokens of a `tokenizer.json`, renumbered."""

    kind: ClassVar[str] = "hugging_face"

    def __init__(self, file: bytes, order: Sequence[int], special: Sequence[int], hidden: Collection[int] = ()) -> None:
        """Renumbers the tokens: a token of the file that is in neither list is unknown.

        Args:
            file: A `tokenizer.json`.
            order: The file's ids of our ids 4, 5, ... An id may be one that the file has no token for, since models
                have more rows than tokens; it is hidden.
            special: The file's ids of PAD, UNKNOWN, BEGIN and END; one may serve twice.
            hidden: The file's ids of tokens that are no text, such as language codes, besides those that the file calls
                special: they decode to nothing, and no text contains them.
        """
        tree = _read(file)
        names, marked = _names(tree)
        _check_ids(names, order, special, hidden)
        self._files = {_FILE: file}
        self._saved = {
            "kind": self.kind,
            "special": list(special),
            "hidden": sorted(hidden),
            "order": list(order),
        }
        unnamed = {i: f"<unused {i}>" for i in order if not names.get(i)}  # Whisper has a token without a name
        tokens = [names.get(i) or unnamed[i] for i in order]
        secret = {names[i] for i in marked.union(hidden) if i in names} | set(unnamed.values())
        specials = [names.get(i) or SPECIALS[at] for at, i in enumerate(special)]
        self.drops_first_space = not _is_byte_level(tree)
        self._vocabulary = ImportedVocabulary(tokens, specials, secret, _parts(tree, tokens))
        self._ours = {theirs: i for i, theirs in enumerate(order, len(SPECIALS))}
        self._names = names
        self._encoder = _encoder(tree, hidden)

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], **options: Any) -> HuggingFace:
        saved = json.loads(files[_OURS])
        for name in ("order", "special", "hidden"):
            if not isinstance(saved.get(name), list) or any(type(i) is not int for i in saved[name]):
                raise UserError(f"{_OURS}: '{name}' is not a list of token ids; {_AGAIN}")
        if _FILE not in files:
            raise UserError(f"{_FILE} is missing; {_AGAIN}")
        return cls(files[_FILE], saved["order"], saved["special"], saved["hidden"])

    def files(self) -> dict[str, bytes]:
        return {_OURS: json.dumps(self._saved).encode(), **self._files}

    def encode(self, text: str) -> list[int]:
        return self._numbered(self._encoder.encode(without_surrogates(text), add_special_tokens=False).ids)

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        valid = [without_surrogates(text) for text in texts]
        return [self._numbered(one.ids) for one in self._encoder.encode_batch_fast(valid, add_special_tokens=False)]

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Where spaces are bytes like all others, every word but the first has one in front of it, as in a text."""
        between = "" if self.drops_first_space else " "
        return [self.encode(f"{between}{word}" if number else word) for number, word in enumerate(words)]

    def _numbered(self, theirs: Iterable[int]) -> list[int]:
        found: list[int] = []
        for i in theirs:
            ours = self._ours.get(i, UNKNOWN)
            if ours > END and ours not in self._vocabulary.reserved:
                found.append(ours)
            elif i == self._saved["special"][UNKNOWN]:  # type: ignore[index]
                found.append(UNKNOWN)
            else:
                found += self._vocabulary.spelled(self._names.get(i, ""))
        return found


def _read(file: bytes) -> dict[str, Any]:
    """The file's content, of parts that we accept."""
    try:
        tree = json.loads(file)
        for part, kinds in _PARTS.items():
            if part in _LISTS:
                tree[part] = _checked(tree.get(part), part, kinds)
            elif tree[part].get("type", "BPE") not in kinds:
                raise UserError(f"{_FILE}: {part} {str(tree[part]['type'])[:40]!r} is not supported")
        if (
            tree["model"].get("type") == "WordPiece"
            and not 0 < tree["model"]["max_input_chars_per_word"] <= _LONGEST_WORD
        ):
            raise UserError(
                f"{_FILE}: words of {str(tree['model']['max_input_chars_per_word'])[:20]} characters are not supported"
            )
        _check_growth(tree["normalizer"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UserError(f"{_FILE} is not a file of the library tokenizers; {_AGAIN}") from None
    return dict(tree)


def _checked(part: Any, name: str, kinds: Collection[str]) -> Any:
    """A part as it is; refuses kinds that are not accepted."""
    if part is None:
        return None
    if part["type"] not in kinds:
        raise UserError(f"{_FILE}: {name} {str(part['type'])[:40]!r} is not supported")
    for inner in part[_LISTS[name]] if part["type"] == "Sequence" else []:
        _checked(inner, name, kinds)
    if part["type"] == "Split" and part["pattern"].get("Regex") not in SPLITS:
        raise UserError(f"{_FILE}: texts are split at {str(part['pattern'])[:60]!r}, which is not supported")
    return part


def _flat(part: Any, name: str) -> Iterator[dict[str, Any]]:
    """The parts of a sequence, of sequences in it too."""
    if part is not None and part["type"] == "Sequence":
        for inner in part[_LISTS[name]]:
            yield from _flat(inner, name)
    elif part is not None:
        yield part


def _check_growth(normalizer: Any) -> None:
    growth = 1.0
    for part in _flat(normalizer, "normalizer"):
        if part["type"] == "Replace":
            (kind, pattern), *more = part["pattern"].items()
            if more or not pattern or (kind == "Regex" and pattern not in _PATTERNS):
                raise UserError(f"{_FILE}: the normalizer replaces {str(pattern)[:40]!r}, which is not supported")
            shortest = len(pattern) if kind == "String" else 1
            growth *= max(1.0, len(part["content"]) / shortest)
        elif part["type"] == "Prepend":
            growth *= 1 + len(part["prepend"]) / 4
        elif part["type"] == "Precompiled" and (table := part["precompiled_charsmap"]) is not None:
            growth *= 1 if is_bounded(base64.b64decode(table, validate=True)) else 1 + _GROWTH
    if growth > _GROWTH:
        raise UserError(f"{_FILE}: the normalizer makes texts more than {_GROWTH} times as long; {_AGAIN}")


def _names(tree: dict[str, Any]) -> tuple[dict[int, str], set[int]]:
    """The token of each of the file's ids, and the ids that it calls special."""
    try:
        vocabulary = tree["model"]["vocab"]
        if isinstance(vocabulary, dict):
            names = {i: token for token, i in vocabulary.items()}
        else:
            names = {i: token for i, (token, _) in enumerate(vocabulary)}
        added = tree.get("added_tokens") or []
        names |= {one["id"]: one["content"] for one in added}
        marked = {one["id"] for one in added if one["special"] is True}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise UserError(f"{_FILE}: its vocabulary cannot be read; {_AGAIN}") from None
    if any(type(i) is not int or i < 0 or not isinstance(name, str) for i, name in names.items()):
        raise UserError(f"{_FILE}: its vocabulary is not one of texts with ids; {_AGAIN}")
    return names, marked


def _check_ids(names: Mapping[int, str], order: Sequence[int], special: Sequence[int], hidden: Collection[int]) -> None:
    if len(special) != len(SPECIALS):
        raise UserError(f"{_OURS}: 'special' has {len(special)} ids, not {len(SPECIALS)}; {_AGAIN}")
    rows = min(len(order) + len(SPECIALS), MOST)
    for i in (*order, *special, *hidden):
        if not (0 <= i < rows or i in names):
            raise UserError(f"{_OURS}: {str(i)[:20]} is not the id of a token; {_AGAIN}")
    if len({*order, *special}) < len(order) + len(set(special)):
        raise UserError(f"{_OURS}: a token has two ids; {_AGAIN}")


def _encoder(tree: dict[str, Any], hidden: Collection[int]) -> tokenizers.Tokenizer:
    """The library's tokenizer, without what adds, cuts or pads, and without special or hidden tokens in texts."""
    try:
        import tokenizers
    except ImportError:
        raise UserError("this model's tokenizer needs the library tokenizers: pip install 'regard[hub]'") from None
    listed, unheard = tree.get("added_tokens") or [], set(hidden)
    added = [one for one in listed if one["special"] is not True and one["id"] not in unheard]
    bare = tree | {"added_tokens": added, "post_processor": None, "truncation": None, "padding": None, "decoder": None}
    try:
        encoder = tokenizers.Tokenizer.from_str(json.dumps(bare))
        encoder.encode("\u00e9 a")
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:  # the library's own errors, and its panics, which are no Exception
        why = " ".join(str(error).split())[:200]
        raise UserError(f"{_FILE} cannot be used ({why}); {_AGAIN}") from None
    return encoder


def _parts(tree: dict[str, Any], tokens: Sequence[str]) -> list[str | int | bytes]:
    """The text that each token adds, as the file's decoder would."""
    kinds = [one["type"] for one in _flat(tree["decoder"], "decoder")]
    if "ByteLevel" in kinds:
        octets = {character: byte for byte, character in enumerate(_byte_characters())}
        return [
            bytes(octets[c] for c in token) if all(c in octets for c in token) else token  # added tokens are plain
            for token in tokens
        ]
    if "WordPiece" in kinds:
        prefix = str(tree["model"].get("continuing_subword_prefix", "##"))
        return [token.removeprefix(prefix) if token.startswith(prefix) else f" {token}" for token in tokens]
    return [
        int(token[3:5], 16) if "ByteFallback" in kinds and is_byte(token) else token.replace(SPACE, " ")
        for token in tokens
    ]


def _is_byte_level(tree: dict[str, Any]) -> bool:
    """Whether spaces are bytes like all others, and none is put in front of a text."""
    split = [one for one in _flat(tree["pre_tokenizer"], "pre_tokenizer") if one["type"] == "ByteLevel"]
    return bool(split) and not any(one.get("add_prefix_space", True) for one in split)


def _byte_characters() -> str:
    """The character that stands for each byte in byte-level BPE: its own, if it is visible, or one from 256 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return "".join(chr(byte if byte in visible else next(others)) for byte in range(256))
