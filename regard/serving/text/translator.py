"""Translates the texts of a request: splits them into sentences, sends those to the pool, reassembles the texts.

Shared by all translation routes; knows neither HTTP nor models.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from regard.checks import Finding, findings
from regard.confidence.marks import USUAL_THRESHOLD
from regard.documents.document import Document
from regard.glossary import Glossary
from regard.languages import name, public
from regard.serving.catalogue import Catalogue, Route, Step, aligns
from regard.serving.settings import Settings
from regard.serving.text.chain import compose, directed
from regard.serving.text.language_detection import MAX_CHARACTERS, detect
from regard.serving.text.text_thread import SHORT_TEXT, TextThread
from regard.serving.workers.errors import ServerBusy
from regard.serving.workers.translation_result import SearchOptions, TranslationResult
from regard.serving.workers.worker_pool import WorkerPool
from regard.text.alignment import AlignedText
from regard.text.doubtful_spans import as_spans, can_mark, doubtful, with_marks
from regard.text.language_runs import sentence_languages
from regard.text.placeholders import PendingSentences
from regard.text.segments import HtmlDocument, PlainText
from regard.text.word_confidences import Confidences

DOCUMENT_BATCH = 64
"""Sentences of a document in work at a time."""
Progress = Callable[[int, int], None]
"""Called with the number of sentences that are translated, and of all."""
GlossaryRows = tuple[tuple[str, str, str], ...]
MIN_CONFIDENCE, OTHER_CONFIDENCE = 10.0, 50.0
"""A text below the first for all our languages, and above the second for another one, is in that other language."""


class UnsupportedLanguage(Exception):
    """A language or language pair that this server does not offer."""


@dataclass(frozen=True)
class TranslationRequest:
    """Texts to translate, with internal language codes."""

    texts: list[str]
    source: str
    """A code, or `auto`."""
    target: str
    html: bool = False
    alternatives: int = 0
    owner: str = ""
    """Owner of the API key: cached translations are not shared between owners."""
    glossary: Glossary | None = None
    hints: tuple[str, ...] = ()
    """Languages of the user, which are likelier than others if the source is `auto`."""
    sentences: bool = False
    """Whether the sentences of each text are wanted, too."""
    doubt: bool = False
    """Whether confidences of the words and warnings are wanted."""


@dataclass(frozen=True)
class TranslatedTexts:
    texts: list[str]
    alternatives: list[list[str]]
    """Alternative translations of each text, non-empty and distinct."""
    detected: tuple[str, float] | None = None
    """Detected language of all texts together, and its confidence from 0 to 100; None if the source was given."""
    sentences: list[list[tuple[str, str]]] = field(default_factory=list)
    """Of each text, with their translations, if they were wanted."""
    confidences: list[Confidences | None] = field(default_factory=list)
    """Of each text, if requested; None where nothing was translated."""
    warnings: list[list[Finding]] = field(default_factory=list)
    """Of each text, if requested."""


class TextTranslator:
    """Translates requests with the models of a catalogue."""

    def __init__(self, settings: Settings, catalogue: Catalogue, pool: WorkerPool):
        self.settings, self.catalogue, self.pool = settings, catalogue, pool
        self.text_thread, self.document_thread = TextThread(), TextThread()

    async def translate(self, request: TranslationRequest) -> TranslatedTexts:
        """Raises `UnsupportedLanguage` if there is no model for the languages."""
        size = sum(map(len, request.texts)) + len(request.texts)
        self.pool.refuse_if_busy(len(request.texts))  # before any work is done
        self.text_thread.refuse_if_busy(size)
        source, detected = request.source, None
        if source == "auto":
            detected = await self.text_thread.run(size, lambda: self._detect(request))
            source = detected[0]
            if source not in self.catalogue.languages() and request.target in self.catalogue.languages():
                # Nobody asked for this language: what cannot be translated is not lost.
                return TranslatedTexts(request.texts, [[] for _ in request.texts], detected)
        route = self._route(source, request.target)
        if not route:  # the same language: the texts stay unchanged
            return TranslatedTexts(request.texts, [[] for _ in request.texts], detected)
        whole = aligns(route)
        documents, sentences = await self.text_thread.run(size, lambda: _split(request, whole))
        rows = await self.text_thread.run(size, lambda: _rows(request, sentences))
        if rows and len(route) > 1:
            raise UnsupportedLanguage("A glossary needs a model that translates directly between the languages")
        routes: dict[Route, list[str]] = {route: sentences}
        if detected and not rows:
            routes = await self.text_thread.run(size, lambda: self._routes(documents, sentences, request, route))
        found: dict[str, list[AlignedText]] = {}
        for way, own in routes.items():
            translated = await self._translate_along(way, own, request, size, rows) if way else map(_unchanged, own)
            found |= zip(own, translated)
        ranked = await self.text_thread.run(size, lambda: _reassemble(documents, found, request))
        best = [texts[0] for texts in ranked]
        more: dict[str, Any] = {}
        if request.sentences:
            more["sentences"] = [[(s, found[s][0].text) for s in one.sentences] for one in documents]
        if request.doubt:
            if request.html:
                best = await self.text_thread.run(size, lambda: _with_spans(documents, found, request.texts))
            more |= await self.text_thread.run(size, lambda: _doubts(documents, found, request, source))
        return TranslatedTexts(best, [texts[1:] for texts in ranked], detected, **more)

    def check_languages(self, source: str, target: str) -> None:
        """Raises `UnsupportedLanguage` if no text could be translated so."""
        if source != "auto":
            self._route(source, target)
        elif target not in self.catalogue.languages():
            raise UnsupportedLanguage(f"{public(target)} is not supported")

    async def translate_document(
        self, document: Document, request: TranslationRequest, progress: Progress
    ) -> TranslatedTexts:
        """Translates a document's texts, which are those of the request, batch by batch: other requests come between
        them, and a busy server makes a document wait instead of refusing it."""
        size = sum(map(len, request.texts)) + SHORT_TEXT + 1  # never in the event loop
        source, detected = request.source, None
        if source == "auto":
            detected = await self.document_thread.run(size, lambda: self._detect(request))
            source = detected[0]
        route = self._route(source, request.target)
        if not route:
            return TranslatedTexts(request.texts, [], detected)
        whole = aligns(route)
        parts, sentences = await self.document_thread.run(size, lambda: _split(request, whole))
        found: dict[str, list[AlignedText]] = {}
        while len(found) < len(sentences):
            progress(len(found), len(sentences))
            batch = sentences[len(found) : len(found) + DOCUMENT_BATCH]
            try:
                found |= zip(batch, await self._translate_along(route, batch, request, sum(map(len, batch)), ()))
            except ServerBusy as busy:
                await asyncio.sleep(busy.retry_after)
        ranked = await self.document_thread.run(size, lambda: _reassemble(parts, found, request))
        return TranslatedTexts([texts[0] for texts in ranked], [], detected)

    def _detect(self, request: TranslationRequest) -> tuple[str, float]:
        """One language for all texts: a source of ours or the target itself, unless they are clearly in another one."""
        text = _beginning(request)
        sources = self.catalogue.sources()
        found = detect(text, {*sources, request.target}, request.hints)[0]
        if found[1] < MIN_CONFIDENCE and (other := detect(text, hints=request.hints)[0])[1] > OTHER_CONFIDENCE:
            return other
        if found[0] not in self.catalogue.languages():  # there are no words to translate: any source language will do
            found = next((code for code in sources if self.catalogue.route(code, request.target)), found[0]), found[1]
        return found

    def _routes(
        self,
        documents: Sequence[PlainText | HtmlDocument],
        sentences: list[str],
        request: TranslationRequest,
        main: Route,
    ) -> dict[Route, list[str]]:
        """The sentences by the steps from their language: `main`, or others if a text mixes languages.

        Sentences in the target language take none, and those in no language of ours stay as they are, too.
        """
        ways: dict[str, Route] = {request.target: ()}
        for code in self.catalogue.sources():
            if code != request.target and (way := self.catalogue.route(code, request.target)):
                ways |= {code: way} if aligns(way) == aligns(main) else {}
        chosen: dict[str, Route] = {}
        for document in documents:
            languages = sentence_languages(document.sentences, ways)
            if len(set(languages)) > 1:
                chosen |= {one: ways.get(code, ()) for one, code in zip(document.sentences, languages)}
        found: dict[Route, list[str]] = {}
        for sentence in sentences:
            found.setdefault(chosen.get(sentence, main), []).append(sentence)
        return found

    def _route(self, source: str, target: str) -> Route:
        """The steps from one language to the other; empty if they are the same."""
        known = self.catalogue.languages()
        for code in (source, target):
            if code not in known:
                raise UnsupportedLanguage(f"{public(code)} is not supported")
        if source == target:
            return ()
        if route := self.catalogue.route(source, target):
            return route
        to, origin = (f"{name(code)} ({public(code)})" for code in (target, source))
        raise UnsupportedLanguage(f"{to} is not available as a target language from {origin}")

    async def _translate_along(
        self, route: Route, sentences: list[str], request: TranslationRequest, size: int, rows: GlossaryRows
    ) -> list[list[AlignedText]]:
        """Translations of each sentence, best first. Through a third language, each step preserves protected spans by
        itself, and the second continues with the best translation of the first."""
        *before, last = route
        best = SearchOptions(alignment=request.html and aligns(route), doubt=request.doubt, glossary=rows)
        ranked = request.alternatives + 1
        if not before:
            return await self._translate(last, sentences, replace(best, n_best=ranked), request, size)
        firsts = [found[0] for found in await self._translate(before[0], sentences, best, request, size)]
        middles = list(dict.fromkeys(first.text for first in firsts))  # two sentences may have the same translation
        seconds = dict(zip(middles, await self._translate(last, middles, replace(best, n_best=ranked), request, size)))

        def composed() -> list[list[AlignedText]]:
            return [[compose(first, second) for second in seconds[first.text]] for first in firsts]

        return await self.text_thread.run(size, composed)

    async def _translate(
        self, step: Step, sentences: list[str], options: SearchOptions, request: TranslationRequest, size: int
    ) -> list[list[AlignedText]]:
        """Translations of each sentence that preserve protected spans, best first (placeholders.py)."""
        pending = PendingSentences(sentences, options.n_best)
        while asked := await self.text_thread.run(size, pending.next_inputs):
            await asyncio.gather(
                *(
                    self._attempt(step, pending, texts, replace(options, n_best=n_best), request, size)
                    for n_best, texts in asked.items()
                )
            )
        return pending.results()

    async def _attempt(
        self,
        step: Step,
        pending: PendingSentences,
        texts: list[str],
        options: SearchOptions,
        request: TranslationRequest,
        size: int,
    ) -> None:
        answers = await self.pool.translate(step.model.name, texts, directed(options, step), request.owner)
        await self.text_thread.run(size, lambda: pending.answer(options.n_best, [_ranked(one) for one in answers]))


def _beginning(request: TranslationRequest) -> str:
    """The beginning of the texts, for language detection."""
    found = ""
    for text in request.texts:
        found += (" ".join(HtmlDocument(text, False).sentences) if request.html else text) + "\n"
        if len(found) > MAX_CHARACTERS:
            break
    return found


def _split(request: TranslationRequest, aligns: bool) -> tuple[list[PlainText] | list[HtmlDocument], list[str]]:
    """The texts as documents, and their distinct sentences."""
    documents = (
        [HtmlDocument(text, aligns) for text in request.texts]
        if request.html
        else [PlainText(text) for text in request.texts]
    )
    return documents, list(dict.fromkeys(sentence for document in documents for sentence in document.sentences))


def _rows(request: TranslationRequest, sentences: list[str]) -> GlossaryRows:
    """What the sentences need of the request's glossary."""
    return tuple(request.glossary.occurring(sentences).rows()) if request.glossary else ()


