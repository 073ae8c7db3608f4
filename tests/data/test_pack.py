from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data.corpus.filters import Filters
from regard.data.corpus.hold_out import HeldOut
from regard.data.corpus.pack import Pack, fingerprint, open_pack, pack_pairs
from regard.data.corpus.reading import Pair
from regard.data.tokenizer.subword import Subword
from regard.errors import UserError

MakePairs = Callable[[int], list[Pair]]


def pack(folder: Path, tokenizer: Subword, pairs: list[Pair] | Iterator[Pair], **options: Any) -> Pack:
    return pack_pairs(
        pairs, tokenizer.encode_many, tokenizer.encode_many, folder, **{"vocabulary": len(tokenizer), **options}
    )


@pytest.mark.parametrize("vocabulary", [2**16, 2**16 + 1])
def test_what_goes_in_comes_out(tmp_path: Path, subword: Subword, make_pairs: MakePairs, vocabulary: int) -> None:
    pairs = list(dict.fromkeys(make_pairs(17_000)))  # more than one chunk
    heard: list[int] = []
    options = {"vocabulary": vocabulary, "progress": heard.append, "filters": Filters(max_ratio=99)}
    made = pack(tmp_path / "a" / "pack", subword, iter(pairs), **options)
    again = open_pack(tmp_path / "a" / "pack", "")
    assert again is not None and len(made) == len(again) == len(pairs)
    assert heard[-1] == len(pairs) and heard == sorted(heard) and len(heard) > 1
    indexes = np.array([0, 7, len(pairs) - 1, 16383, 16384, 7])
    ids, lengths = again.source.gather(indexes)
    expected = [subword.encode(pairs[i][0]) for i in indexes]
    assert ids.tolist() == sum(expected, []) and lengths.tolist() == [len(e) for e in expected]
    for i in indexes.tolist():
        assert again.pair(i) == tuple(subword.encode(side) for side in pairs[i])
    every = subword.encode_many([target for _, target in pairs])
    assert again.lengths(np.arange(len(pairs)))[1].tolist() == [len(e) for e in every]
    assert again.about["tokens"]["target"] == sum(map(len, every))
    assert again.longest()[1] == max(map(len, every))
    again.release()
    assert again.pair(7) == made.pair(7)
    assert os.listdir(tmp_path / "a") == ["pack"]


def test_filters_and_held_out_pairs_are_counted(tmp_path: Path, subword: Subword, make_pairs: MakePairs) -> None:
    pairs = list(dict.fromkeys(make_pairs(300)))
    held = HeldOut(pairs[:5])
    expected = [pair for pair in pairs if not held.has(*pair)]
    rubbish = [("", "x"), (pairs[9][0] + " ", pairs[9][1]), ("lé " * 300, "mi " * 300), ("ba " * 100, "do")]
    made = pack(tmp_path / "pack", subword, [*pairs, *rubbish], held_out=held, filters=Filters(max_ratio=30))
    assert {name: count for name, count in made.dropped.items() if count} == {
        "held_out": len(pairs) - len(expected),
        "empty": 1,
        "duplicate": 1,
        "too_long": 1,
        "ratio": 1,
    }
    assert len(made) == len(expected) and made.about["read"] == len(pairs) + 4


def test_nothing_left(tmp_path: Path, subword: Subword) -> None:
    with pytest.raises(UserError, match=r"no pairs left to train on, of 2 read \(empty 2\)"):
        pack(tmp_path / "pack", subword, [("", "x")] * 2)
    assert os.listdir(tmp_path) == []


def test_an_interrupted_pack_leaves_nothing_that_looks_whole(
    tmp_path: Path, subword: Subword, make_pairs: MakePairs
) -> None:
    pairs = make_pairs(100)
    pack(tmp_path / "pack", subword, pairs, fingerprint="old")

    def interrupted() -> Iterator[Pair]:
        yield from make_pairs(17_000)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(tmp_path / "pack", subword, interrupted(), fingerprint="new")
    assert os.listdir(tmp_path) == []
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "source.ids").write_bytes(b"left by a kill")
    assert open_pack(tmp_path / "pack", "new") is None
    made = pack(tmp_path / "pack", subword, pairs, fingerprint="new")
    assert [made.pair(i)[0] for i in range(3)] == subword.encode_many([source for source, _ in pairs[:3]])
    assert open_pack(tmp_path / "pack", "new") is not None


