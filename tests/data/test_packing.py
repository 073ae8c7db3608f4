"""A large corpus, packed in parts while training reads it: the same bytes and batches as when packed first."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from regard.config import Recipe, apply_overrides, to_toml
from regard.data.batching import Batches
from regard.data.corpus import packing
from regard.data.corpus.filters import Filters
from regard.data.corpus.hold_out import HeldOut
from regard.data.corpus.pack import Pack, open_pack, pack_pairs
from regard.data.corpus.packing import Order
from regard.data.corpus.preparing import held_out, prepare
from regard.data.corpus.reading import Pair
from regard.data.tokenizer.subword import Subword
from regard.errors import UserError
from regard.locking import hold
from regard.types import Batch

from .test_batching import same

ROOT = Path(__file__).parents[2]
MakePairs = Callable[[int], list[Pair]]
FILES = ("source.ids", "source.offsets", "target.ids", "target.offsets", "pack.json")


def corpus(make_pairs: MakePairs, count: int = 3000) -> list[Pair]:
    """With pairs that come again far away, empty ones, and ones that are too long."""
    pairs = make_pairs(count)
    pairs[count // 2] = pairs[10]
    pairs[-5] = pairs[7]
    pairs[5], pairs[-7] = ("", "x"), ("lé " * 200, "mi " * 200)
    return pairs


def pack(folder: Path, tokenizer: Subword, pairs: Iterator[Pair], part: int = 400) -> Pack:
    return pack_pairs(
        pairs,
        tokenizer.encode_many,
        tokenizer.encode_many,
        folder,
        vocabulary=len(tokenizer),
        filters=Filters(max_ratio=9),
        held_out=HeldOut([("x", "y")]),
        fingerprint="f",
        part=part,
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def test_parts_hold_what_one_part_holds(tmp_path: Path, subword: Subword, make_pairs: MakePairs) -> None:
    pairs = corpus(make_pairs)
    one, many = pack(tmp_path / "one", subword, iter(pairs), 0), pack(tmp_path / "many", subword, iter(pairs))
    for name in FILES[:4]:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "many" / name).read_bytes()
    assert one.dropped == many.dropped and one.dropped["duplicate"] >= 2 and one.dropped["too_long"] == 1
    parts = list(many.parts())
    assert len(parts) == 8 and [part.number for part in parts] == list(range(8))
    assert [part.first for part in parts] == [sum(p.pairs for p in parts[:i]) for i in range(8)]
    assert sum(part.pairs for part in parts) == len(many) == len(one) and parts[-1].pairs < 200 < parts[0].pairs
    assert tuple(map(max, zip(*(part.longest for part in parts)))) == one.longest()
    for part in parts:
        rows = [many.pair(i) for i in range(part.first, part.first + part.pairs)]
        assert part.longest == (max(len(s) for s, _ in rows), max(len(t) for _, t in rows))
    assert [*one.parts()] == [one.everything()] and len(one) == one.everything().pairs


@pytest.mark.parametrize("after", [1, 400, 1203, 3000])
def test_an_interrupted_pack_goes_on_to_the_same_bytes(
    tmp_path: Path, subword: Subword, make_pairs: MakePairs, after: int
) -> None:
    pairs = corpus(make_pairs)
    pack(tmp_path / "whole", subword, iter(pairs))
    encoded: list[int] = []

    class Counting(Subword):
        def encode_many(self, texts):  # type: ignore[no-untyped-def]
            encoded.append(len(texts))
            return super().encode_many(texts)

    def interrupted() -> Iterator[Pair]:
        yield from pairs[:after]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(tmp_path / "pack", subword, interrupted())
    there = json.loads((tmp_path / "pack" / "pack.json").read_text())["read"] if after >= 400 else 0
    assert there == after // 400 * 400 and (tmp_path / "pack").exists() == (after >= 400)
    if after >= 400:
        assert open_pack(tmp_path / "pack", "f") is None  # it is not whole
        with (tmp_path / "pack" / "target.ids").open("ab") as file:
            file.write(b"what a kill left")
    pack(tmp_path / "pack", Counting(subword.files()["tokenizer.model"]), iter(pairs))
    assert contents(tmp_path / "pack") == contents(tmp_path / "whole")
    assert sum(encoded) <= 2 * (3000 - there)  # what was packed is not tokenised again


def test_other_inputs_begin_anew(tmp_path: Path, subword: Subword, make_pairs: MakePairs) -> None:
    def interrupted() -> Iterator[Pair]:
        yield from make_pairs(1000)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(tmp_path / "pack", subword, interrupted())
    about = json.loads((tmp_path / "pack" / "pack.json").read_text())
    (tmp_path / "pack" / "pack.json").write_text(json.dumps({**about, "fingerprint": "other"}))
    others = list(reversed(make_pairs(1500)))
    pack(tmp_path / "pack", subword, iter(others)), pack(tmp_path / "alone", subword, iter(others))
    assert contents(tmp_path / "pack") == contents(tmp_path / "alone")


class Slowly:
    """The growth of a pack: at every third look there is one part more."""

    def __init__(self, whole: Path, folder: Path) -> None:
        self.whole, self.folder, self.looks, self.stopped = whole, folder, 0, 0
        self.turn = threading.Lock()
        self.about = json.loads((whole / "pack.json").read_text())
        folder.mkdir()
        for name in FILES[:4]:
            (folder / name).touch()
        self.show(1)

    def show(self, parts: int) -> None:
        about = {**self.about, "parts": self.about["parts"][:parts], "whole": parts > len(self.about["parts"])}
        about["pairs"] = sum(part["pairs"] for part in about["parts"])
        for side in ("source", "target"):
            offsets = (self.whole / f"{side}.offsets").read_bytes()[: 8 * (about["pairs"] + 1)]
            about["tokens"] = {**about["tokens"], side: int.from_bytes(offsets[-8:], "little")}
            ids = (self.whole / f"{side}.ids").read_bytes()[: 2 * about["tokens"][side]]
            for name, content in ((f"{side}.ids", ids), (f"{side}.offsets", offsets)):
                with (self.folder / name).open("ab") as file:
                    file.write(content[file.tell() :])
        (self.folder / "new").write_text(json.dumps(about))
        os.replace(self.folder / "new", self.folder / "pack.json")

    def start(self) -> None: ...

    def wait(self) -> None:
        with self.turn:  # several threads may wait
            self.looks += 1
            self.show(1 + self.looks // 3)

    def stop(self) -> None:
        self.stopped += 1


def stream(pack: Pack, workers: int = 0, **options: int) -> Batches:
    return Batches(pack, **{"batch_tokens": 300, "seed": 3, "window": 150, "workers": workers, **options})  # type: ignore[arg-type]


def taken(batches: Batches, count: int) -> tuple[list[Batch], list[dict[str, int]]]:
    found, cursors = [], [batches.cursor()]
    for batch in itertools.islice(batches, count):
        found.append(batch)
        cursors.append(batches.cursor())
    return found, cursors


@pytest.mark.parametrize("workers", [0, 2])
def test_a_growing_pack_gives_the_batches_of_a_whole_one(
    tmp_path: Path, subword: Subword, make_pairs: MakePairs, workers: int
) -> None:
    whole = pack(tmp_path / "whole", subword, iter(corpus(make_pairs)))
    wanted, cursors = taken(stream(whole), 300)
    assert cursors[-1]["epoch"] == 1
    growth, heard = Slowly(tmp_path / "whole", tmp_path / "growing"), []
    growing = Pack(tmp_path / "growing", growth, heard.append)
    assert not growing.whole and len(growing) < 400
    found, places = taken(stream(growing, workers), 300)
    assert all(map(same, wanted, found)) and places == cursors
    assert growth.stopped and heard == [growing]
    for place in (0, 1, 100, *random.Random(1).choices(range(280), k=4)):  # any place is found at once
        again = stream(Pack(tmp_path / "growing", Slowly(tmp_path / "whole", tmp_path / f"again-{place}")), workers)
        again.seek(cursors[place])
        assert all(map(same, wanted[place : place + 20], taken(again, 20)[0]))


def test_the_first_epoch_goes_from_part_to_part(tmp_path: Path, subword: Subword, make_pairs: MakePairs) -> None:
    whole = pack(tmp_path / "pack", subword, iter(corpus(make_pairs)))
    targets = [tuple(whole.pair(i)[1]) for i in range(len(whole))]
    lines = {target: i for i, target in enumerate(targets) if targets.count(target) == 1}
    batches, epochs = stream(whole), [[], []]  # type: ignore[var-annotated]
    for batch in batches:
        cursor = batches.cursor()
        ended = (cursor["window"], cursor["batch"]) == (0, 0)  # the cursor is that of the next batch
        found = [tuple(row[mask].tolist()[:-1]) for row, mask in zip(batch.target, batch.target_mask)]
        epochs[cursor["epoch"] - ended] += [lines[target] for target in found if target in lines]
        if cursor["epoch"] == 2:
            break
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(lines.values())
    part_of = [part.number for part in whole.parts() for _ in range(part.pairs)]
    in_order = [part_of[row] for row in epochs[0]]
    assert in_order == sorted(in_order) and len(set(in_order)) == 8
    assert len({part_of[row] for row in epochs[1][:150]}) == 8  # the second mixes them all
    assert epochs[0][:100] != sorted(epochs[0][:100])


def test_who_waits_is_let_go(tmp_path: Path, subword: Subword, make_pairs: MakePairs) -> None:
    """A part that never comes must not keep a finished run from ending."""
    pack(tmp_path / "whole", subword, iter(corpus(make_pairs)))
    growth = Slowly(tmp_path / "whole", tmp_path / "growing")
    stopped = threading.Event()

    def never() -> None:
        time.sleep(0.01)
        if stopped.is_set():
            raise RuntimeError("stopped")

    growth.wait, growth.stop = never, stopped.set  # type: ignore[method-assign]
    batches = iter(stream(Pack(tmp_path / "growing", growth), workers=1))
    for _ in range(3):
        next(batches)
    readers = [thread for thread in threading.enumerate() if thread.name.startswith("batches")]
    assert readers
    batches.close()  # type: ignore[attr-defined]
    for thread in readers:
        thread.join(5)
        assert not thread.is_alive()


# ------------------------------------------------------------------------------------------------ by another process


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory, make_pairs: MakePairs) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for side, ending in enumerate(("a", "b")):
        lines = [pair[side] for pair in make_pairs(17_000)]
        (folder / ending).write_text("\n".join(lines) + "\n")
    return folder


def recipe(texts: Path, *overrides: str, part: int = 500) -> Recipe:
    given = [
        f"data.source={texts / 'a'}",
        f"data.target={texts / 'b'}",
        f"data.part={part}",
        "data.hold_out_valid=30",
        "data.hold_out_test=20",
        "tokenizer.size=400",
        "tokenizer.kind=subword",
    ]
    return apply_overrides(Recipe(), [*given, *overrides])


def free(run: Path) -> bool:
    """Nobody packs there."""
    lock = hold(run / "pack.lock")
    if lock is None:
        return False
    lock.close()
    return True


def wait_until(there: Callable[[], Any], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_training_begins_with_the_first_part(tmp_path: Path, texts: Path, make_pairs: MakePairs) -> None:
    notes: list[str] = []
    tokenizer, growing, valid = prepare(recipe(texts), tmp_path / "run", {}, notes.append)
    assert not growing.whole and not free(tmp_path / "run")
    assert notes[-1].endswith("pairs to begin with; the rest of the corpus is read meanwhile")
    large = {"window": 500, "batch_tokens": 8000}
    found, cursors = taken(stream(growing, 1, **large), 200)
    assert growing.whole and cursors[-1]["epoch"] >= 1 and "of 17,000; dropped: held_out" in notes[-1]
    again, whole, valid_again = prepare(recipe(texts), tmp_path / "run", tokenizer.files())
    assert whole.whole and valid == valid_again and again.files() == tokenizer.files()
    assert all(map(same, found, taken(stream(whole, 0, **large), 200)[0]))

    sides = [(tmp_path / "run" / "held_out" / f"test.{side}").read_text().splitlines() for side in ("source", "target")]
    held = [*valid, *zip(*sides, strict=True)]
    assert len(held) == 50 and set(held) <= set(make_pairs(1000))  # of the beginning
    avoided = HeldOut(held)
    packed = [tuple(map(tokenizer.decode, whole.pair(i))) for i in range(len(whole))]
    assert not any(avoided.has(source, target) for source, target in packed)  # and never trained on
    expected = {pair for pair in make_pairs(17_000) if not avoided.has(*pair)}
    assert len(packed) > 0.9 * len(expected) and set(packed) <= expected

    packing.pack(Order.of(tmp_path / "here", recipe(texts).data, tokenizer, avoided, 500))  # in this process
    assert contents(tmp_path / "here") == contents(tmp_path / "run" / "pack")


def test_small_corpora_are_read_first(tmp_path: Path, texts: Path, subword: Subword) -> None:
    _, made, valid = prepare(recipe(texts, part=1063), tmp_path / "run", subword.files())  # 16 parts
    assert made.whole and len(list(made.parts())) == 1 and len(valid) == 30
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["held_out", "pack"]


SCRIPT = """
import hashlib, itertools, json, os, signal, sys
from pathlib import Path
from regard.config import recipe_from_toml
from regard.data.batching import Batches
from regard.data.corpus.preparing import prepare

