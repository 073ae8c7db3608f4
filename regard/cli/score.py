"""`regard score`: how likely a model finds given translations or texts (forced decoding)."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import (
    BatchTokens,
    ComputedInFloat32,
    Device,
    EnsembleModels,
    From,
    JsonLines,
    Model,
    Quiet,
    To,
    own_precision,
)
from regard.cli.progress import progress_bar
from regard.cli.stdin_lines import decode_line
from regard.cli.terminal import Format, Precision, as_json, one_line, say, shown
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.task._generated import Score

TOGETHER = 1024
"""Texts that are read and scored at a time."""


def score(
    model: Model,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="Of a language model, texts; of a translator a text and its translation. Without them and without "
            "files, standard input: lines of text, or of both, separated by a tab.",
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="FILE", help="The texts that were translated; a .tsv may hold both.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Their translations, line by line; of a language model the texts."),
    ] = None,
    words: Annotated[
        bool, typer.Option("--words", help="Add a column for each word: the word, a space, its sum.")
    ] = False,
    ensemble: EnsembleModels = None,
    from_: From = None,
    to: To = None,
    batch_tokens: BatchTokens = None,
    device: Device = "auto",
    precision: ComputedInFloat32 = Precision.float32,
    format: JsonLines = Format.text,
    quiet: Quiet = False,
) -> None:
    """Score given translations, or texts: their log-probability under a model.

    A line for each of them: the log-probability, its mean per token, the perplexity. A translation counts with the end
    of the text, a language model's text without. JSON lists the tokens, too.
    """
    from regard.evaluating import recipe_of

    task = recipe_of(model).task
    if task not in ("translate", "generate"):
        raise UserError(f"{model} is made to {task}; regard score is for translators and language models")
    translates = task == "translate"
    if not translates and (source or ensemble or from_ or to or batch_tokens):
        raise UserError(
            "--source, --ensemble, --from, --to and --batch-tokens are for translators; name the file by --target"
        )
    if texts and (source or target):
        raise UserError("name texts or files, not both")
    if texts and translates and len(texts) != 2:
        raise UserError(f"a translator scores a text and its translation: regard score {model} TEXT TRANSLATION")
    if target and translates and not source:
        raise UserError("--target are the translations of --source FILE; name both")
    rows = _rows(texts, source, target, translates)
    import regard

    how = {"device": device, "precision": own_precision(precision)}
    scorer: Any = regard.ensemble(model, *ensemble, **how) if ensemble else regard.load(model, **how, engine="torch")
    options: dict[str, Any] = {}
    if translates:
        options = {"source": None if from_ == "auto" else from_, "target": to, "batch_tokens": batch_tokens}
    from regard.cli.translate import writing_may_fail

    total, tokens, lines = 0.0, 0, 0
    with writing_may_fail(), progress_bar(None, enabled=not quiet and not texts, what="scoring") as advance:
        while batch := list(islice(rows, TOGETHER)):
            if translates:
                sources, targets = map(list, zip(*batch))
                found = scorer.score(sources, targets, **options, progress=advance)
            else:
                found = scorer.score([text for _, text in batch])
                advance(len(batch))
            for row, one in zip(batch, found, strict=True):
                line = _json(row, one, translates) if format is Format.json else _columns(one, words)
                print(shown(line))
                total, tokens = total + one.log_probability, tokens + len(one.tokens)
            lines += len(batch)
            sys.stdout.flush()
    if lines > 1 and not quiet:
        mean = total / max(1, tokens)
        say(f"{lines:,} lines of {tokens:,} tokens: {mean:.4f} per token, perplexity {_perplexity(-mean):.4g}")


def _rows(
    texts: list[str] | None, source: str | None, target: str | None, translates: bool
) -> Iterator[tuple[str, str]]:
    """Pairs of source and target; of a language model the source is empty."""
    if texts:
        return iter([(texts[0], texts[1])] if translates else [("", text) for text in texts])
    if source:
        from regard.data.corpus.reading import read_pairs

        return read_pairs([source], [target] if target else [], kept=True)
    if target:
        from regard.data.corpus import read_lines

        return (("", line) for line in read_lines(target, kept=True))
    if sys.stdin is None:
        raise UserError("no text was given and standard input is closed; name files by --source and --target")
    if sys.stdin.isatty():
        say("one text a line, a translation after a tab, Ctrl-D ends" if translates else "one text a line, Ctrl-D ends")
    lines = (
        decode_line(line.rstrip(b"\n"), number, say)
        for number, line in enumerate(os.fdopen(os.dup(sys.stdin.fileno()), "rb"), 1)
    )
    return _split(lines) if translates else (("", line) for line in lines)


def _split(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        source, tab, target = line.partition("\t")
        if not tab:
            raise UserError(f"line {number} has no tab; write a text, a tab and its translation on each line")
        yield source, target


def _columns(one: Score, words: bool) -> str:
    columns = [f"{one.log_probability:.4f}", f"{-one.loss:.4f}", f"{one.perplexity:.4f}"]
    return "\t".join(columns + [f"{one_line(word)} {value:.4f}" for word, value in one.words if words])


def _json(row: tuple[str, str], one: Score, translates: bool) -> str:
    texts = {"source": row[0], "target": row[1]} if translates else {"text": row[1]}
    return as_json(
        {
            **texts,
            "log_probability": one.log_probability,
            "per_token": -one.loss,
            "perplexity": one.perplexity,
            "tokens": [list(pair) for pair in zip(one.tokens, one.log_probabilities)],
            "words": [list(pair) for pair in one.words],
        }
    )


def _perplexity(loss: float) -> float:
    return math.exp(min(loss, 700.0))
