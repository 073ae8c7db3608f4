"""Translates documents with a translator of any engine, or a chain of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.atomic_files import AtomicFile
from regard.config import Recipe
from regard.directions import directions, is_multilingual, sources_for
from regard.documents.document import Document
from regard.documents.formats import WRITTEN_AS, check_format, read_document, suffix_of
from regard.documents.limits import MAX_BYTES, MEBIBYTE
from regard.errors import UserError
from regard.languages import internal
from regard.regular_files import open_regular
from regard.text.alignment import AlignedText
from regard.text.placeholders import PendingSentences
from regard.text.segments import HtmlDocument, PlainText

BATCH = 256
"""Sentences that are translated together, after which progress is told."""
SAMPLE = 2000
"""Characters of a document by which its language is detected."""
Translate = Callable[[list[str], int], list[list[AlignedText]]]
"""Translates sentences, each into its n best translations."""
Progress = Callable[[int, int], None]
"""Called with the number of sentences that are translated, and of all."""


def translate_document(
    input: str | Path,
    output: str | Path,
    translator: Any,
    *,
    source: str | None = None,
    target: str | None = None,
    columns: Sequence[str] = (),
    progress: Progress | None = None,
    **options: Any,
) -> Path:
    """Translates a document; its layout, formatting, links, code and placeholders stay.

    Args:
        input: A file in one of the formats of docs/documents.md.
        output: The file to write, of the same format (of a PDF: .docx or .md). It appears when it is complete.
        translator: What `load` or `chain` returns, or anything with their `translate`.
        source: The language of the document. If it is not given, a model for several detects it, and sentences that
            are clearly in another language stay as they are.
        target: The language to translate to; needed if the model has several.
        columns: The columns of a table, or keys of JSON, to translate; a table needs them.
        progress: Called with the number of sentences that are translated, and of all.
        options: Options of the translator's `translate`, such as beam.

    Returns:
        The file that was written.
    """
    given = open_document(input, output, columns)
    keeps: Callable[[str], bool] = lambda sentence: False  # noqa: E731
    if source is None:
        source = _detected(given, translator, target) if is_multilingual(translator.recipe) else None
        keeps = in_another_language(translator.recipe, source)
    directed = options | {key: code for key, code in (("source", source), ("target", target)) if code}
    translate = translate_with(translator, directed)
    found = translate_texts(given.document, translate, aligns(translator), progress, keeps)
    given.write(found)
    return given.output


@dataclass(frozen=True)
class OpenDocument:
    """A document that was read, and where its translation goes."""

    document: Document
    output: Path

    def beginning(self) -> str:
        """Some sentences, by which its language is detected."""
        return beginning(self.document)

    def write(self, translations: Sequence[str]) -> None:
        content = self.document.write(translations)
        try:
            with AtomicFile(self.output) as file:
                file.write(content)
                file.finish()
                file.replace()
        except OSError as error:
            raise UserError(f"{self.output} cannot be written: {error.strerror}") from None


def open_document(input: str | Path, output: str | Path, columns: Sequence[str] = ()) -> OpenDocument:
    """Refuses what cannot be read or written, before a model is loaded."""
    given, made = Path(input), Path(output)
    format = check_format(given.name, columns)
    if given_as := WRITTEN_AS.get(suffix_of(given.name)):
        if suffix_of(made.name) not in given_as:
            raise UserError(f"{made}: the translation of a {format.upper()} is written as {' or '.join(given_as)}")
    elif check_format(made.name) != format or suffix_of(made.name) == "":
        raise UserError(f"{made} would have another format than {given}; end its name in {suffix_of(given.name)}")
    if made.is_dir() or not made.absolute().parent.is_dir():
        raise UserError(
            f"{made} cannot be written: " + ("it is a folder" if made.is_dir() else "its folder is missing")
        )
    if made.exists() and given.exists() and made.samefile(given):
        raise UserError(f"{made} is the document itself; name another file")
    try:
        with open_regular(given) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"{given} cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise UserError(f"{given} is larger than {MAX_BYTES // MEBIBYTE} MiB; split it")
    return OpenDocument(read_document(content, given.name, columns, suffix_of(made.name)), made)


def beginning(document: Document) -> str:
    found = ""
    for one in _segments(document, False):
        found += " ".join(one.sentences) + "\n"
        if len(found) > SAMPLE:
            break
    return found[:SAMPLE]


def translate_texts(
    document: Document,
    translate: Translate,
    whole: bool = True,
    progress: Progress | None = None,
    keeps: Callable[[str], bool] = lambda sentence: False,
) -> list[str]:
    """The translations of a document's texts. Without `whole`, for models that cannot align words, each text between
    two tags is translated separately. `keeps` says which sentences stay as they are."""
    segments = list(_segments(document, whole))
    distinct = dict.fromkeys(sentence for one in segments for sentence in one.sentences)
    found = {sentence: AlignedText(sentence) for sentence in distinct if keeps(sentence)}
    sentences = [sentence for sentence in distinct if sentence not in found]
    if progress:
        progress(0, len(sentences))
    for start in range(0, len(sentences), BATCH):
        batch = sentences[start : start + BATCH]
        pending = PendingSentences(batch)
        while asked := pending.next_inputs():
            for n_best, texts in asked.items():
                pending.answer(n_best, translate(texts, n_best) if texts else [])
        found |= {sentence: ranked[0] for sentence, ranked in zip(batch, pending.results(), strict=True)}
        if progress:
            progress(start + len(batch), len(sentences))
    return [one.reassemble([found[sentence] for sentence in one.sentences]) for one in segments]


def _segments(document: Document, whole: bool) -> Iterator[PlainText | HtmlDocument]:
    return (HtmlDocument(text, whole) if document.html else PlainText(text) for text in document.texts)


def in_another_language(recipe: Recipe, source: str | None) -> Callable[[str], bool]:
    """Whether a sentence is clearly in another language than the document: a quotation, which no model could translate
    well as if it were in that language."""
    from regard.language_identification import is_another_language, is_identifiable

    languages = [source] if source else list(dict.fromkeys(one for one, _ in directions(recipe)))
    known = [code for code in languages if is_identifiable(code)]
    return lambda sentence: bool(known) and is_another_language(sentence, *known)


def translate_with(translator: Any, options: Mapping[str, Any]) -> Translate:
    """`options` are those of `translate`, the languages included."""
    align = aligns(translator)

    def translate(sentences: list[str], n_best: int) -> list[list[AlignedText]]:
        found = translator.translate(sentences, **options, n_best=n_best, alignment=align)
        return [[AlignedText(each.text, each.alignment) for each in (one, *one.alternatives)] for one in found]

    return translate


def aligns(translator: Any) -> bool:
    """Whether it can say which word came from which."""
    steps = getattr(translator, "translators", [translator])
    return all(step.recipe.model.get("decoder", {}).get("kind") != "recurrent" for step in steps)


def _detected(given: OpenDocument, translator: Any, target: str | None) -> str | None:
    from regard.language_identification import likeliest

    candidates = sources_for(translator.recipe, internal(target or ""))
    text = given.beginning()
    return likeliest(text, candidates) if candidates and text.strip() else None