run, cursor, count, kill = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "kill"
known = {"tokenizer.model": (run / "tokenizer.model").read_bytes()}
tokenizer, pack, _ = prepare(recipe_from_toml((run / "recipe.toml").read_text()), run, known)
stream = Batches(pack, batch_tokens=300, seed=3, window=150, workers=1)
stream.seek(cursor)
for batch in itertools.islice(stream, count):
    mark = hashlib.sha256(batch.source.numpy().tobytes() + batch.target.numpy().tobytes()).hexdigest()
    print(json.dumps([stream.cursor(), mark]), flush=True)
    if kill and stream.cursor()["batch"] == 3:
        print(json.dumps(pack.whole), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_while_packing_and_resumed(tmp_path: Path, texts: Path, subword: Subword, kills: int) -> None:
    data = recipe(texts).data
    held = held_out(data, tmp_path / "alone", print, 2 * data.part)[1]
    wanted, batches = [], stream(packing.pack(Order.of(tmp_path / "alone" / "pack", data, subword, held, data.part)))
    for batch in itertools.islice(batches, 300):
        mark = hashlib.sha256(batch.source.numpy().tobytes() + batch.target.numpy().tobytes()).hexdigest()
        wanted.append([batches.cursor(), mark])
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.toml").write_text(to_toml(recipe(texts)))
    (run / "tokenizer.model").write_bytes(subword.files()["tokenizer.model"])

    def go(cursor: dict[str, int], count: int, how: str) -> list[Any]:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, run, json.dumps(cursor), str(count), how],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert done.returncode == (-9 if how == "kill" else 0)
        return [json.loads(line) for line in done.stdout.splitlines()]

    found: list[Any] = []
    unfinished = 0
    for _ in range(kills):
        *some, whole = go(found[-1][0] if found else {"epoch": 0, "window": 0, "batch": 0}, 300, "kill")
        found += some
        unfinished += not whole
        wait_until(lambda: free(run), 5)  # the packer ends with its reader
    assert unfinished, "no kill came before the corpus was packed"
    found += go(found[-1][0], 300 - len(found), "end")
    assert found == wanted
    prepare(recipe(texts), run, subword.files())[1].everything()
    assert contents(run / "pack") == contents(tmp_path / "alone" / "pack")


