"""`regard translate`: arguments or standard input line by line, or a whole corpus in shards."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from regard.child_process import python_command
from regard.cli.bulk import Column, Input, Key, On, ShardCount, bulk_file, model_for, own_device, warn_nothing
from regard.cli.choosing import (
    ChoosingOptions,
    Mbr,
    MbrFrom,
    MbrMetric,
    MemoryFile,
    MemoryThreshold,
    Rerank,
    RerankWeight,
    match_lines,
    match_trees,
)
from regard.cli.document import is_document, translate_file
from regard.cli.doubt import Doubt, DoubtForm, Html, say_if_generic
from regard.cli.doubt import tree as doubt_tree
from regard.cli.line_workers import LineWorkers, worker_count
from regard.cli.models import model_names
from regard.cli.options import (
    BatchTokens,
    Beam,
    ComputedIn,
    Device,
    EngineName,
    GlossaryFile,
    JsonLines,
    LengthPenalty,
    MaxLength,
    NBest,
    Quiet,
    Verbose,
    language_code,
    language_codes,
    output_folder,
)
from regard.cli.progress import progress_bar
from regard.cli.remote_translation import languages_of, remote_translator
from regard.cli.search_options import (
    BeamGroups,
    CoveragePenalty,
    DiversityPenalty,
    Prefix,
    SamplingSeed,
    SamplingTemperature,
    SamplingTopK,
    SamplingTopP,
    engine_for_search,
    stated,
)
from regard.cli.stdin_lines import answer_lines, decode_line
from regard.cli.terminal import Engine, Format, Precision, as_json, escape_control_characters, one_line, say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.bulk import Answers
    from regard.cli.language_choice import LanguageChoice
    from regard.client import ServerTranslation
    from regard.task.translate import Translation

Warn = Callable[[str], None]
BROKEN_PIPE = 141
"""The exit code after a broken pipe: 128 + SIGPIPE."""
AHEAD = 2
"""Batches of a file's lines in work at a time: one is tokenised or written while the other is translated."""


