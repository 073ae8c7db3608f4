"""Extracts the sentences of an HTML document and puts their translations back.

Everything else stays byte for byte: tags, attributes, comments, entities, white space. Inline elements (b, a, span ...)
do not split a sentence: their tags are placed around the translated words (tag_placement.py). An element that is kept
within a sentence, such as code, is replaced by one private-use character, a protected span (untranslatable.py).

    found = extract_sentences(html)
    reassemble(html, found, [... for sentence in found])
"""

from __future__ import annotations

import html as references
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from regard.text.alignment import AlignedText
from regard.text.html_scanner import Item, scan_html
from regard.text.sentences import split_text
from regard.text.tag_placement import Tag, place_tags
from regard.text.untranslatable import PRIVATE_CHARACTERS, has_words

MAX_TAGS = 100
MAX_CHARACTERS = 5000
"""Tags and characters of a sentence. If there are more, each text between two tags is translated separately. This also
bounds the nesting depth in tag placement."""

_REFERENCE = re.compile(
    r"&(?:#[0-9]{1,9}+;?|#[xX][0-9a-fA-F]{1,8}+;?|[A-Za-z][A-Za-z0-9]{1,31}+;?)"
    r"|[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\ufeff]"
)
"""Entities, and invisible characters, which tokenizers drop: they would break the word count."""
_PRIVATE = re.compile("[\U000f0000-\U000ffffd]")
_LESS_THAN = re.compile(r"<([/!?]?)\Z")
_PAIRED = ("open", "close")
_UNSEEN = dict.fromkeys([*range(9), *range(14, 28), *range(127, 133), *range(134, 160), 0xAD, 0x200B, 0xFEFF])


class Sentence(NamedTuple):
    """A sentence of a document."""

    text: str
    """The text to translate, with entities decoded and white space collapsed."""
    raw_text: str
    """The same with its original white space."""
    start: int
    end: int
    """Its position in the document, including its tags."""
    tags: tuple[Tag, ...]
    """If there are any, its translation needs a word alignment."""
    atoms: dict[str, str]
    """Kept elements by the private-use character that replaces them."""


def extract_sentences(html: str, whole: bool = True) -> list[Sentence]:
    """The sentences in order. Without `whole`, for models without alignment, each text between two tags is separate."""
    private = set(_PRIVATE.findall(html))
    runs = (list(items) for block, items in groupby(scan_html(html), lambda item: item.kind == "block") if not block)
    return [sentence for items in runs for sentence in _Run(html, items, private).sentences(whole)]


def reassemble(html: str, sentences: Sequence[Sentence], translations: Sequence[AlignedText]) -> str:
    """The document with the translation of each sentence in its place."""
    parts, done = [], 0
    for sentence, translation in zip(sentences, translations, strict=True):
        if translation.text != sentence.text:
            # A "<" before a sentence must not become the start of a tag when other words follow.
            parts += [_LESS_THAN.sub("&lt;\\1", html[done : sentence.start]), _rendered(sentence, translation)]
            done = sentence.end
    return "".join([*parts, html[done:]])


def _rendered(sentence: Sentence, translation: AlignedText) -> str:
    left = dict(sentence.atoms)
    lost = [
        Tag("void", left.pop(atom), sentence.raw_text.index(atom))
        for atom in sentence.atoms
        if atom not in translation.text
    ]

    def render(text: str) -> str:
        text = references.escape(text, quote=False)
        return _PRIVATE.sub(lambda m: left.pop(m[0], "") if m[0] in sentence.atoms else m[0], text)

    tags = sorted([*sentence.tags, *lost], key=lambda tag: tag.offset) if lost else sentence.tags
    return place_tags(sentence.raw_text, tags, translation, render) if tags else render(translation.text)


class _Part(NamedTuple):
    """A part of the decoded text and its position in the document."""

    text: str
    start: int
    end: int
    verbatim: bool
    """Whether the document has it literally; otherwise an entity or element stands for it as a whole."""


