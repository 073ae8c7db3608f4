"""What of a text must come through a translation as it is: addresses, placeholders, code, amounts of money, emoji.

A model that learnt from sentences has rarely seen these. It copies a number well; of an address it writes something
that only looks like one, and emoji it drops. So they are found here, and keeping.py keeps them from the model.
Every pattern reads a text once, whatever the text: a run is never read again from its middle.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Thing(NamedTuple):
    """A part of a text, by its place."""

    start: int
    end: int
    ornament: bool
    """Emoji and signs: they stand beside the words of a sentence, not among them."""


_ENDINGS = (
    "com|org|net|edu|gov|int|info|eu|fr|de|uk|us|ca|ch|be|es|it|nl|pt|pl|ru|jp|cn|br|in|io|ai|dev|app|me|tv|"
    "pdf|docx?|xlsx?|pptx?|odt|ods|txt|csv|tsv|json|xml|html?|php|jpe?g|png|gif|svg|webp|mp3|mp4|zip|tar|gz|exe|py|js|md"
)
_SIGNS = "=<>|~^\\\\*_`#@§¶†‡±×÷¤¦¬¯©®™ªº¹²³¼½¾µ‰′″‱\u2100-\u2bff\u3030\u303d\u3297\u3299\ue000-\uf8ff\ufffc\ufffd"
_EMOJI = "\U0001f000-\U0001faff\U000f0000-\U000ffffd"
_JOINING = "\u200d\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
_CURRENCY = "[$£¥¢\u20a0-\u20cf]"
_AMOUNT = r"(?:\d{1,3}(?:[ \u00a0\u202f'’.,]\d{3}){1,6}(?!\d)|\d++)(?:[.,]\d++)?+"

_THINGS = re.compile(
    rf"""
    (?P<address> (?<![^\W_]) (?:(?:https?|ftps?|file)://|mailto:|www\.) [^\s<>"“”«»]++)
  | (?<![\w.+-]) [\w.+-]++ @ [\w-]++ (?:\.[\w-]++)++                           # an e-mail address
  | (?P<place> (?<![\w.@/-]) (?:[\w-]++\.)+ (?:{_ENDINGS}) (?![\w-]) (?:/[^\s<>"“”«»]*+)?+)
  | \{{\{{ [^{{}}\n]{{1,100}}+ \}}\}} | [$#%]?\{{ [^{{}}\s]{{0,60}}+ \}}       # {{{{name}}}}, {{name}}, ${{name}}
  | %\(\w{{1,60}}+\)[a-z] | (?<![\w%]) % (?:\d\$)? [-+0]? \d?\d? (?:\.\d)? [sdifxu@] (?![\w'’])
  | </?[A-Za-z][^<>]{{0,500}}+>                                                # tags in what was said to be plain text
  | `[^`\n]{{1,200}}+`
  | (?<!\w) [@\#] \w++                                                         # @somebody, #something
  | {_CURRENCY}[ \u00a0\u202f]?+{_AMOUNT} (?:[ \u00a0\u202f]?[kMG]\b)?+ | {_AMOUNT}[ \u00a0\u202f]?+[kMG]?+{_CURRENCY}
  | (?<!\w) (?:[^\W_]++ [_=^*+<>|²³]++)+ [^\W_]*+ (?!\w)                       # snake_case, x=y, C++, m²
  | (?P<ornament> (?: [0-9#*]\ufe0f?\u20e3 | [{_SIGNS}{_EMOJI}] [{_JOINING}]*+ | {_CURRENCY} )++ )
    """,
    re.VERBOSE,
)
_LETTER = re.compile(r"[^\W\d_]")
_NUMERAL = re.compile(
    r"(?<!\w) [-−]?+ (?=[^\W\d]*+\d) \w++ (?: [.,:/'’-] (?=[^\W\d]*+\d)\w++ | [ \u00a0\u202f]\d\d\d?(?!\w) )*+", re.VERBOSE
)
_DIGITS = re.compile(r"((?<!\w)[-−])?([0-9]++(?:[.,'’ \u00a0\u202f:][0-9]++)*+)")
_RUN = re.compile("[0-9]+")


def things_in(text: str) -> list[Thing]:
    """All of them, in order; none overlaps another."""
    return [
        Thing(found.start(), _end(found), found.lastgroup == "ornament")
        for found in _THINGS.finditer(text)
    ]
