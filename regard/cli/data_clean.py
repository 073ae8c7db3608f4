"""`regard data clean`: drops what is wrong in parallel text, and says what and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import From, Quiet, To, output_file
from regard.cli.progress import progress_bar
from regard.cli.terminal import aligned, escape_control_characters, say
from regard.errors import UserError, suggestion

if TYPE_CHECKING:
    from regard.data.corpus.cleaning import Cleaner

LOUD = 0.03
"""A reason that drops more than this share is worth a look: text or settings may be wrong."""
SHOWN = 40
"""Characters of an example per side."""
EVERY = 500_000
"""Pairs between lines of progress where there is no bar."""


def _output_files(paths: list[Path]) -> list[Path]:
    for path in paths:
        output_file(path)
    return paths


def reasons() -> list[str]:
    from regard.data.corpus.cleaning import REASONS

    return list(REASONS)


def clean(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Text, a sentence per line, or a .tsv with both languages.")
    ],
    target: Annotated[
        str | None, typer.Argument(metavar="TARGET", help="Its translations; pairs.tsv#3 is a column.")
    ] = None,
    output: Annotated[
        list[Path],
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            callback=_output_files,
            help="A .tsv or .tsv.gz; or given twice, a file per side.",
        ),
    ] = [],  # noqa: B006
    from_: From = None,
    to: To = None,
    min_length: Annotated[int, typer.Option(min=1, max=1 << 20, help="Least characters of a side.")] = 1,
    max_length: Annotated[int, typer.Option(min=1, max=1 << 20, help="Most characters of a side.")] = 1000,
    max_ratio: Annotated[
        float, typer.Option(min=1, max=1000, help="Largest factor between the lengths, relative to the usual one.")
    ] = 3.0,
    keep_out: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Test text: pairs with a side that occurs in it are dropped. Repeatable."),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="REASON", autocompletion=reasons, help="Do not drop for this reason. Repeatable."),
    ] = None,
    dropped: Annotated[
        Path | None,
        typer.Option(metavar="FILE", callback=output_file, help="The dropped pairs: reason, source, target."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.json", callback=output_file, help="The table as JSON.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Clean parallel text: drop pairs that are wrong or repeated.

    What was dropped, and why, is a table on stderr. The same text and options give the same files. The languages are
    those of --from and --to, else those of the files' names (train.fr, pairs.fr-en.tsv), else those of the text.
    """
    from regard.data.corpus.cleaned_files import clean_files
    from regard.data.corpus.cleaning import Cleaner
    from regard.data.corpus.pair_languages import pair_languages
    from regard.languages import internal

    if not output:
        raise UserError("name the output: -o clean.tsv.gz, or a file for each side (-o clean.fr -o clean.en)")
    check_reasons(skip or [])
    languages = from_ or "", to or ""
    if not all(languages):
        named = pair_languages([source], [target] if target else [])
        languages = languages[0] or named[0], languages[1] or named[1]
    cleaner = Cleaner(
        *map(internal, languages),
        min_length=min_length,
        max_length=max_length,
        max_ratio=max_ratio,
        skip=skip or [],
        keep_out=keep_out or [],
    )
    if not quiet and "language" not in (skip or []):
        if not all(languages):
            say("the languages are not known, so they are not checked; name them with --from and --to")
        elif missing := cleaner.unchecked():
            say(f"no model to identify {missing}, so that is not checked")
    try:
        with progress_bar(None, enabled=not quiet, what="cleaning") as advance:

            def progress(pairs: int) -> None:
                advance(pairs)
                if not quiet and not sys.stderr.isatty() and cleaner.read % EVERY < pairs and cleaner.read >= EVERY:
                    say(f"{cleaner.read:,} pairs")

            clean_files(source, target, output, cleaner, dropped=dropped, report=report, progress=progress)
    except KeyboardInterrupt:
        say("stopped before the end; nothing was written")
        raise typer.Exit(130) from None
    if not quiet:
        tell(cleaner, output)


def check_reasons(skip: list[str]) -> None:
    """Refuses what is no reason to drop a pair, and to keep pairs without text."""
    known = [reason for reason in reasons() if reason != "empty"]
    for reason in skip:
        if reason not in known:
            raise UserError(f"--skip: no reason '{reason}'{suggestion(reason, known)}")


def tell(cleaner: Cleaner, output: list[Path]) -> None:
    found = cleaner.report()
    rows = [("REASON", "PAIRS", "SHARE", "WHY, AND AN EXAMPLE")]
    for reason, told in found["dropped"].items():
        example = " ||| ".join(text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…" for text in told["example"])
        rows.append((reason, f"{told['count']:,}", f"{told['share']:.2%}", f"{told['why']}: {example}"))
    encoding = sys.stderr.encoding or "utf-8"
    for line in aligned(rows) if len(rows) > 1 else []:
        line = escape_control_characters(line)
        print(line.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)
    for reason, told in found["dropped"].items():
        if told["share"] > LOUD:
            say(f"warning: {reason} dropped {told['share']:.1%} of all pairs; look at them with --dropped FILE")
    share = found["kept"] / found["read"]
    say(f"kept {found['kept']:,} of {found['read']:,} pairs ({share:.1%}) in {' and '.join(map(str, output))}")