class _Run:
    """Text and inline tags between two block boundaries."""

    def __init__(self, html: str, items: Iterable[Item], private: set[str]):
        self.html = html
        self.tags: list[Item] = []
        self.offsets: list[int] = []
        """Offset of each tag in the text."""
        self.atoms: dict[str, str] = {}
        self._parts: list[_Part] = []
        self._starts: list[int] = []
        unused = (chr(code) for code in PRIVATE_CHARACTERS if chr(code) not in private)
        length = 0
        for item in items:
            parts: Iterable[_Part] = ()
            if item.kind == "text":
                parts = _parts(html, item)
            elif item.kind == "atom" and (atom := next(unused, "")):
                parts = [_Part(atom, item.start, item.end, False)]
                self.atoms[atom] = html[item.start : item.end]
            else:
                self.tags.append(item)
                self.offsets.append(length)
            for part in parts:
                self._parts.append(part)
                self._starts.append(length)
                length += len(part.text)
        self.text = "".join(part.text for part in self._parts)
        self.partners = _partners(self.tags)

    def sentences(self, whole: bool) -> Iterator[Sentence]:
        start = 0
        for piece in split_text(self.text, lines=False):
            end = start + len(piece.text)
            if piece.translatable:
                yield from self._sentences(start, end, whole)
            start = end

    def _sentences(self, start: int, end: int, whole: bool) -> Iterator[Sentence]:
        """A sentence or, if some of its tags are unbalanced, the parts between those."""
        cuts = self._cuts(start, end, whole)
        if not cuts:
            yield self._sentence(start, end)
            return
        offsets = [start, *(self.offsets[tag] for tag in cuts), end]
        for begin, stop in zip(offsets, offsets[1:]):
            text = self.text[begin:stop]
            if has_words(text):
                yield self._sentence(begin + len(text) - len(text.lstrip()), stop - len(text) + len(text.rstrip()))

    def _cuts(self, start: int, end: int, whole: bool) -> list[int]:
        """The tags in a sentence whose partner is missing or in another sentence."""
        inside = range(bisect_right(self.offsets, start), bisect_left(self.offsets, end))
        if not inside:
            return []
        if not whole or len(self._with_partners(inside)) > MAX_TAGS or end - start > MAX_CHARACTERS:
            return list(inside)
        around = self._tags_around(start, end)
        alone = [self.tags[tag].kind in _PAIRED and self.partners[tag] not in around for tag in around]
        before = list(accumulate(alone, initial=0))

        def cut(tag: int) -> bool:
            """Whether a tag is unpaired, or an unpaired tag separates it from its partner."""
            first, last = sorted((tag - around.start, self.partners[tag] - around.start))
            return alone[tag - around.start] or before[last] > before[first]

        return [tag for tag in inside if self.tags[tag].kind in _PAIRED and cut(tag)]

    def _tags_around(self, start: int, end: int) -> range:
        """The tags in a sentence, at its ends, and in the white space around it."""
        while start and self.text[start - 1].isspace():
            start -= 1
        while end < len(self.text) and self.text[end].isspace():
            end += 1
        return range(bisect_left(self.offsets, start), bisect_right(self.offsets, end))

    def _sentence(self, start: int, end: int) -> Sentence:
        inside = range(bisect_right(self.offsets, start), bisect_left(self.offsets, end))
        numbers = self._with_partners(inside)
        tags = [self.tags[number] for number in numbers]
        text = self.text[start:end]
        return Sentence(
            " ".join(text.split()),
            text,
            min([self._raw_start(start), *(tag.start for tag in tags[:1])]),
            max([self._raw_end(end), *(tag.end for tag in tags[-1:])]),
            tuple(
                Tag(tag.kind, self.html[tag.start : tag.end], min(max(self.offsets[number] - start, 0), len(text)))
                for number, tag in zip(numbers, tags)
            ),
            {atom: self.atoms[atom] for atom in _PRIVATE.findall(text) if atom in self.atoms} if self.atoms else {},
        )

    def _with_partners(self, inside: range) -> range:
        """The range of tags that covers these and their partners."""
        ends = [*inside, *(self.partners[tag] for tag in inside if self.partners[tag] >= 0)]
        return range(min(ends), max(ends) + 1) if ends else range(0)

    def _raw_start(self, offset: int) -> int:
        number = bisect_right(self._starts, offset) - 1
        part, inside = self._parts[number], offset - self._starts[number]
        return part.start + inside if part.verbatim or not inside else part.end

    def _raw_end(self, offset: int) -> int:
        number = bisect_right(self._starts, offset - 1) - 1
        part, inside = self._parts[number], offset - self._starts[number]
        return part.start + inside if part.verbatim else part.end


def _parts(html: str, item: Item) -> Iterator[_Part]:
    start = item.start
    for found in _REFERENCE.finditer(html, item.start, item.end):
        if found.start() > start:
            yield _Part(html[start : found.start()], start, found.start(), True)
        yield _Part(references.unescape(found[0]).translate(_UNSEEN), *found.span(), False)
        start = found.end()
    if start < item.end:
        yield _Part(html[start : item.end], start, item.end, True)


def _partners(tags: Sequence[Item]) -> list[int]:
    """For each tag, the index of its closing or opening tag, -1 if there is none."""
    found = [-1] * len(tags)
    stack: list[int] = []
    opened: Counter[str] = Counter()
    for number, tag in enumerate(tags):
        if tag.kind == "open":
            stack.append(number)
            opened[tag.name] += 1
        elif tag.kind == "close" and opened[tag.name]:
            while True:
                opener = stack.pop()
                opened[tags[opener].name] -= 1
                if tags[opener].name == tag.name:
                    break
            found[number], found[opener] = opener, number
    return found
