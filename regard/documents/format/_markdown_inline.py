"""What is in a paragraph of Markdown: emphasis, links, code, formulas, HTML.

Not a full parser of CommonMark: what it does not recognise is text, which stays as it is written.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from regard.documents.inline import Mark, Token, from_html

_INLINE = re.compile(
    r"""
    (?P<escape> \\[!-/:-@\[-`{-~] )
  | (?P<atom>
        (?<!`)(?P<ticks>`++) .+? (?<!`)(?P=ticks)(?!`)
      | <[A-Za-z][A-Za-z0-9+.-]{1,30}+:[^<>\s]*+>                             # <https://example.org>
      | <[\w.+-]++@[\w.-]++>
      | \$\$[^$]++\$\$ | \$(?=[^\s$])[^$]{1,500}(?<=[^\s$])\$(?!\d)
    )
  | (?P<void> \[\^[^\]\s]{1,60}+\] | <!--[^<>]{0,1000}--> )
  | (?P<tag> </?(?P<name>[A-Za-z][\w-]*+)(?:\s[^<>]*+|/)?> )
  | (?P<entity> &(?:\#\d{1,7}|\#[xX][0-9a-fA-F]{1,6}|\w{2,31}); )
  | (?P<open> !?\[ )
  | (?P<close> \] (?: \((?:[^()\s<>]++|\([^()\s]*+\)){0,20} (?:<[^<>]*+>)? (?:\s+(?:"[^"]*"|'[^']*'))?\s*\)
                   | \[[^\[\]]{0,200}\] )? )
  | (?P<emphasis> \*{1,3}(?!\*) | _{1,3}(?!_) | ~~ )
  | (?P<hard> \n )
    """,
    re.VERBOSE | re.DOTALL,
)
_SPECIAL = frozenset("*_[]`\\~|$")
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])|&(?=\#?\w+;)")
_BLOCK_START = re.compile(r"(\s*)(#{1,6}(?=\s)|[-+*>](?=\s)|\d{1,9}(?=[.)]\s))")
MAX_OPEN = 50
"""Beginnings among which that of a pair is looked for: with all of them, time would be quadratic."""
_HARD_BREAK = "\\\n"


def inline_tokens(text: str, definitions: frozenset[str]) -> list[Token]:
    """`definitions` are the labels of link definitions: a label in brackets that is one of them is a link."""
    found: list[Token] = []
    opened: list[tuple[str, int, int]] = []
    """What may be the beginning of a pair: its kind, its index in `found`, and its end in the text."""
    done = 0
    for match in _INLINE.finditer(text):
        if match.start() > done:
            found.append(text[done : match.start()])
        done = match.end()
        kind, raw = match.lastgroup or "", match[0]
        kind = next((name for name in _KINDS if match[name] is not None), kind)
        if kind == "open":
            opened.append(("[", len(found), match.end()))
            found.append(raw)
        elif kind == "close":
            _close_link(found, opened, match, definitions)
        elif kind == "emphasis":
            _emphasis(found, opened, match)
        elif kind == "tag":
            _tag(found, opened, match)
        elif kind == "entity":
            shown = html.unescape(raw)
            found.append(raw if shown in _SPECIAL else shown)  # `written` escapes <, > and & where they need it
        elif kind == "hard":
            found.append(Mark("break", _HARD_BREAK))
        elif kind in ("atom", "void"):
            found.append(Mark(kind, raw))
        else:
            found.append(raw)
    found.append(text[done:])
    return _merged(found)


_KINDS = ("escape", "atom", "void", "tag", "entity", "open", "close", "emphasis", "hard")


def _close_link(
    found: list[Token], opened: list[tuple[str, int, int]], match: re.Match[str], definitions: frozenset[str]
) -> None:
    opener = next((one for one in reversed(opened[-MAX_OPEN:]) if one[0] == "["), None)
    if opener is None:
        found.append(match[0])
        return
    while opened.pop() != opener:
        pass
    label = match.string[opener[2] : match.start()]
    if match[0] in ("]", "][]"):  # the label is the link's name, which must not change
        if label.casefold() in definitions:
            raw = f"{found[opener[1]]}{label}{match[0]}"
            del found[opener[1] :]
            found.append(Mark("atom", raw))
        else:
            found.append(match[0])
    else:
        found[opener[1]] = Mark("open", found[opener[1]])
        found.append(Mark("close", match[0]))


def _emphasis(found: list[Token], opened: list[tuple[str, int, int]], match: re.Match[str]) -> None:
    raw, text = match[0], match.string
    before, after = text[match.start() - 1 : match.start()] or " ", text[match.end() : match.end() + 1] or " "
    inside_word = raw[0] == "_" and before.isalnum() and after.isalnum()
    opener = next((one for one in reversed(opened[-MAX_OPEN:]) if one[0] == raw), None)
    if opener and not before.isspace() and not inside_word and not (raw[0] == "_" and after.isalnum()):
        while opened.pop() != opener:
            pass
        found[opener[1]] = Mark("open", raw)
        found.append(Mark("close", raw))
        return
    if not after.isspace() and not inside_word and not (raw[0] == "_" and before.isalnum()):
        opened.append((raw, len(found), match.end()))
    found.append(raw)


def _tag(found: list[Token], opened: list[tuple[str, int, int]], match: re.Match[str]) -> None:
    raw, name = match[0], f"<{match['name'].lower()}"
    if not raw.startswith("</"):
        if name != "<br" and not raw.endswith("/>"):
            opened.append((name, len(found), match.end()))
        found.append(Mark("break" if name == "<br" else "void", raw))
        return
    opener = next((one for one in reversed(opened[-MAX_OPEN:]) if one[0] == name), None)
    if opener is None:
        found.append(Mark("void", raw))
        return
    while opened.pop() != opener:
        pass
    found[opener[1]] = Mark("open", found[opener[1]].value)  # type: ignore[union-attr]
    found.append(Mark("close", raw))


def _merged(tokens: Sequence[Token]) -> list[Token]:
    found: list[Token] = []
    for token in tokens:
        if isinstance(token, str) and found and isinstance(found[-1], str):
            found[-1] += token
        elif token:
            found.append(token)
    return found


def _escaped(text: str) -> str:
    return _MARKUP.sub(lambda found: html.escape(found[0]), text)


def written(translation: str, tokens: Sequence[Token]) -> str:
    """The paragraph with a translation. A text that would begin a list or a heading is escaped."""
    made = from_html(translation, tokens)
    text = "".join(_escaped(token) if isinstance(token, str) else token.value for token in made)
    first = next((token for token in made if token), "")
    if isinstance(first, str) and not (tokens and isinstance(tokens[0], str) and _BLOCK_START.match(tokens[0])):
        number = _BLOCK_START.match(text)
        if number:
            begin = number[1] + (number[2] + "\\" if number[2].isdigit() else "\\" + number[2])
            text = begin + text[number.end() :]
    return text
