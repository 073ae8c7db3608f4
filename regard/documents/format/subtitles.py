"""Subtitles (SubRip, WebVTT): the words of each cue. Numbers, times, styles and the number of lines stay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

from regard.documents.document import Document, InvalidDocument
from regard.documents.inline import Mark, Token, from_html, to_html
from regard.documents.text_file import Slice, decode, sliced_document

_CUE = re.compile(
    r"^[ \t]*(?:\d{1,4}:)?\d{1,2}:\d{1,2}[.,]\d{1,3}[ \t]+-->[^\r\n]*\r?\n"  # the line with the times
    r"(?P<text>[^\r\n]*\S[^\r\n]*(?:\r?\n[^\r\n]*\S[^\r\n]*)*)",
    re.MULTILINE,
)
_TAG = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z]++)[^<>\r\n]*+>|<[0-9:.]+>|\{\\[^{}\r\n]*\}")
_SPEAKER = re.compile(r"\s*(?:<[^<>]*>\s*)*[-\u2010-\u2015]\s?\S")
"""The beginning of a line that somebody else says."""
_WORD = re.compile(r"(?:<[^<>]*>|[^\s<]|<)+")


def read(content: bytes, columns: Sequence[str] = ()) -> Document:
    source, encoding = decode(content)
    slices = list(_slices(source))
    if source.strip() and not slices and "-->" not in source:
        raise InvalidDocument("the file has no subtitles: there is no line with times (00:00:01,000 --> 00:00:02,000)")
    return sliced_document(source, encoding, slices, html=True)


def _slices(source: str) -> Iterator[Slice]:
    for cue in _CUE.finditer(source):
        newline = "\r\n" if "\r\n" in cue["text"] else "\n"
        lines = cue["text"].split(newline)
        dialogue = any(map(_SPEAKER.match, lines[1:]))
        start = cue.start("text")
        for text in lines if dialogue else [cue["text"]]:
            tokens = list(_tokens(text))
            write = partial(_written, tokens=tokens, lines=text.count(newline) + 1, newline=newline)
            yield Slice(start, start + len(text), to_html(tokens), write)
            start += len(text) + len(newline)


def _tokens(text: str) -> Iterator[Token]:
    tags = list(_TAG.finditer(text))
    closed = _closed(tags)
    done = 0
    for number, tag in enumerate(tags):
        if tag.start() > done:
            yield text[done : tag.start()]
        yield Mark("void" if number not in closed else "close" if tag["close"] else "open", tag[0])
        done = tag.end()
    if done < len(text):
        yield text[done:]


def _closed(tags: Sequence[re.Match[str]]) -> set[int]:
    """The tags that have a partner, without overlaps."""
    found: set[int] = set()
    opened: list[int] = []
    for number, tag in enumerate(tags):
        if tag["name"] and not tag["close"]:
            opened.append(number)
        elif tag["name"] and opened and tags[opened[-1]]["name"] == tag["name"]:
            found |= {opened.pop(), number}
    return found


def _written(translation: str, tokens: Sequence[Token], lines: int, newline: str) -> str:
    text = "".join(token if isinstance(token, str) else token.value for token in from_html(translation, tokens))
    return newline.join(_wrapped(text, lines)) if lines > 1 else text


def _wrapped(text: str, lines: int) -> list[str]:
    """About equally long lines, as many as before."""
    words = _WORD.findall(text)
    lengths = [len(_TAG.sub("", word)) + 1 for word in words]
    found: list[list[str]] = [[]]
    written, total = 0, sum(lengths)
    for word, length in zip(words, lengths):
        if found[-1] and len(found) < lines and written + length / 2 > len(found) * total / lines:
            found.append([])
        found[-1].append(word)
        written += length
    return [" ".join(line) for line in found]
