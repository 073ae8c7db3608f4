"""Cleans parallel text before anything is trained on it: which pairs to drop, and why.

Each pair is dropped for the first reason that applies, in the order of `REASONS`. What is kept and what is dropped
depends on the text and the settings alone.
"""

from __future__ import annotations

import functools
import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.corpus.filters import BloomFilter, UsualScript, disproportionate, identical
from regard.data.corpus.reading import Pair, check_file, is_table, read_lines, split_column, text_lines
from regard.data.normalise import normalise
from regard.language_identification import is_another_language, is_identifiable
from regard.languages import name

REASONS = {
    "empty": "a side has no text",
    "encoding": "bytes decoded wrongly (Ã©, U+FFFD)",
    "markup": "leftovers of HTML or a wiki",
    "too_short": "a side has fewer characters than --min-length",
    "too_long": "a side has more characters than --max-length",
    "ratio": "lengths differ by more than --max-ratio",
    "copy": "the source was not translated",
    "repetition": "one side repeats a phrase over and over",
    "numbers": "a number of one side is missing in the other",
    "script": "a side mostly in another script than usual",
    "kept_out": "a side occurs in a file of --keep-out",
    "language": "a side is clearly in another language",
    "duplicate": "the pair occurred before",
    "near_duplicate": "it occurred with other case, punctuation or digits",
}
"""Why a pair is dropped."""
GRACE = 15
"""Characters by which lengths may always differ: in short pairs the ratio means little."""
CHUNK = 16384
"""Pairs in memory at a time. The first chunk decides the usual scripts, and the usual ratio of lengths."""

_BROKEN = re.compile(r"\ufffd|[ÃÂ][\x80-\xa0¡-¿€‚ƒ„†‡ˆ‰Š‹Œ‘’“”•–—˜™š›œŸ]|â€[\x80-\x9f™œ\"“”¢¦˜]")
_MARKUP = re.compile(
    r"</?[a-zA-Z][^<>]{0,200}>|<!--|-->|&(?:[a-zA-Z]{2,8}|#\d{1,7}|#x[0-9a-fA-F]{1,6});|\{\{|\}\}|\[\[|\]\]|'{3}"
)
_NUMBER = re.compile(r"\d{2,}")
_DIGITS = re.compile(r"\d+")


class Cleaner:
    """Decides which pairs of a corpus to keep, and counts the others by reason, with the first example of each."""

    def __init__(
        self,
        source: str = "",
        target: str = "",
        *,
        min_length: int = 1,
        max_length: int = 1000,
        max_ratio: float = 3.0,
        skip: Collection[str] = (),
        keep_out: Iterable[str | Path] = (),
    ) -> None:
        """`source` and `target` are languages; lengths are in characters; `skip` names reasons that do not count."""
        self.languages = source, target
        self.read = self.kept = 0
        self.dropped: Counter[str] = Counter()
        self.examples: dict[str, Pair] = {}
        self._min_length, self._max_length, self._max_ratio = min_length, max_length, max_ratio
        self._skip = set(skip)
        self._identifiable = [code if code and is_identifiable(code) else "" for code in self.languages]
        self._kept_out = {key for path in keep_out for key in _keys_of(path)}
        self._pairs, self._simple_pairs = BloomFilter(), BloomFilter()
        self._scripts: tuple[UsualScript, UsualScript] | None = None
        self._usual_ratio = 1.0

    def clean(self, pairs: Iterable[Pair]) -> Iterator[tuple[str, Pair]]:
        """Every pair with the reason why it is dropped; it is empty for one to keep, which is normalised."""
        stream = iter(pairs)
        while chunk := list(islice(stream, CHUNK)):
            yield from self._chunk(chunk)

    def drop(self, reason: str, pair: Pair) -> None:
        """Counts a pair that was dropped for a reason of the caller's."""
        self.read += 1
        self.dropped[reason] += 1
        self.examples.setdefault(reason, pair)

    def _chunk(self, raw: Sequence[Pair]) -> Iterator[tuple[str, Pair]]:
        pairs = [(normalise(source), normalise(target)) for source, target in raw]
        if self._scripts is None:
            self._learn([pair for pair in pairs if all(pair) and not self._length(*pair)])
        reasons = [self._reason(*pair) for pair in pairs]
        self._repeated(pairs, reasons)
        for reason, pair in zip(reasons, pairs):
            if reason:
                self.drop(reason, pair)
            else:
                self.read += 1
                self.kept += 1
            yield reason, pair

    def _learn(self, pairs: Sequence[Pair]) -> None:
        """A language written in fewer characters than the other, such as Chinese, has another ratio than 1."""
        self._scripts = UsualScript(pair[0] for pair in pairs), UsualScript(pair[1] for pair in pairs)
        lengths = [sum(len(pair[side]) for pair in pairs) for side in (0, 1)]
        self._usual_ratio = lengths[0] / lengths[1] if all(lengths) else 1.0

    def _reason(self, source: str, target: str) -> str:
        """The first reason that applies to a pair by itself."""
        return next((reason for reason in self._reasons(source, target) if reason not in self._skip), "")

    def _reasons(self, source: str, target: str) -> Iterator[str]:
        if not (source and target):
            yield "empty"
            return
        if _broken(source) or _broken(target):
            yield "encoding"
        if _MARKUP.search(source) or _MARKUP.search(target):
            yield "markup"
        if length := self._length(source, target):
            yield length
        lengths = np.array([len(source)]), np.array([len(target) * self._usual_ratio])
        if disproportionate(*lengths, self._max_ratio, GRACE)[0]:
            yield "ratio"
        if identical(source, target):
            yield "copy"
        if loops(source, target):
            yield "repetition"
        if contradicting_numbers(source, target):
            yield "numbers"
        scripts = self._scripts
        if scripts and not (scripts[0].fits(source) and scripts[1].fits(target)):
            yield "script"
        if self._kept_out and (key(source) in self._kept_out or key(target) in self._kept_out):
            yield "kept_out"
        if "language" not in self._skip:
            for code, text in zip(self._identifiable, (source, target)):
                if code and is_another_language(text, code):
                    yield "language"

    def _length(self, source: str, target: str) -> str:
        shorter, longer = sorted((len(source), len(target)))
        if longer > self._max_length:
            return "too_long"
        return "too_short" if shorter < self._min_length else ""

    def _repeated(self, pairs: Sequence[Pair], reasons: list[str]) -> None:
        """Finds duplicates among the pairs that have no other reason."""
        for reason, seen, form in (
            ("duplicate", self._pairs, str),
            ("near_duplicate", self._simple_pairs, without_digits),
        ):
            left = [number for number, found in enumerate(reasons) if not found]
            if reason in self._skip or not left:
                continue
            new = seen.add([f"{form(pairs[number][0])}\n{form(pairs[number][1])}" for number in left])
            for number, is_new in zip(left, new.tolist()):
                reasons[number] = "" if is_new else reason

    def report(self) -> dict[str, Any]:
        """Counts, shares and an example of everything that was dropped, as plain data."""
        order = [*REASONS, *sorted(self.dropped.keys() - REASONS.keys())]
        found = [reason for reason in order if self.dropped[reason]]
        return {
            "languages": list(self.languages),
            "read": self.read,
            "kept": self.kept,
            "dropped": {
                reason: {
                    "why": REASONS.get(reason, ""),
                    "count": self.dropped[reason],
                    "share": round(self.dropped[reason] / self.read, 6),
                    "example": list(self.examples[reason]),
                }
                for reason in found
            },
        }

    def unchecked(self) -> str:
        """Which language cannot be checked; empty if none."""
        missing = [code for code, known in zip(self.languages, self._identifiable) if code and not known]
        return " and ".join(f"{code} ({name(code)})" for code in missing)


