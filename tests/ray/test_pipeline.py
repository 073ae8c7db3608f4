"""What the tasks and actors of bulk work do, called here without Ray."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.bulk import Answers
from regard.errors import UserError
from regard.ray import pipeline
from regard.ray.input_files import Input, InputFile
from regard.ray.output_folder import OutputFolder, Plan, collected, told
from regard.ray.pipeline import Job, Pool, ShardWorker, grouped, prepared, read_shards


def loud(*, device: str, threads: int) -> Answers:
    """Numbers lines and raises their voice; warns of what has no letters, and fails on one word."""

    def answer(texts: list[str], first: int, warn: Any, progress: Any) -> list[str]:
        if "fail" in texts:
            raise UserError("this text cannot be answered")
        for number, text in enumerate(texts, first):
            if not text.isalpha():
                warn(f"line {number} has no letters")
        return [f"{number} {text.upper()}" for number, text in enumerate(texts, first)]

    return Answers({"voice": "loud", "device": device, "threads": threads}, answer)


def refused(*, device: str, threads: int) -> Answers:
    raise UserError("no such model")


def job(location: Path, shards: int, structured: bool = False, **more: Any) -> Job:
    source = Input(str(location))
    files = [InputFile(one.path, one.name, one.size, one.modified, source.count(one)) for one in source.files()]
    settings = loud(device="cpu", threads=2).settings
    given = {"load": loud, "settings": settings, "pool": Pool(2, 0, 1), **more}
    return Job(source, Plan(tuple(files), shards, settings), structured=structured, read_on="", **given)


def done(work: Job, wanted: list[int] | None = None) -> dict[int, dict[str, Any]]:
    """Every group of shards, read and answered."""
    worker = ShardWorker(work)
    shards = list(range(work.plan.shards)) if wanted is None else wanted
    rows = [row for group in grouped(work.plan, shards) for row in read_shards(work, {"shards": group})]
    return {found["shard"]: found for found in map(worker, rows)}


@pytest.mark.parametrize("shards", [1, 3, 7, 40])
def test_shards_span_files_and_any_of_them_can_be_missing(tmp_path: Path, shards: int, monkeypatch) -> None:
    monkeypatch.setattr(pipeline, "CHUNK_BYTES", 5)
    lines = [f"mot{'s' * (number % 4)}" if number % 3 else "" for number in range(24)]
    for name, part in (("a", lines[:10]), ("b", []), ("c", lines[10:11]), ("d", lines[11:])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in part))
    work = job(tmp_path, shards)
    found = done(work)
    assert sorted(found) == list(range(shards)) and not any(one["error"] for one in found.values())
    written = b"".join(found[shard]["output"] for shard in range(shards))
    assert written.decode() == "".join(f"{n} {line.upper()}\n" for n, line in enumerate(lines, 1))
    some = list(range(0, shards, 2))
    assert done(work, some) == {shard: found[shard] for shard in some}


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 12), st.sets(st.integers(0, 11)))
def test_groups_hold_every_shard_once_in_order(sizes: list[int], shards: int, missing: set[int]) -> None:
    files = tuple(InputFile(str(n), str(n), 0, 0, size) for n, size in enumerate(sizes))
    left = [shard for shard in range(shards) if shard not in missing]
    groups = grouped(Plan(files, shards, {}), left)
    assert [shard for group in groups for shard in group] == left and all(groups)


def test_structured_output_has_keys_and_problems(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "oui"}\nno\n{"text": "a\\u2028b"}\n')
    found = done(job(tmp_path / "in.jsonl", 1, structured=True))[0]
    lines = found["output"].decode().split("\n")
    assert "\u2028" not in lines[2] and lines[3] == ""
    assert [json.loads(line) for line in lines[:3]] == [
        {"key": "in.jsonl:1", "text": "1 OUI"},
        {"key": "in.jsonl:2", "text": "2 ", "problem": "is not a JSON object"},
        {"key": "in.jsonl:3", "text": "3 A\u2028B"},
    ]
    counts = {message: (count, line) for count, line, message in json.loads(found["problems"]).values()}
    assert counts == {"is not a JSON object": (1, 2), "has no letters": (2, 2)}


def test_mistakes_are_handed_on_as_text(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("oui\nfail\nnon\n")
    found = done(job(path, 3))
    assert found[-1]["error"] == "this text cannot be answered" and sorted(found) == [-1, 0, 2]
    assert done(job(path, 1, load=refused))[-1]["error"] == "no such model"
    assert prepared(refused, Pool(1, 0, 1))[1] == "no such model"
    assert "another model" in done(job(path, 1, settings={"voice": "low"}))[-1]["error"]
    for text, words in (("oui\nnon\nsi\nha\n", "changed while"), ("oui\nfail", "changed while")):
        work = job(path, 2)
        path.write_text(text)
        assert words in done(work)[-1]["error"]
        path.write_text("oui\nfail\nnon\n")
    work = job(path, 2)
    before = path.stat()
    path.write_text("oui\nfail   n\n")  # one line less, of the same size and time
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "fewer lines" in done(work, [1])[-1]["error"]


def test_problems_are_counted_by_kind() -> None:
    files = (InputFile("a", "a.txt", 0, 0, 5), InputFile("b", "b.txt", 0, 0, 9))
    plan = Plan(files, 2, {})
    first = collected(["line 3 was split into 4 parts", "line 4 was split into 12 parts", "odd"])
    second = collected(["line 7 (and 5 more) is in de", "line 9 was split into 2 parts"])
    assert told(plan, iter([first, second])) == [
        "a.txt, line 3 was split into 4 parts (and 2 more)",
        "odd",
        "b.txt, line 2 is in de (and 5 more)",
    ]


def test_a_folder_belongs_to_one_job_and_one_process(tmp_path: Path) -> None:
    out = OutputFolder(tmp_path / "out")
    files = [InputFile("/x/in.txt", "in.txt", 9, 7, 3)]
    assert out.known_plan() is None and not out.folder.exists()
    with out.held():
        plan = out.start(files, {"model": "one"}, 2)
        with pytest.raises(UserError, match="another process works on"), OutputFolder(out.folder).held():
            pass
        out.publish(plan, 1, b"a\nb\n", {"kind": [1, 3, "is odd"]})
        with pytest.raises(RuntimeError):
            out.publish(plan, 0, b"", {})
    assert out.unfinished(plan) == [0] and out.known_plan() == plan
    with (out.folder / ".problems.jsonl").open("a") as log:
        log.write('{"shard": 0, "prob')  # killed while it wrote
    with out.held():
        out.publish(plan, 0, b"c\n", {"kind": [2, 1, "is odd"]})
    assert out.problems(plan) == ["line 1 is odd (and 2 more)"] and not out.unfinished(plan)

    def other(words: str, files: list[InputFile] = files, model: str = "one", shards: int | None = None) -> None:
        with pytest.raises(UserError, match=words) as caught:
            out.check_same_job(plan, files, {"model": model}, shards)
        assert "\n" not in str(caught.value)

    out.check_same_job(plan, files, {"model": "one"}, None)
    other("was started with model one, not two", model="two")
    other("was started with shards 2, not 3", shards=3)
    other(r"another input \(in.txt is not what it was\)", [InputFile("/x/in.txt", "in.txt", 9, 8, 3)])
    other(r"another input \(b.txt is not what it was\)", [*files, InputFile("/x/b.txt", "b.txt", 9, 8, 3)])
    (out.folder / ".plan.json").write_text('{"size": 1}')
    with pytest.raises(UserError, match="is not a plan of work on Ray"):
        out.known_plan()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(UserError, match="already holds other files"):
        OutputFolder(tmp_path / "full").known_plan()


def test_what_ray_cannot_repeat_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.exceptions import RayActorError

    from regard.ray import bulk
    from regard.ray.cluster import Cluster

    (tmp_path / "in.txt").write_text("oui\n" * 12)
    work, told_ = job(tmp_path / "in.txt", 6), list[Any]()
    lost = [2, 1, 0, 0, 0, 9]
    """How many shards are finished before everything is lost."""

    def results(_: Job, left: list[int], remote: bool) -> Any:
        yield from list(done(work, list(left)).values())[: lost[0]]
        if lost.pop(0) < 9:
            raise RayActorError

    monkeypatch.setattr(bulk, "_results", results)
    task = bulk.BulkJob(work.input, tmp_path / "out", loud, note=told_.append, progress=lambda *at: told_.append(at))
    with task._folder.held():
        task._work(work, Cluster(True, (), ""))
        counts = [line for line in told_ if not isinstance(line, str)]
        assert counts[0] == (0, 12) and counts[-1] == (12, 12) and len(counts) == 7
        assert sum("it is started again" in line for line in told_ if isinstance(line, str)) == 5
        written = b"".join(path.read_bytes() for path in sorted((tmp_path / "out").glob("[!.]*")))
        assert written.decode() == "".join(f"{number} OUI\n" for number in range(1, 13))
        (tmp_path / "out" / "001-of-006.txt").unlink()
        lost[:] = [0] * 5
        with pytest.raises(RayActorError):
            task._work(work, Cluster(True, (), ""))
        assert lost == [0]
        monkeypatch.setattr(bulk, "_results", lambda *given: iter(()))
        with pytest.raises(RuntimeError, match="all but 1 shards"):
            task._work(work, Cluster(True, (), ""))
