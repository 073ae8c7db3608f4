"""Bulk work on a Ray cluster: every line of the input answered once, in order, into a folder of finished shards.

A run that is killed goes on where it stopped. Of a node that dies only the work under way is done again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from regard import __version__
from regard.errors import UserError
from regard.ray.cluster import Cluster, connected
from regard.ray.input_files import Input, InputFile, is_local
from regard.ray.output_folder import OutputFolder, Plan
from regard.ray.pipeline import Job, Load, Pipeline, Pool, prepared

RESTARTS = 3
"""How often in a row a pipeline is started again without having finished a shard."""
Note = Callable[[str], None]


class BulkJob:
    """An input, what answers its lines, and the folder with the answers."""

    def __init__(
        self,
        source: Input,
        output: Path,
        load: Load,
        *,
        device: str = "auto",
        shards: int | None = None,
        note: Note = lambda text: None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """`load` is sent to the workers; `progress` is called with the finished lines and all lines."""
        if device not in ("auto", "cpu", "cuda"):
            raise UserError(f"--device {device}: Ray assigns the devices; use auto, cpu or cuda")
        self._source, self._folder, self._load = source, OutputFolder(output), load
        self._device, self._shards, self._note, self._progress = device, shards, note, progress

    def run(self, on: str) -> Plan:
        """Does the whole job; returns its plan. `problems` then says what was wrong with lines."""
        known = self._folder.known_plan()
        with connected(on, self._note) as cluster:
            if self._device == "cuda" and not any(node["GPU"] >= 1 for node in cluster.nodes):
                raise UserError(f"--device cuda: the cluster {on} has no GPU; leave it out")
            where = "" if cluster.remote or not is_local(self._source.location) else cluster.here
            (files,) = self._on_cluster([self._source.files], where)
            form = self._source.format(files)
            pool, settings = self._prepared(cluster)
            ours = settings | {name: value for name in ("column", "key") if (value := getattr(self._source, name))}
            if known:
                self._folder.check_same_job(known, files, ours, self._shards)
            else:
                files = self._counted(files, where)
            self._folder.suffix = "jsonl" if form != "text" or settings.get("format") == "json" else "txt"
            with self._folder.held():
                plan = self._folder.known_plan() or self._folder.start(files, ours, self._shards)
                self._folder.check_same_job(plan, files, ours, self._shards)
                job = Job(self._source, plan, self._load, form != "text", settings, pool, where)
                self._work(job, cluster)
            return plan

    def problems(self, plan: Plan) -> list[str]:
        return self._folder.problems(plan)

    def _prepared(self, cluster: Cluster) -> tuple[Pool, dict[str, Any]]:
        """Has one worker load the model, so that what is wrong is told before anything is written."""
        cpus, gpus, count = cluster.workers(self._device, "torch")
        self._note("loading the model on the cluster")
        tried = partial(prepared, self._load, Pool(cpus, gpus, count))
        ((version, mistake, settings),) = self._on_cluster([tried], "", num_cpus=cpus, num_gpus=gpus, max_calls=1)
        if version != __version__:
            raise UserError(f"the cluster has regard {version}, this machine {__version__}; install the same")
        if mistake:
            raise UserError(mistake)
        return Pool(*cluster.workers(self._device, str(settings.get("engine", "torch")))), settings

    def _counted(self, files: Sequence[InputFile], where: str) -> list[InputFile]:
        self._note(f"counting the lines of {self._source.location}")
        rows = self._on_cluster([partial(self._source.count, file) for file in files], where)
        return [replace(file, rows=count) for file, count in zip(files, rows)]

    def _on_cluster(self, functions: Sequence[Callable[[], Any]], where: str, **needs: Any) -> list[Any]:
        """The results of functions that nodes compute, `where` if it has to be a certain one."""
        import ray

        if where and not needs:
            return [function() for function in functions]  # this process is on that node
        task = ray.remote(**{"num_cpus": 0, **needs})(_tried)
        try:
            found = ray.get([task.remote(function) for function in functions])
        except ray.exceptions.RayError as error:
            if "No module named 'regard" in str(error):
                raise UserError("regard is not installed on a node of the cluster; install it on all of them") from None
            raise
        for _, mistake in found:
            if mistake:
                raise UserError(mistake)
        return [result for result, _ in found]

    def _work(self, job: Job, cluster: Cluster) -> None:
        plan, failures = job.plan, 0
        left = self._folder.unfinished(plan)
        done = plan.lines - sum(map(plan.size, left))
        self._progress(done, plan.lines)
        while left:
            before = len(left)
            try:
                for row in _results(job, left, cluster.remote):
                    if row["error"]:
                        raise UserError(row["error"])
                    shard = int(row["shard"])
                    self._folder.publish(plan, shard, row["output"], json.loads(row["problems"]))
                    left.remove(shard)
                    done += plan.size(shard)
                    self._progress(done, plan.lines)
                if left:
                    raise RuntimeError(f"Ray handed back all but {len(left)} shards")
            except ConnectionError as error:
                raise UserError(f"the connection to Ray was lost ({error}); the same command goes on") from None
            except _lost() as error:
                failures = failures + 1 if len(left) == before else 0
                if failures > RESTARTS:
                    raise
                self._note(f"Ray lost part of the work ({' '.join(str(error).split())[:120]}); it is started again")


def _tried(function: Callable[[], Any]) -> tuple[Any, str]:
    try:
        return function(), ""
    except UserError as error:
        return None, str(error)


def _lost() -> tuple[type[BaseException], ...]:
    """What Ray raises if more is lost than it can repeat by itself, such as the node that ran the pipeline."""
    from ray import exceptions

    return (
        exceptions.RayActorError,
        exceptions.ObjectLostError,
        exceptions.WorkerCrashedError,
        exceptions.NodeDiedError,
        exceptions.RaySystemError,
    )


def _results(job: Job, shards: Sequence[int], remote: bool) -> Iterator[dict[str, Any]]:
    """The finished shards as they come, in any order."""
    import ray

    if not remote:
        here = Pipeline(job, shards)
        while rows := here.next():
            yield from rows
        return
    actor: Any = ray.remote(num_cpus=0)(Pipeline).remote(job, list(shards))  # type: ignore[attr-defined]
    try:
        coming = actor.next.remote()
        while rows := ray.get(coming):
            coming = actor.next.remote()
            yield from rows
    finally:
        with suppress(Exception):
            ray.kill(actor)
