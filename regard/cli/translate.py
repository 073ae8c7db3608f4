"""`regard translate`: arguments or standard input line by line, or a whole corpus in shards."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.child_process import python_command
from regard.cli.line_workers import LineWorkers, worker_count
from regard.cli.models import model_names
from regard.cli.options import (
    MOST,
    BatchTokens,
    Beam,
    ComputedIn,
    Device,
    EngineName,
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
from regard.cli.progress import parts_bar, progress_bar
from regard.cli.remote_translation import languages_of, remote_translator
from regard.cli.stdin_lines import answer_lines, decode_line
from regard.cli.terminal import Engine, Format, Precision, as_json, escape_control_characters, one_line, say
from regard.data.corpus.reading import check_file
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.bulk import Shards
    from regard.client import ServerTranslation
    from regard.task.translate import Translation

BROKEN_PIPE = 141
"""The exit code after a broken pipe: 128 + SIGPIPE."""
AHEAD = 2
"""Batches of a file's lines in work at a time: one is tokenised or written while the other is translated."""
PROGRESS_INTERVAL = 30.0
"""Seconds between progress lines where there is no progress bar."""


def translate(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Text to translate; without it, standard input.")
    ] = None,
    model: Annotated[
        list[str],
        typer.Option(
            "--model",
            "-m",
            help="A shipped or imported model, a model folder, a run, or hf:NAME; several form a chain.",
            autocompletion=model_names,
        ),
    ] = ["fr-en"],  # noqa: B006
    beam: Beam = None,
    n_best: NBest = 1,
    length_penalty: LengthPenalty = None,
    max_length: MaxLength = None,
    batch_tokens: BatchTokens = None,
    device: Device = "auto",
    precision: ComputedIn = Precision.auto,
    engine: EngineName = Engine.auto,
    scores: Annotated[bool, typer.Option("--scores", help="Add a column with the score.")] = False,
    alignment: Annotated[
        bool, typer.Option("--alignment", help="Add a column with the word alignment (0-0 1-2: source-target).")
    ] = False,
    format: JsonLines = Format.text,
    input: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A corpus to translate, plain, .gz, .xz or .zst; needs --output."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            callback=output_folder,
            help="Folder for the translation of --input. The same command resumes it.",
        ),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(min=1, max=MOST, help="Number of output files of --input; default: one per 10,000 lines."),
    ] = None,
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
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Translate text, standard input line by line, or a whole corpus.

    As many lines come out as went in; an empty line stays empty.
    Columns are separated by tabs: the line's number (with --n-best), text, score, alignment.
    """
    if not (input and output) and (input or output or shards is not None):
        raise UserError("a corpus needs both --input FILE and --output FOLDER; --shards is for a corpus only")
    if input and texts:
        raise UserError("give either text or --input, not both")
    if input:
        check_file(input)
    if not input and not texts and sys.stdin is None:
        raise UserError("no text was given and standard input is closed; write: regard translate 'Je suis étudiant.'")
    own = device != "auto" or precision is not Precision.auto or engine is not Engine.auto or batch_tokens is not None
    if server and (input or own):
        raise UserError(
            "--server uses its own settings; leave out --input, --device, --precision, --engine, --batch-tokens"
        )
    if server and (via or len(model) > 1):
        raise UserError("--server chooses its models and the languages between; leave out --via and further models")
    source = None if from_ == "auto" else from_
    warn = warn_nothing if quiet else say
    waiting = lines_waiting(sys.stdin.fileno()) if not texts and not input else None
    search: dict[str, Any] = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": length_penalty,
        "max_length": max_length,
    }
    on_terminal = not output and sys.stdout.isatty()
    workers: LineWorkers | None = None
    shared = 1
    if server:
        chosen = n_best > 1 or any(value is not None for value in (beam, length_penalty, max_length))
        details = chosen or scores or alignment or format is Format.json
        options = search | {"alignment": alignment}
        languages = languages_of(model[0], from_, to)
        ask = remote_translator(server, languages, details, options, warn, lambda lines: advance(lines))
    else:
        from regard.cli.language_choice import LanguageChoice
        from regard.cli.translation_models import check_languages, load_models
        from regard.engines import engine_for

        check_languages(model, source, to, via or [])  # before anything is loaded
        place = own_device(device)
        with_torch = any(engine_for(one, engine, place, precision) == "torch" for one in model)
        shared = worker_count(device, waiting) if n_best == 1 and with_torch else 1
        if shared > 1:  # they load while this process does
            workers = LineWorkers(shared - 1, python_command("-m", "regard", *sys.argv[1:]), warn)
        try:
            note = say if verbose and "RANK" not in os.environ else warn_nothing
            how = {"device": place, "precision": precision, "engine": engine, "note": note}
            loaded = load_models(model, source, to, via or [], how)
            translator = LanguageChoice(loaded, " and ".join(model), source, to, alone=len(model) == 1 and not via)
        except BaseException:
            if workers:
                workers.close()
            raise
        if workers:
            import torch

            torch.set_num_threads(1)

    def answer(batch: list[str], first: int) -> list[str]:
        if workers and len(batch) > shared:
            answers = workers.answer(batch, first, answer_alone)
            advance(len(batch) - len(batch[::shared]))  # this process counted its own
            return answers
        return answer_alone(batch, list(range(first, first + len(batch))))

    def found_here(batch: list[str], numbers: list[int]) -> list[Translation]:
        return translator.translate(
            batch,
            **search,
            batch_tokens=batch_tokens,
            alignment=alignment,
            warn=lambda message: warn(_with_line_number(message, numbers)),
            progress=advance,
        )

    def answer_alone(batch: list[str], numbers: list[int]) -> list[str]:
        found: Sequence[Translation | ServerTranslation] = ask(batch) if server else found_here(batch, numbers)
        found = [one if one.text.strip() else replace(one, text=one.source.strip()) for one in found]  # nothing is lost
        if format is Format.json:
            return [as_json(_tree(translation, alignment, n_best > 1)) for translation in found]
        return [
            "\n".join(_columns(each, number if n_best > 1 else None, scores, alignment, on_terminal) for each in ranked)
            for number, ranked in zip(numbers, map(_ranked, found), strict=True)
        ]

    if input and output:
        from regard.bulk import Shards
        from regard.find_model import find_model
        from regard.languages import internal
        from regard.storage import read_folder

        # Options that the model refuses must fail before the folder is created.
        trial: Any = search | {"batch_tokens": batch_tokens, "alignment": alignment}
        loaded.translate("?", **(trial | translator.usual_direction()))
        usual = translator.recipe.decoding
        hashes = [read_folder(find_model(one), hash_tensors=False).hash[:16] for one in model]
        settings: dict[str, Any] = {"model": "+".join(hashes)}
        languages_asked = {"from": source and internal(source), "to": to and internal(to), "via": via}
        settings |= {name: value for name, value in languages_asked.items() if value}
        settings |= {} if to else translator.depends_on()
        settings |= {name: getattr(usual, name) if value is None else value for name, value in search.items()}
        settings |= {
            "precision": precision.value,
            "engine": translator.engine,
            "scores": scores,
            "alignment": alignment,
            "format": format.value,
        }
        ending = "jsonl" if format is Format.json else "txt"
        work = Shards(input, output, settings, shards, ending, note=warn)
        with corpus_progress(work, quiet) as (advance, told):
            work.run(lambda lines, first: answer(decoded(lines, first, warn), first), told)
        return
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


@contextmanager
def closing_all(workers: LineWorkers | None) -> Iterator[None]:
    try:
        yield
    finally:
        if workers:
            workers.close()


def warn_nothing(message: str) -> None: ...


def decoded(lines: list[bytes], first: int, warn: Callable[[str], None]) -> list[str]:
    return [decode_line(line, number, warn) for number, line in enumerate(lines, first)]


def own_device(wanted: str) -> str:
    """Under torchrun, each process on a machine uses its own GPU."""
    place = os.environ.get("LOCAL_RANK", "")
    if wanted != "auto" or not place.isdecimal():
        return wanted
    import torch

    return f"cuda:{int(place) % torch.cuda.device_count()}" if torch.cuda.is_available() else wanted


@contextmanager
def corpus_progress(work: Shards, quiet: bool) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """Shows how many lines are done, in the first process only.

    Yields two functions: one takes the lines finished since the last call, the other all that are done.
    """
    quiet = quiet or os.environ.get("RANK", "0") != "0"
    total, done, last = work.plan.lines, work.done(), time.monotonic()

    def more(lines: int) -> None:
        all_done(min(done + lines, total))

    def all_done(lines: int) -> None:
        nonlocal done, last
        done = max(done, lines)  # lines that were split are counted more than once
        show(done, total, "translating")
        if not quiet and not sys.stderr.isatty() and time.monotonic() - last >= PROGRESS_INTERVAL:
            last = time.monotonic()
            say(f"{done:,} of {total:,} lines")

    with parts_bar(enabled=not quiet) as show:
        yield more, all_done
    if not quiet:
        say(f"all {total:,} lines are in {work.folder} (shards: {work.plan.shards:,})")


def _ranked(translation: Translation | ServerTranslation) -> Sequence[Translation | ServerTranslation]:
    return [translation, *translation.alternatives]


def _columns(
    translation: Translation | ServerTranslation, number: int | None, scores: bool, alignment: bool, on_terminal: bool
) -> str:
    columns = [] if number is None else [str(number)]
    text = one_line(translation.text)
    columns.append(escape_control_characters(text) if on_terminal else text)
    if scores:
        columns.append(f"{translation.score:.4f}")
    if alignment:
        columns.append(" ".join(f"{source}-{target}" for source, target in translation.alignment or []))
    return "\t".join(columns)


def _tree(translation: Translation | ServerTranslation, alignment: bool, alternatives: bool) -> dict[str, Any]:
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
    if alternatives:
        tree["alternatives"] = [_tree(other, alignment, False) for other in translation.alternatives]
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
