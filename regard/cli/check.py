"""`regard check`: signs that existing translations are wrong."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import From, GlossaryFile, JsonLines, Quiet, To
from regard.cli.progress import progress_bar
from regard.cli.terminal import Format, as_json, say, shown


class Check(enum.StrEnum):
    """The names of regard.checks.CHECKS, for `--help`; a test keeps both in step."""

    length = "length"
    copied = "copied"
    untranslated = "untranslated"
    language = "language"
    repetition = "repetition"
    numbers = "numbers"
    names = "names"
    placeholders = "placeholders"
    glossary = "glossary"


def check(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="The text, line by line; or a .tsv, .po or .xliff with both.")
    ],
    target: Annotated[Path | None, typer.Argument(metavar="TARGET", help="Its translation, line by line.")] = None,
    from_: From = None,
    to: To = None,
    glossary: GlossaryFile = None,
    skip: Annotated[
        list[Check] | None, typer.Option(metavar="CHECK", help=f"Leave out a check: {', '.join(Check)}.")
    ] = None,
    format: JsonLines = Format.text,
    quiet: Quiet = False,
) -> None:
    """Check translations: numbers, names, placeholders, length, language, repetitions, what is not translated.

    Prints one finding a line. The exit code is 1 if there are any, 0 if there are none.
    """
    from regard.checks import findings
    from regard.documents.bilingual import read_bilingual
    from regard.glossary import Glossary

    terms = Glossary.read(glossary) if glossary else None
    given = read_bilingual(source, target)
    start, end = from_ or given.source_language, to or given.target_language
    left_out = set(skip or [])
    found = doubtful = 0
    with progress_bar(len(given.pairs), enabled=not quiet) as advance:
        for pair in given.pairs:
            some = [one for one in findings(pair.source, pair.target, end, start, terms) if one.check not in left_out]
            found, doubtful = found + len(some), doubtful + bool(some)
            for one in some:
                if format is Format.json:
                    tree = {"where": pair.where, **one._asdict(), "source": pair.source, "target": pair.target}
                    print(as_json(tree))
                else:
                    print(shown(f"{source}, {pair.where}: {one.check}: {one.message}"))
            advance(1)
    if not quiet:
        count = len(given.pairs)
        say(f"{count:,} translation{'s' * (count != 1)}, {doubtful:,} with findings")
        if not end:
            say("the languages are not known, so they are not checked, and lengths roughly; give --from and --to")
    if found:
        raise typer.Exit(1)