def _reassemble(
    documents: Sequence[PlainText | HtmlDocument], found: dict[str, list[AlignedText]], request: TranslationRequest
) -> list[list[str]]:
    """The translation of each document, followed by its alternatives."""
    count = 1 if request.html else request.alternatives + 1
    return [
        _distinct(
            [document.reassemble([_nth(found[one], rank) for one in document.sentences]) for rank in range(count)]
        )
        for document in documents
    ]


def _unchanged(sentence: str) -> list[AlignedText]:
    return [AlignedText(sentence)]


def _doubts(
    documents: Sequence[PlainText | HtmlDocument],
    found: dict[str, list[AlignedText]],
    request: TranslationRequest,
    source: str,
) -> dict[str, Any]:
    """The confidences and the warnings of each text."""
    best = [[found[one][0] for one in document.sentences] for document in documents]
    return {
        "confidences": [one.confidences(texts) for one, texts in zip(documents, best)],
        "warnings": [
            findings(text, one.reassemble(texts), request.target, source)
            for text, one, texts in zip(request.texts, documents, best)
        ],
    }


def _with_spans(
    documents: Sequence[PlainText | HtmlDocument], found: dict[str, list[AlignedText]], originals: Sequence[str]
) -> list[str]:
    """The translated HTML documents, with doubtful words in spans."""
    texts = []
    for document, original in zip(documents, originals, strict=True):
        best = [found[one][0] for one in document.sentences]
        if not can_mark(original):
            texts.append(document.reassemble(best))
            continue
        marked = [with_marks(one, USUAL_THRESHOLD) for one in best]
        confidences = [one for sentence in best for one in doubtful(sentence, USUAL_THRESHOLD)]
        texts.append(as_spans(document.reassemble(marked), confidences))
    return texts


def _ranked(best: TranslationResult) -> list[AlignedText]:
    return [
        AlignedText(
            one.text, one.alignment, None if one.words is None else Confidences(one.confidence, tuple(one.words))
        )
        for one in (best, *best.alternatives)
    ]


def _nth(found: list[AlignedText], rank: int) -> AlignedText:
    """The translation of that rank, or the best if there are fewer."""
    return found[rank] if rank < len(found) else found[0]


def _distinct(ranked: list[str]) -> list[str]:
    return [ranked[0], *(text for text in dict.fromkeys(ranked) if text and text != ranked[0])]
