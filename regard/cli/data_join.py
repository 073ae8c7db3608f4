"""`regard data join`: pairs of two languages through a third."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Quiet, output_file
from regard.cli.terminal import say
from regard.errors import UserError


def join(
    first: Annotated[str, typer.Argument(metavar="FIRST", help="Pairs, a .tsv with the shared language first.")],
    second: Annotated[str, typer.Argument(metavar="SECOND", help="Pairs of the same language and another one.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", callback=output_file, help="A .tsv or .tsv.gz.")
    ],
    most: Annotated[int, typer.Option(min=1, max=1000, help="Most pairs from one shared sentence.")] = 2,
    quiet: Quiet = False,
) -> None:
    """Join two corpora: English-German and English-Persian give German-Persian.

    What stands beside the same sentence in both files is a pair. The first file is held in memory; let it be
    the smaller one.
    """
    from regard.data.corpus.joining import join_pairs
    from regard.data.corpus.reading import is_table, read_pairs, split_column
    from regard.data.corpus.writing import Lines

    for path in (first, second):
        if not is_table(split_column(path)[0]):
            raise UserError(f"{path}: join reads a .tsv with a pair per line")
        if split_column(path)[0].resolve() == output.resolve():
            raise UserError(f"{output} is one of the files to join; choose another file")
    if not is_table(output):
        raise UserError(f"{output}: pairs go into a .tsv, such as -o joined.tsv.gz")
    count = 0
    with Lines(output) as file:
        for pair in join_pairs(read_pairs([first], []), read_pairs([second], []), most):
            file.write("\t".join(pair))
            count += 1
        if not count:
            raise UserError(f"{first} and {second} share no sentence in their first columns; nothing was written")
        file.finish()
    if not quiet:
        say(f"{count:,} pairs in {output}")