def translate(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Text to translate; without it, standard input.")
    ] = None,
    model: Annotated[
        list[str],
        typer.Option(
            "--model",
            "-m",
            help="A shipped or imported model, a model folder, a run, or hf:NAME. Several for the same languages form "
            "an ensemble, others a chain.",
            autocompletion=model_names,
        ),
    ] = ["fr-en"],  # noqa: B006
    beam: Beam = None,
    n_best: NBest = 1,
    length_penalty: LengthPenalty = None,
    max_length: MaxLength = None,
    coverage_penalty: CoveragePenalty = None,
    beam_groups: BeamGroups = None,
    diversity_penalty: DiversityPenalty = None,
    temperature: SamplingTemperature = None,
    top_k: SamplingTopK = None,
    top_p: SamplingTopP = None,
    seed: SamplingSeed = None,
    prefix: Prefix = "",
    batch_tokens: BatchTokens = None,
    device: Device = "auto",
    precision: ComputedIn = Precision.auto,
    engine: EngineName = Engine.auto,
    scores: Annotated[bool, typer.Option("--scores", help="Add a column with the score.")] = False,
    alignment: Annotated[
        bool, typer.Option("--alignment", help="Add a column with the word alignment (0-0 1-2: source-target).")
    ] = False,
    doubt: Doubt = None,
    html: Html = False,
    format: JsonLines = Format.text,
    input: Input = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="The file to write, if TEXT is a document; the folder for --input, where the same command resumes it.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Of a document: the columns of a table, or keys of JSON, to translate."),
    ] = None,
    shards: ShardCount = None,
    on: On = None,
    column: Column = None,
    key: Key = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Use a running server (regard serve); REGARD_API_KEY holds its key."),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="CODE",
            callback=language_code,
            help="The source language; by default, or auto, a model for several languages detects that of each line.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="CODE",
            callback=language_code,
            help="The target language; by default English, and of English text that of the locale (LANG).",
        ),
    ] = None,
    via: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODE",
            callback=language_codes,
            help="Translate through this language; several in order. By default the shortest chain of the models.",
        ),
    ] = None,
    glossary: GlossaryFile = None,
    mbr: Mbr = None,
    mbr_metric: MbrMetric = None,
    mbr_from: MbrFrom = None,
    rerank: Rerank = None,
    rerank_weight: RerankWeight = None,
    memory: MemoryFile = None,
    memory_threshold: MemoryThreshold = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Translate text, standard input line by line, a document, or a whole corpus.

    A document (docx, pptx, xlsx, odt, epub, html, md, srt, po, ...) is one TEXT, the name of a file, with --output.

    As many lines come out as went in; an empty line stays empty.
    Columns are separated by tabs: the line's number (with --n-best), text, score, alignment.
    """
    document = is_document(texts, input, output)
    if document and not (shards or on or column or key):
        bulk = None
    else:
        bulk = bulk_file(texts, input, _folder(output), shards, on, column, key)
    if columns and not document:
        raise UserError("--columns is for a document: regard translate table.csv --columns NAME -o OUTPUT.csv")
    if document and (server or n_best > 1 or scores or alignment or format is Format.json or doubt is not None):
        raise UserError(
            "a document has no lines; leave out --server, --n-best, --scores, --alignment, --doubt and --format"
        )
    if html and (doubt is None or format is Format.json):
        raise UserError("--html marks doubtful words in a line of HTML; add --doubt, and leave out --json")
    if not bulk and not texts and sys.stdin is None:
        raise UserError("no text was given and standard input is closed; write: regard translate 'Je suis étudiant.'")
    own = device != "auto" or precision is not Precision.auto or engine is not Engine.auto or batch_tokens is not None
    if server and (bulk or own):
        raise UserError(
            "--server uses its own settings; leave out --input, --device, --precision, --engine, --batch-tokens"
        )
    from regard.cli.translation_models import check_languages, is_chain

    ranking = {"coverage_penalty": coverage_penalty, "beam_groups": beam_groups, "diversity_penalty": diversity_penalty}
    drawing = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    further = stated(**ranking, **drawing, prefix=prefix)
    if document and prefix:
        raise UserError("a document is translated sentence by sentence; leave out --prefix")
    if server and further:
        raise UserError(f"--server searches in its own way; leave out --{next(iter(further)).replace('_', '-')}")
    engine = engine_for_search(engine, further)
    if server and (via or len(model) > 1):
        raise UserError("--server chooses its models and the languages between; leave out --via and further models")
    choosing = ChoosingOptions(mbr, mbr_metric, mbr_from, rerank or (), rerank_weight or (), memory, memory_threshold)
    choosing.check(choosing == ChoosingOptions() or not is_chain(model, via or []), server, beam)
    if choosing.needs_torch and engine is Engine.auto:
        engine = Engine.torch
    source = None if from_ == "auto" else from_
    warn = warn_nothing if quiet else say
    waiting = lines_waiting(sys.stdin.fileno()) if not texts and not input else None
    if server and doubt is not None:
        raise UserError("--doubt needs the model here; leave out --server, or ask it with doubt in /api/translate")
    search: dict[str, Any] = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": length_penalty,
        "max_length": max_length,
        **further,
    }
    if glossary:
        from regard.glossary import Glossary

        search["glossary"] = Glossary.read(glossary)
    if choosing and not bulk:
        search |= choosing.options(quiet, partial(load_further, device=own_device(device), precision=precision.value))
    matches = memory is not None and not quiet and not bulk
    shown_doubt = None if doubt is None else DoubtForm(doubt, html)
    on_terminal = not bulk and sys.stdout.isatty()
    form = LineForm(search, alignment, scores, format, batch_tokens, on_terminal, matches, shown_doubt)
    models = tuple(model_for(on, one) for one in model)
    chosen = ModelChoice(models, source, to, tuple(via or ()), precision.value, engine.value)
    if bulk:
        from regard.cli.language_choice import locale_language

        chosen = replace(chosen, locale=locale_language() if on else None)
        if on and (rerank or memory):
            raise UserError("--rerank and --memory read files of this machine; leave out --on")
        load = partial(load_answers, chosen, form, choosing, verbose and "RANK" not in os.environ)
        return bulk.answer(load, device, quiet, "translating")
    if document and texts and output:
        note = say if verbose else warn_nothing
        return translate_file(
            texts[0], output, columns, lambda: chosen.load(own_device(device), note=note), search, quiet
        )
    workers: LineWorkers | None = None
    shared = 1
    if server:
        changed = n_best > 1 or any(value is not None for value in (beam, length_penalty, max_length))
        details = changed or scores or alignment or glossary or format is Format.json
        options = search | {"alignment": alignment}
        languages = languages_of(model[0], from_, to)
        ask = remote_translator(server, languages, bool(details), options, warn, lambda lines: advance(lines))
    else:
        from regard.engines import engine_for

        check_languages(model, source, to, via or [])  # before anything is loaded
        place = own_device(device)
        ensemble = len(model) > 1 and not is_chain(model, via or [])
        with_torch = ensemble or any(engine_for(one, engine, place, precision) == "torch" for one in model)
        shared = worker_count(device, waiting) if n_best == 1 and with_torch else 1
        if shared > 1:  # they load while this process does
            workers = LineWorkers(shared - 1, python_command("-m", "regard", *sys.argv[1:]), warn)
        try:
            translator = chosen.load(place, note=say if verbose and "RANK" not in os.environ else warn_nothing)
        except BaseException:
            if workers:
                workers.close()
            raise
        if shown_doubt and not quiet:
            say_if_generic(translator, say)
        if workers:
            import torch

            torch.set_num_threads(1)

    def answer(batch: list[str], first: int) -> list[str]:
        if workers and len(batch) > shared:
            answers = workers.answer(batch, first, answer_alone)
            advance(len(batch) - len(batch[::shared]))  # this process counted its own
            return answers
        return answer_alone(batch, list(range(first, first + len(batch))))

    def answer_alone(batch: list[str], numbers: list[int]) -> list[str]:
        if server:
            return form.lines(ask(batch), numbers)
        return form.answer(translator, batch, numbers, warn, advance)

    # No progress bar if stdin or stdout is a terminal.
    bar = not texts and not quiet and not sys.stdin.isatty() and not sys.stdout.isatty()
    with writing_may_fail(), progress_bar(waiting, enabled=bar) as advance, closing_all(workers):
        if texts:
            lines = [line for text in texts for line in os.fsencode(text).split(b"\n")]
            for text in answer(decoded(lines, 1, warn), 1):
                sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
            sys.stdout.buffer.flush()
        else:
            if sys.stdin.isatty() and not quiet:
                say(f"{server or ' and '.join(model)} is ready: one sentence a line, Ctrl-D ends")
            ahead = 1 if server or waiting is None or translator.engine == "torch" else AHEAD
            answer_lines(sys.stdin.fileno(), sys.stdout.buffer, answer, warn, ahead)


def _folder(output: Path | None) -> Path | None:
    try:
        return output_folder(output)
    except typer.BadParameter as error:
        error.param_hint = "--output"
        raise


@contextmanager
def closing_all(workers: LineWorkers | None) -> Iterator[None]:
    try:
        yield
    finally:
        if workers:
            workers.close()


def decoded(lines: list[bytes], first: int, warn: Callable[[str], None]) -> list[str]:
    return [decode_line(line, number, warn) for number, line in enumerate(lines, first)]


@dataclass(frozen=True)
class ModelChoice:
    """Which models translate between which languages: the options from which any machine loads the same."""

    models: tuple[str, ...]
    source: str | None
    target: str | None
    via: tuple[str, ...]
    precision: str
    engine: str
    locale: str | None = None
    """The user's language where the model is loaded on another machine."""

    def load(self, device: str, threads: int = 0, note: Warn = warn_nothing) -> LanguageChoice:
        from regard.cli.language_choice import LanguageChoice
        from regard.cli.translation_models import check_languages, is_chain, load_models

        if self.locale is not None:
            os.environ["LC_ALL"] = self.locale or "C"
        check_languages(self.models, self.source, self.target, self.via)
        how = {"device": device, "precision": self.precision, "engine": self.engine, "note": note, "threads": threads}
        loaded = load_models(self.models, self.source, self.target, self.via, how)
        alone = not is_chain(self.models, self.via)
        return LanguageChoice(loaded, " and ".join(self.models), self.source, self.target, alone=alone)


