"""Pairs made by a translator: of a source text and its translation, to train another translator on.

    OUT.tsv.parts/1/001-of-064.jsonl   the translations of a shard of the first source file (bulk.py)
    OUT.tsv                            the pairs worth keeping, in the order of the sources: source, translation, score

Translating can be interrupted at any time, and shared by several processes; the same call goes on. Which pairs to keep
is decided at the end, so other thresholds do not translate again.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

from regard.bulk import Shards
from regard.data.corpus.cleaning import Cleaner
from regard.data.corpus.reading import check_file, is_table, raw_lines, split_column, text_lines
from regard.data.corpus.writing import Lines, open_all
from regard.errors import UserError
from regard.locking import hold_in_turn

Translate = Callable[..., Sequence[Any]]
"""`translate` of a translator."""
Note = Callable[[str], None]
Advance = Callable[[int], None]
Following = Callable[[Shards], AbstractContextManager[tuple[Advance, Advance]]]
"""Shows the progress of one source file: called for lines finished since the last call, and with all that are done."""


def distill(
    translate: Translate,
    sources: Sequence[str],
    output: Path,
    cleaner: Cleaner,
    *,
    settings: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    min_score: float = float("-inf"),
    reverse: bool = False,
    dropped: Path | None = None,
    shards: int | None = None,
    note: Note = lambda text: None,
    following: Following = lambda work: nullcontext((lambda lines: None, lambda lines: None)),
) -> None:
    """Translates the lines of files and writes the pairs that are worth it.

    `settings` is what identifies the work (the model's hash, the search), `options` go to `translate`. A pair's
    score is the mean log-probability of its translation's tokens. With `reverse` the translation stands first.
    """
    if not is_table(output):
        raise UserError(f"{output}: pairs are written as a table; name it .tsv or .tsv.gz")
    for source in sources:
        check_file(split_column(source)[0])
        if split_column(source)[0].resolve() == output.resolve():
            raise UserError(f"{output} is a text to be translated; choose another file")
    asked = dict(options or {})
    places = [parts_folder(output) / str(number) for number, _ in enumerate(sources, 1)]
    works = [
        _translate(translate, source, place, settings, asked, shards, note, following)
        for source, place in zip(sources, places)
    ]
    with hold_in_turn(output.parent / f".{output.name}.lock"), ExitStack() as stack:
        pairs = stack.enter_context(Lines(output))
        (rejected,) = open_all(stack, dropped)
        for work, source in zip(works, sources):
            for why, (text, translation), score in _judged(work, source, cleaner, min_score):
                columns = [translation, text] if reverse else [text, translation]
                if not why:
                    pairs.write("\t".join((*columns, f"{score:.4f}")))
                elif rejected:
                    rejected.write("\t".join((why, *columns, f"{score:.4f}")))
        for file in (pairs, rejected):
            if file:
                file.finish()
    (output.parent / f".{output.name}.lock").unlink(missing_ok=True)


def parts_folder(output: Path) -> Path:
    """Where the translations are kept from which the pairs are chosen."""
    return output.with_name(f"{output.name}.parts")


def _translate(
    translate: Translate,
    source: str,
    place: Path,
    settings: Mapping[str, Any],
    options: dict[str, Any],
    shards: int | None,
    note: Note,
    following: Following,
) -> Shards:
    file, column = _column_of(source)
    work = Shards(file, place, {**settings, "column": column}, shards, "jsonl", note)

    with following(work) as (advance, all_done):

        def answer(lines: list[bytes], first: int) -> list[str]:
            texts = [_text(line, column) for line in lines]
            found = translate(texts, **options, progress=advance)
            return [json.dumps([_result(one) for one in (best, *best.alternatives)]) for best in found]

        work.run(answer, all_done)
    return work


def _column_of(source: str) -> tuple[Path, int | None]:
    file, column = split_column(source)
    return file, column or (1 if is_table(file) else None)


def _text(line: bytes, column: int | None) -> str:
    text = line.removesuffix(b"\r").decode("utf-8", "replace").removeprefix("\ufeff")
    cells = text.split("\t") if column else [text]
    return cells[column - 1] if column and len(cells) >= column else cells[0] if not column else ""


def _result(found: Any) -> list[Any]:
    """Text, mean log-probability of a token (END included), and whether it is whole."""
    return [found.text, round(found.log_probability / (len(found.tokens) + 1), 4), found.finished]


def _judged(
    work: Shards, source: str, cleaner: Cleaner, min_score: float
) -> Iterator[tuple[str, tuple[str, str], float]]:
    """Every pair with the reason why it is dropped, empty for one to keep, and its score."""
    scores: deque[float] = deque()
    rejected: list[tuple[str, tuple[str, str], float]] = []
    file, column = _column_of(source)

    def whole() -> Iterator[tuple[str, str]]:
        for line, results in zip(raw_lines(file), _results(work), strict=True):
            for translation, score, finished in results:
                pair = _text(line, column), translation
                if finished and score >= min_score:
                    scores.append(score)
                    yield pair
                else:
                    why = "score" if finished else "unfinished"
                    cleaner.drop(why, pair)
                    rejected.append((why, pair, score))

    for why, pair in cleaner.clean(whole()):
        yield from rejected
        rejected.clear()
        yield why, pair, scores.popleft()
    yield from rejected


def _results(work: Shards) -> Iterator[list[tuple[str, float, bool]]]:
    for shard in range(work.plan.shards):
        for line in text_lines(work.file(shard)):
            yield json.loads(line)