def test_the_packer_stops_with_the_reading_and_goes_on_later(tmp_path: Path, texts: Path, subword: Subword) -> None:
    growing = prepare(recipe(texts), tmp_path / "run", subword.files())[1]
    packer = int((tmp_path / "run" / "pack.lock").read_text())
    batches = stream(growing, 1)
    found = taken(batches, 5)[0]
    assert not growing.whole and free(tmp_path / "run") and not psutil.pid_exists(packer)
    before = json.loads((tmp_path / "run" / "pack" / "pack.json").read_text())["read"]
    time.sleep(0.2)
    assert json.loads((tmp_path / "run" / "pack" / "pack.json").read_text())["read"] == before
    found += taken(batches, 295)[0]
    assert len(found) == 300 and all(map(same, found, taken(stream(growing), 300)[0]))


def test_two_readers_share_one_packer(tmp_path: Path, texts: Path, subword: Subword) -> None:
    first, second = (prepare(recipe(texts), tmp_path / "run", subword.files())[1] for _ in range(2))
    started = [pack._growth._process for pack in (first, second)]  # type: ignore[union-attr]
    assert started[1] is None and f"{started[0].pid}\n" == (tmp_path / "run" / "pack.lock").read_text()
    assert all(map(same, *(taken(stream(pack, 1), 100)[0] for pack in (second, first))))
    first.stop(), second.stop()


