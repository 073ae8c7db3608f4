"""How a sentence is put to a model so that addresses, placeholders, emoji and numbers come through.

What must come through (verbatim.py) is replaced by a short name, such as X1, which models copy, and put back
afterwards. Where a translation lost a name or a number, the next attempt is more careful. The last one cuts the
sentence at all such things and has what stands between them translated on its own, so it cannot lose anything.

    for attempt in attempts(sentence):
        found = ...  # for each of attempt.asked its translations, best first, attempt.choices of them
        if answers := attempt.answers(found):
            break

Does not know who translates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

from regard.serving.text.alignment import AlignedText, Links, Words, chained, moved
from regard.serving.text.untranslatable import (
    ProtectedSpan,
    has_numbers,
    has_words,
    keeps_numbers,
    numbers_in,
    protected_spans,
)

CHOICES = 4
"""Translations among which one is sought that lost nothing."""
MOST_NAMES = 12
"""More in one sentence are not trusted to a model."""
MOST_PARTS = 1000
"""Of a sentence that is cut into more, only the best translation is put together."""

_NAME = re.compile(r"(?<!\w)X[0-9]+(?!\w)")
_NAMED = re.compile(r"X[0-9]{1,9}")
_MARKS = re.compile(r"[\s.!?…]*")
_SPACE = re.compile(r"\s*")


class Attempt:
    """One way to ask for a sentence."""

    def __init__(self, parts: Iterable[MaskedSentence | UnmaskedPart | str]):
        self._parts = [part for part in parts if part]
        asked = [part for part in self._parts if not isinstance(part, str)]
        self.asked = [part.given for part in asked]
        """What is to be translated, in order."""
        self.choices = CHOICES if any(part.watched for part in asked) else 1
        """How many translations of each are worth having."""

    def answers(self, found: Sequence[Sequence[AlignedText]]) -> list[AlignedText]:
        """Translations of the sentence, best first; none where each lost something."""
        if len(found) > MOST_PARTS:
            found = [one[:1] for one in found]
        made = (self._answer(iter(row)) for row in zip(*found)) if self.asked else [self._answer(iter(()))]
        return [answer for answer in made if answer is not None]

    def _answer(self, found: Iterator[AlignedText]) -> AlignedText | None:
        parts: list[tuple[str, str, Links | None]] = []
        for part in self._parts:
            if isinstance(part, str):
                parts.append((part, part, [(word, word) for word in range(len(part.split()))]))
            elif answer := part.restored(next(found)):
                parts.append((part.sentence, *answer))
            else:
                return None
        return AlignedText(*(chained(parts) if len(parts) > 1 else parts[0][1:]))


def attempts(sentence: str) -> Iterator[Attempt]:
    """From the one that reads best to the one that loses nothing."""
    things = protected_spans(sentence)
    aside = _at_the_end(sentence, things)
    named = things[: len(things) - len(aside)]
    numbers = _numbers_between(sentence, things)
    emoji = [thing for thing in things if thing.kind == "emoji"]
    ways = [(named, aside)]
    if numbers:
        ways.append((sorted([*named, *numbers]), aside))
    if emoji and not aside:
        ways.append(([thing for thing in things if thing.kind != "emoji"], emoji))
    yield from (Attempt([MaskedSentence(sentence, *way)]) for way in ways if len(way[0]) <= MOST_NAMES)
    if things or numbers:
        yield Attempt(_around(sentence, sorted([*things, *numbers])))


class UnmaskedPart:
    """Words between things, given to a model as they are."""

    __slots__ = ("sentence", "given")
    watched = False

    def __init__(self, words: str):
        self.sentence = self.given = words

    def restored(self, said: AlignedText) -> AlignedText:
        return said if said.text else AlignedText(self.given, said.alignment)


class MaskedSentence:
    """A sentence, or part of one, as a model is given it: names stand for things, and some are left aside."""

    def __init__(self, sentence: str, named: Sequence[ProtectedSpan], aside: Sequence[ProtectedSpan] = ()):
        self.sentence = sentence
        self._things: dict[str, tuple[ProtectedSpan, bool, bool]] = {}
        """By name: a thing, and whether it sticks to the word before and after it."""
        self._aside = "".join(" " + sentence[thing.start : thing.end] for thing in aside)
        """What goes behind the end of any translation."""
        self._slices: list[tuple[str, str]] = []
        """Of the sentence, and what is given for each."""
        names = _unused_names(sentence)
        left_out = {thing.start for thing in aside}
        start = 0
        for thing in sorted([*named, *aside]):
            before, text = sentence[start : thing.start], sentence[thing.start : thing.end]
            sticks = _letter(sentence, thing.start - 1), _letter(sentence, thing.end)
            if thing.start in left_out:
                kept = before.rstrip()
                self._slices += [(kept, kept), (sentence[start + len(kept) : thing.end], " " * all(sticks))]
            else:
                name = next(names)
                self._things[name] = (thing, *sticks)
                self._slices += [(before, before), (text, " " * sticks[0] + name + " " * sticks[1])]
            start = thing.end
        self._slices.append((sentence[start:], sentence[start:]))
        self.given = "".join(given for _, given in self._slices)
        self.watched = bool(self._things) or has_numbers(self.given)

    def restored(self, said: AlignedText) -> AlignedText | None:
        """With things in the places of their names; None where one, or a number, is lost."""
        text = said.text or self.given  # of what a model has nothing to say, the words themselves
        names = [name for name in _NAME.finditer(text) if name[0] in self._things]
        if sorted(name[0] for name in names) != sorted(self._things):
            return None
        if self.watched and not keeps_numbers(self.given, text):
            return None
        if not names and not self._aside:
            return AlignedText(text, said.alignment)
        slices: list[tuple[str, str]] = []
        start = 0
        for name in names:
            thing, before, after = self._things[name[0]]
            begin = name.start() - (before and text[start : name.start()].endswith(" "))
            end = name.end() + (after and text.startswith(" ", name.end()))
            slices += [
                (text[start:begin], text[start:begin]),
                (text[begin:end], self.sentence[thing.start : thing.end]),
            ]
            start = end
        slices += [(text[start:], text[start:]), ("", self._aside)]
        made = "".join(after for _, after in slices)
        if said.alignment is None:
            return AlignedText(made)
        links = self._certain(said.alignment, text, names)
        return AlignedText(made, moved(links, [(given, source) for source, given in self._slices], slices))

    def _certain(self, links: Links, text: str, names: list[re.Match[str]]) -> Links:
        """With each name linked to itself, whatever the model looked at."""
        given, written = Words(self.given), Words(text)
        places = {name[0]: given.within(*name.span())[0] for name in _NAME.finditer(self.given)}
        known = {written.within(*name.span())[0]: places[name[0]] for name in names}
        return [(s, t) for s, t in links if t not in known] + [(s, t) for t, s in known.items()]


def _unused_names(sentence: str) -> Iterator[str]:
    """Names that the sentence does not have, nor as the beginning of another: X1 in X12."""
    used = {name[:end] for name in _NAMED.findall(sentence) for end in range(2, len(name) + 1)}
    return (name for number in count(1) if (name := f"X{number}") not in used)


def _at_the_end(sentence: str, things: Sequence[ProtectedSpan]) -> list[ProtectedSpan]:
    """What only adorns the end of a sentence: Bravo 👍 !

    Where others stand within the sentence, all may be part of what it says: J'adore 🍕 et 🍣 !
    """
    end, number = len(sentence), len(things)
    while number and things[number - 1].ornament:
        marks = _MARKS if end == len(sentence) else _SPACE
        if not marks.fullmatch(sentence, things[number - 1].end, end):
            break
        number -= 1
        end = things[number].start
    return [] if any(thing.ornament for thing in things[:number]) else list(things[number:])


def _numbers_between(sentence: str, things: Sequence[ProtectedSpan]) -> list[ProtectedSpan]:
    """Numbers of two digits or more that are no part of a thing."""
    found: list[ProtectedSpan] = []
    start = 0
    for thing in [*things, ProtectedSpan(len(sentence), len(sentence))]:
        if start < thing.start:
            numbers = numbers_in(sentence[start : thing.start])
            found += [ProtectedSpan(start + number.start, start + number.end) for number in numbers]
        start = thing.end
    return [number for number in found if has_numbers(sentence[number.start : number.end])]


def _around(sentence: str, things: Sequence[ProtectedSpan]) -> Iterator[UnmaskedPart | str]:
    """A sentence cut at things: these are kept, what stands between them is to be translated on its own."""
    done = 0
    for start, end in [*_words_around(sentence, things), (len(sentence), len(sentence))]:
        between = sentence[done:start]
        if has_words(words := between.strip(), []):
            before = between.index(words)
            yield from (between[:before], UnmaskedPart(words), between[before + len(words) :])
        else:
            yield between
        yield sentence[start:end]
        done = end


def _words_around(sentence: str, things: Sequence[ProtectedSpan]) -> list[tuple[int, int]]:
    """The places of things; of one in the middle of a word, the place of the word."""
    found: list[tuple[int, int]] = []
    done = 0
    for thing in things:
        start, end = max(done, thing.start), thing.end
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


def _letter(text: str, place: int) -> bool:
    return 0 <= place < len(text) and (text[place].isalnum() or text[place] == "_")