@pytest.mark.parametrize("damage", ["cut", "missing", "json", "version", "folder"])
def test_a_damaged_pack_is_not_opened(tmp_path: Path, subword: Subword, make_pairs: MakePairs, damage: str) -> None:
    folder = tmp_path / "pack"
    pack(folder, subword, make_pairs(50), fingerprint="f")
    if damage == "cut":
        (folder / "source.ids").write_bytes((folder / "source.ids").read_bytes()[:-2])
    elif damage == "missing":
        (folder / "target.offsets").unlink()
    elif damage == "json":
        (folder / "pack.json").write_text("{")
    elif damage == "version":
        about = json.loads((folder / "pack.json").read_text())
        (folder / "pack.json").write_text(json.dumps({**about, "version": 99}))
    else:
        shutil.rmtree(folder)
    assert open_pack(folder, "f") is None


def test_fingerprint(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("x\ty\n")
    base = fingerprint([file, f"{file}#2"], {"max_length": 128}, {"tokenizer.model": b"1"})
    assert base == fingerprint([file, f"{file}#2"], {"max_length": 128}, {"tokenizer.model": b"1"})
    others = [
        fingerprint([file], {"max_length": 128}, {"tokenizer.model": b"1"}),
        fingerprint([file, f"{file}#2"], {"max_length": 64}, {"tokenizer.model": b"1"}),
        fingerprint([file, f"{file}#2"], {"max_length": 128}, {"tokenizer.model": b"2"}),
    ]
    os.utime(file, ns=(0, 10**18))
    others.append(fingerprint([file, f"{file}#2"], {"max_length": 128}, {"tokenizer.model": b"1"}))
    file.write_text("x\ty\nmore\tmore\n")
    os.utime(file, ns=(0, 10**18))
    others.append(fingerprint([file, f"{file}#2"], {"max_length": 128}, {"tokenizer.model": b"1"}))
    assert len({base, *others}) == 6


def test_a_disk_that_refuses(tmp_path: Path, subword: Subword, make_pairs: MakePairs) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="cannot be written"):
        pack(tmp_path / "file" / "pack", subword, make_pairs(10))


MEMORY = """
import itertools, sys, psutil
from pathlib import Path
from regard.data.batching import Batches
from regard.data.corpus.pack import pack_pairs
from regard.data.tokenizer.word import Word

count, folder, part = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
words = [f"w{i}" for i in range(2000)]
tokenizer = Word.train([" ".join(words)], seed=0)

def pairs():
    for i in range(count):
        numbers = [i % 2000, i * 7919 % 2000, i // 2000 % 2000, i // 4_000_000]
        line = " ".join(words[n] for n in numbers * 2)
        yield line, line + " " + words[i % 13]

peaks = []
def watch(lines):
    memory = psutil.Process().memory_info()
    peaks.append((lines, memory.rss - getattr(memory, "shared", 0), memory.rss))

encode = tokenizer.encode_many
pack = pack_pairs(pairs(), encode, encode, folder, vocabulary=len(tokenizer), progress=watch, part=part)
assert len(pack) > 0.999 * count, pack.dropped
stream = Batches(pack, batch_tokens=4096, seed=1, window=20000)
for number, batch in enumerate(itertools.islice(stream, count // 400 + 1)):
    if number % 100 == 0:
        watch(count)
for kind in (1, 2):
    early = max(peak[kind] for peak in peaks if peak[0] <= max(0.2 * count, 20000))
    print(max(peak[kind] for peak in peaks) - early)
"""


@pytest.mark.parametrize("part", [0, 16384])
@pytest.mark.parametrize(
    "count", [60_000, pytest.param(10_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, count: int, part: int) -> None:
    given = [str(count), str(tmp_path / "pack"), str(part)]
    answer = subprocess.run([sys.executable, "-c", MEMORY, *given], capture_output=True, text=True, check=True)
    own, resident = map(int, answer.stdout.split())
    # Resident memory also counts the pages of the pack that the system happens to keep mapped; it takes them back at will.
    assert own < 60e6 and resident < 300e6, f"grew by {own / 1e6:.0f} MB, with mapped files {resident / 1e6:.0f} MB"