@dataclass(frozen=True)
class LineForm:
    """How lines are translated, and how a translation is written as a line."""

    search: dict[str, Any]
    alignment: bool
    scores: bool
    format: Format
    batch_tokens: int | None
    on_terminal: bool
    matches: bool = False
    """Whether what a memory had for a line is shown on stderr."""
    doubt: DoubtForm | None = None

    def answer(
        self, translator: LanguageChoice, batch: list[str], numbers: list[int], warn: Warn, progress: Any
    ) -> list[str]:
        found = translator.translate(
            batch,
            **self.search,
            batch_tokens=self.batch_tokens,
            alignment=self.alignment,
            doubt=self.doubt is not None,
            warn=lambda message: warn(_with_line_number(message, numbers)),
            progress=progress,
        )
        if self.matches and self.format is not Format.json:
            for number, one in zip(numbers, found, strict=True):
                for line in match_lines(one, number):
                    warn(line)
        if self.doubt:
            self.doubt.warn(found, numbers, warn)
        return self.lines(found, numbers)

    def lines(self, found: Sequence[Translation | ServerTranslation], numbers: list[int]) -> list[str]:
        found = [one if one.text.strip() else replace(one, text=one.source.strip()) for one in found]  # nothing is lost
        several = self.search["n_best"] > 1
        if self.format is Format.json:
            doubtful = self.doubt is not None
            return [as_json(_tree(translation, self.alignment, several, doubtful)) for translation in found]
        return [
            "\n".join(
                _columns(each, number if several else None, self._text(each), self.scores, self.alignment)
                for each in ranked
            )
            for number, ranked in zip(numbers, map(_ranked, found), strict=True)
        ]

    def _text(self, translation: Translation | ServerTranslation) -> str:
        text = one_line(translation.text)
        if self.doubt:  # never with a server
            text = self.doubt.shown(cast("Translation", translation))
        return escape_control_characters(text) if self.on_terminal else text


