"""From files of parallel text to cleaned ones, as a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from regard.data.corpus.cleaning import CHUNK, Cleaner
from regard.data.corpus.reading import is_table, read_pairs, split_column
from regard.data.corpus.writing import Lines, open_all
from regard.errors import UserError


def clean_files(
    source: str,
    target: str | None,
    outputs: Sequence[Path],
    cleaner: Cleaner,
    *,
    dropped: Path | None = None,
    report: Path | None = None,
    progress: Callable[[int], None] = lambda pairs: None,
) -> None:
    """Writes the pairs that the cleaner keeps: into a .tsv, or into one file per side.

    `dropped` gets the others as reason, source and target; `report` the counts as JSON. Nothing appears under its name
    before everything is written.
    """
    _check_places(source, target, outputs, dropped, report)
    pairs = read_pairs([source], [target] if target else [])
    with ExitStack() as stack:
        kept = [stack.enter_context(Lines(path)) for path in outputs]
        (rejected,) = open_all(stack, dropped)
        for reason, pair in cleaner.clean(pairs):
            if reason:
                if rejected:
                    rejected.write("\t".join((reason, *pair)))
            elif len(kept) == 1:
                kept[0].write("\t".join(pair))
            else:
                for side, text in zip(kept, pair):
                    side.write(text)
            if cleaner.read % CHUNK == 0:
                progress(CHUNK)
        progress(cleaner.read % CHUNK)
        for file in (*kept, rejected):
            if file:
                file.finish()
        if report:
            counts = Lines(report)
            with counts:
                counts.write(json.dumps(cleaner.report(), ensure_ascii=False, indent=1))
                counts.finish()


def _check_places(source: str, target: str | None, outputs: Sequence[Path], *more: Path | None) -> None:
    if target is None and not is_table(split_column(source)[0]):
        raise UserError(f"{source}: one file of text is one language; name the other file, too, or a .tsv with both")
    if len(outputs) > 2 or not outputs or (len(outputs) == 1 and not is_table(outputs[0])):
        raise UserError("write into one .tsv (-o clean.tsv.gz), or a file for each side (-o clean.fr -o clean.en)")
    inputs = [split_column(path)[0].resolve() for path in (source, target) if path]
    seen = set(inputs)
    for path in (*outputs, *more):
        if path and path.resolve() in seen:
            what = "the text to be cleaned" if path.resolve() in inputs else "named twice"
            raise UserError(f"{path} is {what}; choose another file")
        seen |= {path.resolve()} if path else set()
