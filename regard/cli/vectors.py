"""`regard vectors`: trains word vectors (GloVe) and finds similar words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.command import Command
from regard.cli.options import LARGEST_SEED, MOST, Device, JsonValue, output_file
from regard.cli.progress import parts_bar
from regard.cli.terminal import Format, as_json, say, shown
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.data.vectors.near import Vectors

vectors = typer.Typer(
    help="Word vectors: train them on text, and find similar words.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
File = Annotated[Path, typer.Option("--vectors", "-v", metavar="FILE", help="The file of vectors.")]
Count = Annotated[int, typer.Option("--count", "-n", min=1, max=MOST, help="How many words.")]
USUAL = Path("vectors.txt")


@vectors.command(cls=Command)
def train(
    corpus: Annotated[
        list[str],
        typer.Argument(metavar="CORPUS...", help="Text, one sentence or paragraph per line; pairs.tsv#2 is a column."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", callback=output_file, help="Output file.")
    ] = USUAL,
    width: Annotated[int, typer.Option(min=1, max=100_000, help="Dimension of the vectors.")] = 100,
    size: Annotated[int, typer.Option(min=1, max=100_000_000, help="Maximum vocabulary size.")] = 50_000,
    min_count: Annotated[int, typer.Option(min=1, max=1_000_000_000, help="Minimum count of a word.")] = 5,
    window: Annotated[int, typer.Option(min=1, max=1000, help="Context words on each side.")] = 10,
    epochs: Annotated[int, typer.Option(min=1, max=MOST, help="Passes over the counts.")] = 15,
    rate: Annotated[float, typer.Option(min=1e-6, max=100, help="Learning rate of AdaGrad.")] = 0.1,
    x_max: Annotated[
        float, typer.Option(min=1e-6, max=10**9, help="Count from which pairs have full weight (x_max).")
    ] = 10.0,
    cased: Annotated[bool, typer.Option("--cased", help="Keep case; default: lowercase.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The same seed gives the same vectors.")] = 1,
    device: Device = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar or notes.")] = False,
) -> None:
    """Train GloVe vectors on text; the output has one word per line."""
    note = (lambda line: None) if quiet else say
    try:
        from itertools import chain

        from regard.data.corpus.reading import check_file, read_lines, split_column
        from regard.data.vectors.counts import co_occurrence, lower_words, numbered, words_and_marks
        from regard.data.vectors.file import write_vectors
        from regard.data.vectors.glove import learn
        from regard.device import pick_device

        for path in corpus:
            check_file(split_column(path)[0])
        place = pick_device(device)
        lines = chain.from_iterable(map(read_lines, corpus))
        note(f"reading {', '.join(corpus)}")
        text = numbered(lines, words_and_marks if cased else lower_words, size, min_count)
        note(f"{len(text.ids):,} words, {len(text.words):,} different ones kept")
        losses: list[float] = []
        with parts_bar(enabled=not quiet) as progress:
            counts = co_occurrence(text, window, progress=progress)
            made = learn(counts, width, epochs, rate, x_max, seed=seed, device=place, progress=progress, losses=losses)
        write_vectors(output, made)
    except KeyboardInterrupt:
        say("stopped before the end; nothing was written")
        raise typer.Exit(130) from None
    note(f"{len(counts):,} pairs of words; the loss fell from {losses[0]:.4f} to {losses[-1]:.4f} a pair")
    note(f"wrote {output}: {len(made):,} words, {made.width} numbers each; try: regard vectors near WORD -v {output}")


@vectors.command(cls=Command)
def near(
    word: Annotated[str, typer.Argument(help="Any word of the file.")],
    file: File = USUAL,
    count: Count = 10,
    format: JsonValue = Format.text,
) -> None:
    """List the words with the highest cosine similarity."""
    _tell(_read(file).near(word, count), format)


@vectors.command(cls=Command)
def analogy(
    a: Annotated[str, typer.Argument(help="man is to ...")],
    b: Annotated[str, typer.Argument(help="... king as ...")],
    c: Annotated[str, typer.Argument(help="... woman is to: what?")],
    file: File = USUAL,
    count: Count = 10,
    format: JsonValue = Format.text,
) -> None:
    """Complete the analogy A : B = C : ?, the words nearest to b - a + c."""
    _tell(_read(file).analogy(a, b, c, count), format)


@vectors.command(cls=Command)
def compare(
    one: Annotated[str, typer.Argument(help="A word of the file.")],
    other: Annotated[str, typer.Argument(help="Another.")],
    file: File = USUAL,
    format: JsonValue = Format.text,
) -> None:
    """Print the dot product and the cosine of two words' vectors."""
    from regard.data.vectors.near import cosine, dot

    found = _read(file)
    numbers = {"dot": dot(found[one], found[other]), "cosine": cosine(found[one], found[other])}
    if format is Format.json:
        typer.echo(as_json({name: round(value, 6) for name, value in numbers.items()}))
    else:
        typer.echo("\n".join(f"{name}\t{value:.4f}" for name, value in numbers.items()))


def _read(file: Path) -> Vectors:
    from regard.data.vectors.file import read_vectors

    if file == USUAL and not file.exists():
        raise UserError(f"{file} does not exist; name a file with -v, or make it: regard vectors train CORPUS")
    return read_vectors(file)


def _tell(found: list[tuple[str, float]], format: Format) -> None:
    if format is Format.json:
        typer.echo(as_json([{"word": word, "cosine": round(cosine, 6)} for word, cosine in found]))
    else:
        typer.echo("\n".join(f"{shown(word)}\t{cosine:.4f}" for word, cosine in found))
