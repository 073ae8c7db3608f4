"""A request's texts, translated: cut into sentences, given to the engine, and put together exactly.

What all translating routes share, whatever their contract. Knows neither HTTP nor models.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from regard.languages import name, public
from regard.serving.catalogue import Catalogue, Served
from regard.serving.settings import Settings
from regard.serving.text.detection import ENOUGH, detect
from regard.serving.text.markup import put_together, sentences_of
from regard.serving.text.placeholders import Attempt, attempts
from regard.serving.text.sentences import pieces_of
from regard.serving.text.text_thread import TextThread
from regard.serving.text.word_links import Said
from regard.serving.workers.worker_pool import Engine, Search, Translated

HARDLY, SURELY = 10.0, 50.0
"""Confidence below which a text is in none of our languages, if there is another above which it is in that."""


class Unsupported(Exception):
    """A language or pair of languages that this server does not have."""


@dataclass(frozen=True)
class Asked:
    """What is to be translated; languages by their internal codes."""

    texts: list[str]
    source: str
    """A code, or `auto`."""
    target: str
    html: bool = False
    alternatives: int = 0
    owner: str = ""
    """Whose request it is: what is kept of one owner's is not shown to another."""


@dataclass(frozen=True)
class Answered:
    texts: list[str]
    alternatives: list[list[str]]
    """Other translations of each text, none of them empty or the same as another."""
    detected: tuple[str, float] | None = None
    """Language and confidence, 0 to 100, of all texts together; None when the source was given."""


class Translating:
    """Answers what routes ask, with the models of a catalogue."""

    def __init__(self, settings: Settings, catalogue: Catalogue, engine: Engine):
        self.settings, self.catalogue, self.engine = settings, catalogue, engine
        self.text = TextThread()

    async def answer(self, asked: Asked) -> Answered:
        """Raises `Unsupported` where there is no model for it."""
        size = sum(map(len, asked.texts)) + len(asked.texts)
        self.engine.refuse_if_busy(len(asked.texts))  # now, when nothing was done for it yet
        self.text.refuse_if_busy(size)
        source, detected = asked.source, None
        if source == "auto":
            detected = await self.text.run(size, lambda: self._detect(asked))
            source = detected[0]
        model = self._model(source, asked.target)
        if model is None:  # into the same language: nothing changes
            return Answered(asked.texts, [[] for _ in asked.texts], detected)
        documents, sentences = await self.text.run(size, lambda: _cut(asked, model.aligns))
        found = await self._translate(model, sentences, asked, size)
        ranked = await self.text.run(size, lambda: _put_together(documents, dict(zip(sentences, found)), asked))
        return Answered([texts[0] for texts in ranked], [texts[1:] for texts in ranked], detected)

    def _detect(self, asked: Asked) -> tuple[str, float]:
        """One language for all texts: one of ours, unless they are clearly in another."""
        text = _beginning(asked)
        known = self.catalogue.languages()
        found = detect(text, known)[0]
        if found[1] < HARDLY and (other := detect(text)[0])[1] > SURELY:
            return other
        if found[0] not in known:  # no words at all: they stay as they are, whatever they are taken for
            found = next((code for code in known if self.catalogue.pair(code, asked.target)), found[0]), found[1]
        return found

    def _model(self, source: str, target: str) -> Served | None:
        known = self.catalogue.languages()
        for code in (source, target):
            if code not in known:
                raise Unsupported(f"{public(code)} is not supported")
        if source == target:
            return None
        if model := self.catalogue.pair(source, target):
            return model
        wanted, given = (f"{name(code)} ({public(code)})" for code in (target, source))
        raise Unsupported(f"{wanted} is not available as a target language from {given}")

    async def _translate(self, model: Served, sentences: list[str], asked: Asked, size: int) -> list[list[Said]]:
        """Of each sentence translations that lost nothing, best first: most by the first attempt (keeping.py)."""
        found: list[list[Said]] = [[] for _ in sentences]
        ways = [attempts(sentence) for sentence in sentences]
        left = list(range(len(sentences)))
        while left:
            tried = await self.text.run(size, partial(_next_attempts, ways, left))
            by_choices: dict[int, list[tuple[int, Attempt]]] = {}
            for number, attempt in tried:
                by_choices.setdefault(max(attempt.choices, asked.alternatives + 1), []).append((number, attempt))
            await asyncio.gather(
                *(self._attempt(model, some, choices, asked, size, found) for choices, some in by_choices.items())
            )
            left = [number for number, _ in tried if not found[number]]
        return [said or [Said(sentence)] for said, sentence in zip(found, sentences)]

    async def _attempt(
        self,
        model: Served,
        tried: list[tuple[int, Attempt]],
        choices: int,
        asked: Asked,
        size: int,
        found: list[list[Said]],
    ) -> None:
        how = Search(n_best=choices, alignment=asked.html and model.aligns)
        given = [text for _, attempt in tried for text in attempt.asked]
        answers = iter(await self.engine.translate(model.name, given, how, asked.owner))

        def restore() -> None:
            for number, attempt in tried:
                found[number] = attempt.answers([_ranked(next(answers)) for _ in attempt.asked])

        await self.text.run(size, restore)


def _beginning(asked: Asked) -> str:
    """As much of the texts as is looked at to detect their language."""
    found = ""
    for text in asked.texts:
        found += (" ".join(Html(text, False).sentences) if asked.html else text) + "\n"
        if len(found) > ENOUGH:
            break
    return found


def _cut(asked: Asked, aligns: bool) -> tuple[list[Plain] | list[Html], list[str]]:
    """The texts as documents, and each sentence of them once."""
    documents = [Html(text, aligns) for text in asked.texts] if asked.html else [Plain(text) for text in asked.texts]
    return documents, list(dict.fromkeys(sentence for document in documents for sentence in document.sentences))


def _next_attempts(ways: list[Iterator[Attempt]], numbers: list[int]) -> list[tuple[int, Attempt]]:
    return [(number, attempt) for number in numbers if (attempt := next(ways[number], None))]


def _put_together(documents: Sequence[Plain | Html], found: dict[str, list[Said]], asked: Asked) -> list[list[str]]:
    """Of each document its translation and, behind it, other ones."""
    count = 1 if asked.html else asked.alternatives + 1
    return [
        _different(
            [document.put_together([_nth(found[one], rank) for one in document.sentences]) for rank in range(count)]
        )
        for document in documents
    ]


def _ranked(best: Translated) -> list[Said]:
    return [Said(one.text, one.alignment) for one in (best, *best.alternatives)]


def _nth(found: list[Said], rank: int) -> Said:
    """Where a sentence has fewer translations than another of its text, its best stands in."""
    return found[rank] if rank < len(found) else found[0]


def _different(ranked: list[str]) -> list[str]:
    return [ranked[0], *(text for text in dict.fromkeys(ranked) if text and text != ranked[0])]


class Plain:
    """A text whose sentences are translated and all else is kept."""

    def __init__(self, text: str):
        self._pieces = pieces_of(text)
        self.sentences = [piece.text for piece in self._pieces if piece.wanted]

    def put_together(self, found: list[Said]) -> str:
        said = iter(found)
        return "".join(next(said).text if piece.wanted else piece.text for piece in self._pieces)


class Html:
    """A document of which only text is translated."""

    def __init__(self, html: str, aligns: bool):
        self._html, self._found = html, sentences_of(html, whole=aligns)
        self.sentences = [sentence.text for sentence in self._found]

    def put_together(self, found: list[Said]) -> str:
        return put_together(self._html, self._found, found)