def loops(source: str, target: str) -> bool:
    """Whether one side has a phrase four times in a row or more, and the other no such thing."""
    one, other = (_repeated_in_a_row(text.casefold().split()) for text in (source, target))
    return max(one, other) >= 4 and max(one, other) >= 2 * min(one, other)


def _repeated_in_a_row(words: Sequence[str]) -> int:
    """How often a phrase of at most six words occurs in a row."""
    most = 1
    for length in range(1, 7):
        same = 0
        for word, earlier in zip(words[length:], words):
            same = same + 1 if word == earlier else 0
            most = max(most, 1 + same // length)
    return most


def contradicting_numbers(source: str, target: str) -> bool:
    """Whether both sides have a number that the other lacks, or one has a year or the like and the other no digit.

    Numbers of one digit may be written out, separators and order may differ (31.12.1990, 12/31/90), and digits of all
    scripts are the same.
    """
    sides = [_ascii_digits(text) for text in (source, target)]
    digits = ["".join(_DIGITS.findall(text)) for text in sides]
    if sorted(digits[0]) == sorted(digits[1]):
        return False
    missing = [
        [number for number in _NUMBER.findall(text) if number not in other] for text, other in zip(sides, digits[::-1])
    ]
    if all(missing):
        return True
    exact = [number for one in missing for number in one if len(number) >= 4 and not number.endswith("00")]
    return bool(exact) and not all(digits)


def _ascii_digits(text: str) -> str:
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(one)) if one.isdecimal() else one for one in text)


def _broken(text: str) -> bool:
    """Whether UTF-8 was decoded as another encoding."""
    if text.isascii():
        return False
    if _BROKEN.search(text):
        return True
    try:
        fixed = text.encode("cp1252").decode()
    except UnicodeError:
        return False
    return len(text) - len(fixed) >= 3  # by chance a letter and a mark may look like one more letter


def key(text: str) -> int:
    """A 64-bit hash of a text without case and punctuation; 0 if nothing is left."""
    bare = " ".join(normalise(text).casefold().translate(_Spaced()).split())
    return int.from_bytes(hashlib.blake2b(bare.encode(), digest_size=8).digest(), "big") if bare else 0


def without_digits(text: str) -> str:
    """The text without case, punctuation and digits; as it is if nothing would be left."""
    return text.casefold().translate(_Letters()) or text


class _Letters(dict[int, str | None]):
    """Keeps letters and their marks alone."""

    kept = "LM"

    def __missing__(self, code: int) -> str | None:
        return _of_category(code, self.kept, "")


class _Spaced(_Letters):
    """Keeps digits, too, and puts a space for everything else."""

    def __missing__(self, code: int) -> str | None:
        return _of_category(code, "LMN", "" if unicodedata.category(chr(code)) == "Cf" else " ")


@functools.cache
def _of_category(code: int, kept: str, otherwise: str) -> str:
    return chr(code) if unicodedata.category(chr(code))[0] in kept else otherwise


def _keys_of(path: str | Path) -> Iterator[int]:
    """The keys of all texts of a file; of a table, of all its columns that are text."""
    file, column = split_column(path)
    if column is not None or not is_table(file):
        yield from (found for line in read_lines(path) if (found := key(line)))
        return
    check_file(file)
    for line in text_lines(file):
        yield from (found for cell in line.split("\t") if (found := key(cell)))
