"""Placeholders for protected spans, so that URLs, emoji and numbers survive translation.

Each protected span (untranslatable.py) is replaced by a placeholder such as X1, which models copy, and restored
afterwards. If a translation lost a placeholder or a number, the next attempt is more careful. The last attempt splits
the sentence at all spans and translates the parts between them separately, so it cannot lose anything.

    for attempt in attempts(sentence):
        found = ...  # the attempt.choices best translations of each of attempt.inputs
        if results := attempt.results(found):
            break

`PendingSentences` does so for many sentences, in as few batches as possible. This module does not call a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

from regard.text.alignment import AlignedText, Links, Words, concatenate, map_links
from regard.text.untranslatable import (
    ProtectedSpan,
    has_numbers,
    has_words,
    keeps_numbers,
    numbers_in,
    protected_spans,
)
from regard.text.word_confidences import concatenated, edited

CHOICES = 4
"""Translations to search for one that lost nothing."""
MAX_PLACEHOLDERS = 12
"""A sentence with more of them is split instead."""
MAX_PARTS = 1000
"""A sentence with more parts gets no alternatives."""

_PLACEHOLDER = re.compile(r"(?<!\w)X[0-9]+(?!\w)")
_TAKEN = re.compile(r"X[0-9]{1,9}")
_MARKS = re.compile(r"[\s.!?…]*")
_SPACE = re.compile(r"\s*")


class Attempt:
    """One way to translate a sentence."""

    def __init__(self, parts: Iterable[MaskedSentence | UnmaskedPart | str]):
        self._parts = [part for part in parts if part]
        translated = [part for part in self._parts if not isinstance(part, str)]
        self.inputs = [part.input for part in translated]
        """The texts to translate, in order."""
        self.choices = CHOICES if any(part.checked for part in translated) else 1
        """How many translations of each to request."""

    def results(self, found: Sequence[Sequence[AlignedText]]) -> list[AlignedText]:
        """Translations of the sentence, best first; empty if each of them lost something."""
        if len(found) > MAX_PARTS:
            found = [one[:1] for one in found]
        joined = (self._join(iter(row)) for row in zip(*found)) if self.inputs else [self._join(iter(()))]
        return [result for result in joined if result is not None]

    def _join(self, found: Iterator[AlignedText]) -> AlignedText | None:
        parts: list[tuple[str, AlignedText]] = []
        for part in self._parts:
            if isinstance(part, str):
                parts.append((part, AlignedText(part, [(word, word) for word in range(len(part.split()))])))
            elif restored := part.restored(next(found)):
                parts.append((part.sentence, restored))
            else:
                return None
        if len(parts) == 1:
            return parts[0][1]
        confidences = concatenated((one.text, one.confidences) for _, one in parts)
        return AlignedText(*concatenate([(source, one.text, one.alignment) for source, one in parts]), confidences)


def attempts(sentence: str) -> Iterator[Attempt]:
    """From the most fluent one to the one that loses nothing."""
    spans = protected_spans(sentence)
    trailing = _trailing_decoration(sentence, spans)
    masked = spans[: len(spans) - len(trailing)]
    numbers = _numbers_between(sentence, spans)
    emoji = [span for span in spans if span.kind == "emoji"]
    ways = [(masked, trailing)]
    if numbers:
        ways.append((sorted([*masked, *numbers]), trailing))
    if emoji and not trailing:
        ways.append(([span for span in spans if span.kind != "emoji"], emoji))
    yield from (Attempt([MaskedSentence(sentence, *way)]) for way in ways if len(way[0]) <= MAX_PLACEHOLDERS)
    if spans or numbers:
        yield Attempt(_split_around(sentence, sorted([*spans, *numbers])))


class PendingSentences:
    """Sentences on their way through their attempts. Whoever calls a model needs no more than this:

    pending = PendingSentences(sentences)
    while asked := pending.next_inputs():
        for n_best, texts in asked.items():
            pending.answer(n_best, [...])  # the n_best translations of each text, best first
    pending.results()
    """

    def __init__(self, sentences: Sequence[str], n_best: int = 1):
        self._sentences, self._n_best = sentences, n_best
        self._attempts = [attempts(sentence) for sentence in sentences]
        self._found: list[list[AlignedText]] = [[] for _ in sentences]
        self._left: Iterable[int] = range(len(sentences))
        self._tried: dict[int, list[tuple[int, Attempt]]] = {}

    def next_inputs(self) -> dict[int, list[str]]:
        """Texts to translate, by how many translations of each are needed; empty when nothing is left to try."""
        left = [number for number in self._left if not self._found[number]]
        tried = [(number, attempt) for number in left if (attempt := next(self._attempts[number], None))]
        self._left, self._tried = [number for number, _ in tried], {}
        for number, attempt in tried:
            self._tried.setdefault(max(attempt.choices, self._n_best), []).append((number, attempt))
        return {
            n_best: [text for _, attempt in some for text in attempt.inputs] for n_best, some in self._tried.items()
        }

    def answer(self, n_best: int, found: Iterable[Sequence[AlignedText]]) -> None:
        answers = iter(found)
        for number, attempt in self._tried[n_best]:
            self._found[number] = attempt.results([next(answers) for _ in attempt.inputs])

    def results(self) -> list[list[AlignedText]]:
        """Translations of each sentence, best first. A sentence is never lost: without any, it is its own."""
        return [
            [one for one in translations if one.text.strip()] or [AlignedText(sentence)]
            for translations, sentence in zip(self._found, self._sentences)
        ]


class UnmaskedPart:
    """Words between protected spans, translated as they are."""

    __slots__ = ("sentence", "input")
    checked = False

    def __init__(self, words: str):
        self.sentence = self.input = words

    def restored(self, translation: AlignedText) -> AlignedText:
        return translation if translation.text else AlignedText(self.input, translation.alignment)


class MaskedSentence:
    """A sentence with placeholders for `masked` spans and without `removed` ones, which follow the translation."""

    def __init__(self, sentence: str, masked: Sequence[ProtectedSpan], removed: Sequence[ProtectedSpan] = ()):
        self.sentence = sentence
        self._spans: dict[str, tuple[ProtectedSpan, bool, bool]] = {}
        """By placeholder: the span, and whether it is attached to the word before and after it."""
        self._suffix = "".join(" " + sentence[span.start : span.end] for span in removed)
        """Appended to the translation."""
        self._slices: list[tuple[str, str]] = []
        """Slices of the sentence and of the input."""
        names = _unused_names(sentence)
        removed_starts = {span.start for span in removed}
        start = 0
        for span in sorted([*masked, *removed]):
            before, text = sentence[start : span.start], sentence[span.start : span.end]
            attached = _letter(sentence, span.start - 1), _letter(sentence, span.end)
            if span.start in removed_starts:
                kept = before.rstrip()
                self._slices += [(kept, kept), (sentence[start + len(kept) : span.end], " " * all(attached))]
            else:
                name = next(names)
                self._spans[name] = (span, *attached)
                self._slices += [(before, before), (text, " " * attached[0] + name + " " * attached[1])]
            start = span.end
        self._slices.append((sentence[start:], sentence[start:]))
        self.input = "".join(after for _, after in self._slices)
        self.checked = bool(self._spans) or has_numbers(self.input)

    def restored(self, translation: AlignedText) -> AlignedText | None:
        """The translation with the spans restored; None if a placeholder or a number is lost."""
        text = translation.text or self.input  # an empty translation leaves the words as they are
        names = [name for name in _PLACEHOLDER.finditer(text) if name[0] in self._spans]
        if sorted(name[0] for name in names) != sorted(self._spans):
            return None
        if self.checked and not keeps_numbers(self.input, text):
            return None
        if not names and not self._suffix:
            return AlignedText(text, translation.alignment, translation.confidences)
        slices: list[tuple[str, str]] = []
        start = 0
        for name in names:
            span, before, after = self._spans[name[0]]
            begin = name.start() - (before and text[start : name.start()].endswith(" "))
            end = name.end() + (after and text.startswith(" ", name.end()))
            slices += [
                (text[start:begin], text[start:begin]),
                (text[begin:end], self.sentence[span.start : span.end]),
            ]
            start = end
        slices += [(text[start:], text[start:]), ("", self._suffix)]
        restored = "".join(after for _, after in slices)
        confidences = translation.confidences and edited(translation.confidences, slices)
        if translation.alignment is None:
            return AlignedText(restored, None, confidences)
        links = self._link_placeholders(translation.alignment, text, names)
        mapped = map_links(links, [(after, before) for before, after in self._slices], slices)
        return AlignedText(restored, mapped, confidences)

    def _link_placeholders(self, links: Links, text: str, names: list[re.Match[str]]) -> Links:
        """The alignment with each placeholder linked to itself, whatever the model attended to."""
        source, target = Words(self.input), Words(text)
        positions = {name[0]: source.within(*name.span())[0] for name in _PLACEHOLDER.finditer(self.input)}
        known = {target.within(*name.span())[0]: positions[name[0]] for name in names}
        return [(s, t) for s, t in links if t not in known] + [(s, t) for t, s in known.items()]


def _unused_names(sentence: str) -> Iterator[str]:
    """Placeholders that do not occur in the sentence, not even as a prefix: X1 in X12."""
    used = {name[:end] for name in _TAKEN.findall(sentence) for end in range(2, len(name) + 1)}
    return (name for number in count(1) if (name := f"X{number}") not in used)


def _trailing_decoration(sentence: str, spans: Sequence[ProtectedSpan]) -> list[ProtectedSpan]:
    """Emoji and signs that only decorate the end of a sentence: Bravo 👍 !

    If there are others within the sentence, all may carry meaning: J'adore 🍕 et 🍣 !
    """
    end, number = len(sentence), len(spans)
    while number and spans[number - 1].decorative:
        marks = _MARKS if end == len(sentence) else _SPACE
        if not marks.fullmatch(sentence, spans[number - 1].end, end):
            break
        number -= 1
        end = spans[number].start
    return [] if any(span.decorative for span in spans[:number]) else list(spans[number:])


def _numbers_between(sentence: str, spans: Sequence[ProtectedSpan]) -> list[ProtectedSpan]:
    """Numbers of two or more digits outside protected spans."""
    found: list[ProtectedSpan] = []
    start = 0
    for span in [*spans, ProtectedSpan(len(sentence), len(sentence))]:
        if start < span.start:
            numbers = numbers_in(sentence[start : span.start])
            found += [ProtectedSpan(start + number.start, start + number.end) for number in numbers]
        start = span.end
    return [number for number in found if has_numbers(sentence[number.start : number.end])]


def _split_around(sentence: str, spans: Sequence[ProtectedSpan]) -> Iterator[UnmaskedPart | str]:
    """The sentence split at protected spans; the parts between them are translated separately."""
    done = 0
    for start, end in [*_words_around(sentence, spans), (len(sentence), len(sentence))]:
        between = sentence[done:start]
        if has_words(words := between.strip(), []):
            before = between.index(words)
            yield from (between[:before], UnmaskedPart(words), between[before + len(words) :])
        else:
            yield between
        yield sentence[start:end]
        done = end


def _words_around(sentence: str, spans: Sequence[ProtectedSpan]) -> list[tuple[int, int]]:
    """Start and end of each span, extended to the whole word if it is inside one."""
    found: list[tuple[int, int]] = []
    done = 0
    for span in spans:
        start, end = max(done, span.start), span.end
        if end <= done:
            continue
        if _letter(sentence, start - 1) and _letter(sentence, end):
            while start > done and not sentence[start - 1].isspace():
                start -= 1
            while end < len(sentence) and not sentence[end].isspace():
                end += 1
        found.append((start, end))
        done = end
    return found


def _letter(text: str, index: int) -> bool:
    return 0 <= index < len(text) and (text[index].isalnum() or text[index] == "_")