def test_a_failing_packer_ends_the_reading_with_its_words(tmp_path: Path, texts: Path, subword: Subword) -> None:
    lines = (texts / "a").read_bytes().splitlines()
    lines[12_345] = b"caf\xe9"
    (tmp_path / "a").write_bytes(b"\n".join(lines) + b"\n")
    (tmp_path / "b").write_bytes((texts / "b").read_bytes())
    growing = prepare(recipe(tmp_path), tmp_path / "run", subword.files())[1]
    with pytest.raises(UserError, match=r"a, line 12346: is not text in UTF-8 \(byte 4 is 0xe9\)") as caught:
        taken(stream(growing, 1, window=500, batch_tokens=8000), 10_000)
    assert "\n" not in str(caught.value)
    assert sum(part["pairs"] for part in growing.about["parts"]) > 11_000  # all that came before was given


def test_a_packer_that_is_killed_is_missed(tmp_path: Path, texts: Path, subword: Subword) -> None:
    growing = prepare(recipe(texts), tmp_path / "run", subword.files())[1]
    psutil.Process(int((tmp_path / "run" / "pack.lock").read_text())).kill()
    with pytest.raises(UserError, match="the process that tokenises the corpus ended with code -9"):
        taken(stream(growing, 1, window=500, batch_tokens=8000), 10_000)


def test_an_order_survives_its_journey(tmp_path: Path, texts: Path, subword: Subword) -> None:
    held = HeldOut([("a", "b"), ("c", "d")])
    order = Order.of(tmp_path / "pack", recipe(texts).data, subword, held, 7)
    again = Order.from_json(order.to_json())
    assert (again.folder, again.data, again.part) == (order.folder, order.data, 7)
    assert again.fingerprint == order.fingerprint and again.tokenizer.files() == subword.files()
    assert again.held_out.has("A", "x") and again.held_out.has("x", "D") and not again.held_out.has("b", "a")
    assert Order.of(tmp_path / "pack", order.data, subword, held, 8).fingerprint != order.fingerprint
