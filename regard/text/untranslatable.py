"""Finds what a translation must preserve: URLs, placeholders, code, amounts of money, emoji, and numbers.

Models trained on sentences have rarely seen these. They copy numbers well, but garble URLs and drop emoji. This module
finds the spans; placeholders.py hides them from the model.

Each pattern takes linear time on any text: it matches a run as a whole and never starts in the middle of one. Groups
are not repeated possessively, which is broken before Python 3.11.5: nothing after them can fail.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class ProtectedSpan(NamedTuple):
    """A span of text that must be preserved."""

    start: int
    end: int
    kind: str = "word"
    """`emoji` and `sign` decorate a sentence; everything else, `word`, is part of it."""

    @property
    def decorative(self) -> bool:
        return self.kind != "word"


PRIVATE_CHARACTERS = range(0xF0000, 0xFFFFE)
"""Private-use characters, each a protected span: markup.py substitutes them for elements it keeps, such as code."""

_SUFFIXES = (
    "com|org|net|edu|gov|int|info|eu|fr|de|uk|us|ca|ch|be|es|it|nl|pt|pl|ru|jp|cn|br|in|io|ai|dev|app|me|tv|"
    "pdf|docx?|xlsx?|pptx?|odt|ods|txt|csv|tsv|json|xml|html?|php|jpe?g|png|gif|svg|webp|mp3|mp4|zip|tar|gz|exe|py|js|md"
)
_SPACE = r"[ \u00a0\u202f]"
_CURRENCIES = r"$£¥¢\u20a0-\u20cf"
_CURRENCY = f"[{_CURRENCIES}]"
_AMOUNT = rf"(?:\d{{1,3}}(?:(?:{_SPACE}|['’.,])\d{{3}}){{1,6}}(?!\d)|\d++)(?:[.,]\d++)?"
_EMOJI = r"\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b50\u2b55\U0001f000-\U0001faff"
_SIGNS = r"=<>|~^\\*_`#@•·‣§¶†‡±×÷¤¦¬¯©®™¹²³¼½¾µ‰′″\u2100-\u2bff\u3030\u303d\u3297\u3299\ue000-\uf8ff"
_JOINING = r"[\u200d\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
_URL_CHARACTER = rf'[^\s<>"“”«»{_EMOJI}]'

_PROTECTED = re.compile(
    rf"""
    [\U000f0000-\U000ffffd]
  | (?P<url> (?<![^\W_]) (?:(?:https?|ftps?|file)://|mailto:|www\.) {_URL_CHARACTER}++)
  | (?<![\w.+-]) [\w.+-]++ @ [\w-]++ (?:\.[\w-]++)+                                # somebody@example.org
  | (?P<domain> (?<![\w.@/-]) (?:[\w-]++\.)+ (?:{_SUFFIXES}) (?![\w-]) (?:/{_URL_CHARACTER}*+)?)
  | \{{\{{ [^{{}}\n]{{1,100}}+ \}}\}} | [$\#%]?+ \{{ [^{{}}\s]{{0,60}}+ \}}         # placeholders in braces
  | %\(\w{{1,60}}+\)[a-z] | (?<![\w%]) % (?:\d\$)? [-+0]?+ \d?\d?+ (?:\.\d)? [sdifxu@] (?![\w'’])   # those of printf
  | </?[A-Za-z][^<>]{{0,500}}+>                                     # tags in plain text
  | `[^`\n]{{1,200}}+`
  | (?<!\w) [@\#] \w++
  | {_CURRENCY}{_SPACE}?+{_AMOUNT} | (?<!\d){_AMOUNT}{_SPACE}?+[kM]?+{_CURRENCY}
  | (?<!\w) [^\W_]++ (?:[_=^*+<>|\\]++ [^\W_]++)+ | (?<!\w) [^\W\d_]{{1,3}}(?:[²³]|\+\+)(?!\w)  # snake_case, x=y, m²
  | (?P<emoji> (?: (?<![0-9])[0-9\#*]\ufe0f?\u20e3 | [{_EMOJI}]{_JOINING}*+ )+ )
  | (?P<sign> (?: (?![{_EMOJI}])[{_SIGNS}{_CURRENCIES}]{_JOINING}*+ )+ )
    """,
    re.VERBOSE,
)
_EMOJI_HINT = re.compile(f"[{_EMOJI}\\u20e3]")
_HINT = re.compile(rf"[{_SIGNS}{_EMOJI}{_CURRENCIES}{{%+\u20e3\U000f0000-\U000ffffd]")
_NUMERAL = re.compile(
    rf"(?<!\w) [-−]?+ (?=[^\W\d]*+\d)\w++ (?: [.,:/'’-](?=[^\W\d]*+\d)\w++ | {_SPACE}\d\d\d?(?!\w) )*", re.VERBOSE
)
_DIGITS = re.compile(rf"((?<!\w)[-−])? ([0-9]++ (?: (?:[.,'’:]|{_SPACE}) [0-9]++ )*)", re.VERBOSE)
_HOUR = re.compile(r"(?<![0-9])(?:1[3-9]|2[0-4])(?=\s?[hH:])")
_RUN = re.compile("[0-9]+")
_TRAILING = frozenset(".,;:!?…'\"’*_~|]}")


def protected_spans(text: str) -> list[ProtectedSpan]:
    """The protected spans in order, without overlaps."""
    if not may_have_protected_spans(text):
        return []
    return [
        ProtectedSpan(m.start(), m.end(), m.lastgroup)
        if m.lastgroup in ("emoji", "sign")
        else ProtectedSpan(m.start(), _end(m))
        for m in _PROTECTED.finditer(text)
    ]


def may_have_protected_spans(text: str) -> bool:
    """A quick check that is False for most sentences."""
    return bool(_HINT.search(text)) or "." in text[:-1] or "://" in text or "mailto:" in text


def has_emoji(text: str) -> bool:
    return _EMOJI_HINT.search(text) is not None


def numbers_in(text: str) -> list[ProtectedSpan]:
    """Numbers with attached characters, such as 1 234,5 and 14h35."""
    return [ProtectedSpan(*m.span()) for m in _NUMERAL.finditer(text)]


def has_words(text: str, spans: list[ProtectedSpan] | None = None) -> bool:
    """Whether there is a letter outside protected spans; otherwise there is nothing to translate."""
    start = 0
    for span in protected_spans(text) if spans is None else spans:
        if any(map(str.isalpha, text[start : span.start])):
            return True
        start = span.end
    return any(map(str.isalpha, text[start:]))


def has_numbers(text: str) -> bool:
    """Whether there is a number of two or more digits: smaller ones may become words."""
    return any(sum(map(str.isdigit, m[2])) > 1 for m in _DIGITS.finditer(text))


def keeps_numbers(source: str, translation: str) -> bool:
    """Whether the translation has all numbers of two or more digits. Separators may differ, and 14 h may be 2 p.m."""
    whole, runs = set(), set()
    for sign, *digits in _numbers(translation):
        whole |= {sign + "".join(digits), "".join(digits)}
        runs |= {sign + digits[0], *digits}
    runs |= {hour for hour in _HOUR.findall(source) if str(int(hour) - 12) in runs}
    for sign, *digits in _numbers(source):
        written = [sign + digits[0], *digits[1:]]
        if len("".join(digits)) > 1 and "".join(written) not in whole and not runs.issuperset(written):
            return False
    return True


def _numbers(text: str) -> list[list[str]]:
    """Sign and runs of digits of each number."""
    return [["-" if m[1] else "", *_RUN.findall(m[2])] for m in _DIGITS.finditer(text)]


def _end(found: re.Match[str]) -> int:
    """The end of a URL without trailing punctuation or a closing bracket that belong to the sentence."""
    end = found.end()
    if found.lastgroup not in ("url", "domain"):
        return end
    spare = found[0].count(")") - found[0].count("(")
    while end > found.start() + 1 and ((last := found.string[end - 1]) in _TRAILING or last == ")" and spare > 0):
        spare -= last == ")"
        end -= 1
    return end