def load_further(model: str, task: str, *, device: str, precision: str) -> Any:
    from regard.engines import load_with

    return load_with(model, device, task, precision)


def load_answers(
    chosen: ModelChoice, form: LineForm, choosing: ChoosingOptions, verbose: bool, *, device: str, threads: int
) -> Answers:
    """The models of bulk work. Options that they refuse are refused here, before anything is written."""
    from regard.bulk import Answers
    from regard.find_model import find_model
    from regard.languages import internal
    from regard.storage import read_folder

    translator = chosen.load(device, threads, say if verbose else warn_nothing)
    further = choosing.options(True, partial(load_further, device=device, precision=chosen.precision))
    form = replace(form, search=form.search | further)
    trial: Any = form.search | {"batch_tokens": form.batch_tokens, "alignment": form.alignment}
    translator.translator.translate("?", **(trial | translator.usual_direction()))
    hashes = [read_folder(find_model(one), hash_tensors=False).hash[:16] for one in chosen.models]
    settings: dict[str, Any] = {"model": "+".join(hashes)}
    source, target = (code and internal(code) for code in (chosen.source, chosen.target))
    asked = {"from": source, "to": target, "via": list(chosen.via)}
    settings |= {name: value for name, value in asked.items() if value}
    settings |= {} if chosen.target else translator.depends_on()
    usual = translator.recipe.decoding
    search = dict(form.search)
    settings |= choosing.settings(search)
    settings |= {name: getattr(usual, name) if value is None else value for name, value in search.items()}
    if terms := settings.pop("glossary", None):
        settings["glossary"] = hashlib.sha256(repr(terms.rows()).encode()).hexdigest()[:16]
    settings |= {
        "precision": chosen.precision,
        "engine": translator.engine,
        "scores": form.scores,
        "alignment": form.alignment,
        "format": form.format.value,
    }
    settings |= {"doubt": form.doubt.threshold, "html": form.doubt.html} if form.doubt else {}

    def answer(texts: list[str], first: int, warn: Warn, progress: Callable[[int], None]) -> list[str]:
        return form.answer(translator, texts, list(range(first, first + len(texts))), warn, progress)

    return Answers(settings, answer)


def _ranked(translation: Translation | ServerTranslation) -> Sequence[Translation | ServerTranslation]:
    return [translation, *translation.alternatives]


def _columns(
    translation: Translation | ServerTranslation, number: int | None, text: str, scores: bool, alignment: bool
) -> str:
    columns = [] if number is None else [str(number)]
    columns.append(text)
    if scores:
        columns.append(f"{translation.score:.4f}")
    if alignment:
        columns.append(" ".join(f"{source}-{target}" for source, target in translation.alignment or []))
    return "\t".join(columns)


def _tree(
    translation: Translation | ServerTranslation, alignment: bool, alternatives: bool, doubt: bool
) -> dict[str, Any]:
    tree = {
        "source": translation.source,
        "text": translation.text,
        "score": translation.score,
        "log_probability": translation.log_probability,
        "tokens": translation.tokens,
        "finished": translation.finished,
    }
    if alignment:
        tree["alignment"] = translation.alignment or []
    if getattr(translation, "matches", None):  # a server has no memory
        tree["matches"] = match_trees(translation)
    if doubt:
        tree |= doubt_tree(cast("Translation", translation))
    if alternatives:
        tree["alternatives"] = [_tree(other, alignment, False, doubt) for other in translation.alternatives]
    return tree


def _with_line_number(message: str, numbers: list[int]) -> str:
    """Replaces the number of a text in its batch by the number of its line."""
    return re.sub(r"^text (\d+)", lambda found: f"line {numbers[int(found[1]) - 1]}", message)


@contextmanager
def writing_may_fail() -> Iterator[None]:
    """Exits quietly on a broken pipe (`regard translate | head -1`) and with one line on a full disk.

    Buffered output is discarded.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            sys.exit(BROKEN_PIPE)
        raise UserError(f"the output could not be written: {error.strerror}") from None


def lines_waiting(stdin: int) -> int | None:
    """The number of lines if stdin is a file; None for a pipe."""
    if not stat.S_ISREG(os.fstat(stdin).st_mode) or not hasattr(os, "pread"):
        return None
    count, position = 0, os.lseek(stdin, 0, os.SEEK_CUR)
    while piece := os.pread(stdin, 1 << 20, position):
        count, position = count + piece.count(b"\n"), position + len(piece)
    return count
