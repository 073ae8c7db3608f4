"""The pipeline of a bulk job in Ray Data: tasks read shards, actors with a model answer them.

A shard is one row of the dataset and one block of Ray's, so that it is handed on, and handed back, as soon as it is
done. Ray Data holds back the readers while the actors are busy, and repeats what a lost node did.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from regard import __version__
from regard.bulk import CHUNK_BYTES, Answers
from regard.errors import UserError
from regard.ray.input_files import Input, InputFile, Row
from regard.ray.output_folder import Plan, collected
from regard.terminal_text import as_json

Load = Callable[..., Answers]
"""Loads the model; called with `device` and `threads` in a worker."""


@dataclass(frozen=True)
class Pool:
    """The workers: what each of them takes and how many there are room for."""

    cpus: float
    gpus: float
    count: int


@dataclass(frozen=True)
class Job:
    """What a pipeline does, as plain data that is sent to its workers."""

    input: Input
    plan: Plan
    load: Load
    structured: bool
    """Whether the output is JSON lines with keys."""
    settings: dict[str, Any]
    """Those of the answers, which every worker must have."""
    pool: Pool
    read_on: str
    """The node that sees the input; empty if all do."""


class Pipeline:
    """A pipeline under way. Outside of the cluster it runs as an actor, because Ray Data needs to be in one."""

    def __init__(self, job: Job, shards: Sequence[int]) -> None:
        import ray.data

        context = ray.data.DataContext.get_current()
        context.target_max_block_size = 1  # each row is a block
        context.enable_progress_bars = False
        groups = [{"shards": group} for group in grouped(job.plan, shards)]
        size = min(job.pool.count, len(shards)) or 1
        found = (
            ray.data.from_items(groups, override_num_blocks=len(groups))
            .flat_map(partial(read_shards, job), num_cpus=0, label_selector=_placed(job.read_on))
            .map(
                ShardWorker,  # type: ignore[arg-type]
                fn_constructor_args=[job],
                num_cpus=job.pool.cpus,
                num_gpus=job.pool.gpus,
                compute=ray.data.ActorPoolStrategy(min_size=size, max_size=max(size, len(shards))),
            )
        )
        self._batches: Iterator[Any] = iter(
            found.iter_batches(batch_size=None, prefetch_batches=0, batch_format="pyarrow")
        )

    def next(self) -> list[dict[str, Any]]:
        """The shards that are finished next; none at the end."""
        batch = next(self._batches, None)
        return [] if batch is None else batch.to_pylist()


def _placed(node: str) -> dict[str, str] | None:
    """What tells Ray to run a task on a node."""
    return {"ray.io/node-id": node} if node else None


def grouped(plan: Plan, shards: Sequence[int]) -> list[list[int]]:
    """The shards that one task reads, one after the other: those that begin in the same file."""
    ends, total = [], 0
    for file in plan.files:
        total += file.rows
        ends.append(total)
    groups: list[list[int]] = []
    at = last = 0
    for shard in shards:
        while at + 1 < len(ends) and plan.lines_before(shard) >= ends[at]:
            at += 1
        if not groups or at != last:
            groups.append([])
        groups[-1].append(shard)
        last = at
    return groups


def read_shards(job: Job, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of shards of increasing number; a user's mistake is handed on as text."""
    shards = [int(shard) for shard in row["shards"]]
    plan, at = job.plan, job.plan.lines_before(shards[0])
    rows = _rows_from(job.input, plan.files, at)
    try:
        for shard in shards:
            for _ in islice(rows, plan.lines_before(shard) - at):
                pass
            found = list(islice(rows, plan.size(shard)))
            at = plan.lines_before(shard + 1)
            _check_unchanged(job, shard, len(found))
            yield {"shard": shard, "content": json.dumps(found).encode(), "error": ""}
    except UserError as error:
        yield {"shard": -1, "content": b"", "error": str(error)}


def _rows_from(source: Input, files: Sequence[InputFile], start: int) -> Iterator[Row]:
    for file in files:
        if start < file.rows:
            yield from source.rows(file, start)
        start = max(0, start - file.rows)


def _check_unchanged(job: Job, shard: int, found: int) -> None:
    """Raises a UserError if a file that a shard was read from is no longer what it was."""
    first, last, before = job.plan.lines_before(shard), job.plan.lines_before(shard + 1), 0
    for file in job.plan.files:
        if before < last and before + file.rows > first and not job.input.unchanged(file):
            raise UserError(f"{file.name} changed while it was read; restore it, or choose another output folder")
        before += file.rows
    if found != last - first:
        raise UserError(f"{job.input.location} has fewer lines than were counted; choose another output folder")


class ShardWorker:
    """An actor with a model, which answers one shard after the other."""

    def __init__(self, job: Job) -> None:
        self._job, self._plan = job, job.plan
        self._is_json = job.settings.get("format") == "json"
        self._answers: Answers | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        if row["error"]:
            return _result(error=row["error"])
        try:
            if self._answers is None:
                self._answers = opened(self._job.load, self._job.pool)
                if self._answers.settings != self._job.settings:
                    raise UserError("a node of the cluster has another model than the others under this name")
            output, messages = self._answered(int(row["shard"]), [Row(*one) for one in json.loads(row["content"])])
        except UserError as error:
            return _result(error=str(error))
        return _result(int(row["shard"]), output.encode("utf-8", "replace"), collected(messages))

    def _answered(self, shard: int, rows: list[Row]) -> tuple[str, list[str]]:
        assert self._answers
        first, messages, written = self._plan.lines_before(shard) + 1, list[str](), list[str]()
        for chunk in chunked(rows):
            number = first + len(written)
            messages += [f"line {n} {row.problem}" for n, row in enumerate(chunk, number) if row.problem]
            texts = self._answers.answer([row.text for row in chunk], number, messages.append, _ignored)
            if len(texts) != len(chunk):
                raise RuntimeError(f"{len(chunk)} lines went in but {len(texts)} came out")
            if self._job.structured:
                texts = [with_key(row, text, self._is_json) for row, text in zip(chunk, texts)]
            written += texts
        return "".join(f"{text}\n" for text in written), messages


def _result(
    shard: int = -1, output: bytes = b"", problems: dict[str, Any] | None = None, error: str = ""
) -> dict[str, Any]:
    return {"shard": shard, "output": output, "problems": json.dumps(problems or {}), "error": error}


def opened(load: Load, pool: Pool) -> Answers:
    """Loads the model with the threads that the worker may use."""
    threads = int(pool.cpus)
    answers = load(device="cuda" if pool.gpus else "cpu", threads=threads)
    if not pool.gpus:
        import sys

        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(threads)
    return answers


def prepared(load: Load, pool: Pool) -> tuple[str, str, dict[str, Any]]:
    """Loads the model once before anything is written: our version there, the mistake if any, and the settings."""
    try:
        return __version__, "", opened(load, pool).settings
    except UserError as error:
        return __version__, str(error), {}


def _ignored(lines: int) -> None: ...


def chunked(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Parts of a shard that are answered together, large enough to batch them by length."""
    chunk, size = [], 0
    for row in rows:
        chunk.append(row)
        size += len(row.text.encode()) + 1
        if size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def with_key(row: Row, answer: str, is_json: bool) -> str:
    """One line of JSON with a row's key, its answer and what was wrong with it."""
    tree = {"key": row.key} | (json.loads(answer or "{}") if is_json else {"text": answer})
    return as_json(tree | ({"problem": row.problem} if row.problem else {}))
