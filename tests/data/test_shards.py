"""Text in shards at URLs: fetched piece by piece, dealt to the processes, the same batches however many there are."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from regard.config import Data, Recipe, apply_overrides, to_toml
from regard.data import shard_batches
from regard.data.batching import Batches
from regard.data.corpus import preparing, shards
from regard.data.corpus.hold_out import HeldOut
from regard.data.corpus.pack import Pack
from regard.data.corpus.packing import Order, pack
from regard.data.corpus.reading import Pair
from regard.data.corpus.shards import Shard, fetch, listed, shards_of, version
from regard.data.shard_batches import ShardBatches
from regard.data.tokenizer.subword import Subword
from regard.errors import UserError
from regard.runs import prepare, resolve, train
from regard.runs.preparation import data_files, join
from regard.training.ranks import Ranks
from regard.types import END, Batch

MakePairs = Callable[[int], list[Pair]]


class Unreliable(MemoryFileSystem):
    """Cuts connections: every third range comes short, every fourth not at all."""

    protocol = "unreliable"
    asked = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return MemoryFileSystem._strip_protocol(path.replace("unreliable:", "memory:"))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        Unreliable.asked += 1
        if Unreliable.asked % 4 == 0:
            raise ConnectionResetError("reset by peer")
        content: bytes = super().cat_file(path, start=start, end=end, **options)
        return content[:-1] if Unreliable.asked % 3 == 0 else content


fsspec.register_implementation("unreliable", Unreliable)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(shards, "PAUSE", 0.001)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    yield
    MemoryFileSystem.store.clear()


def test_cut_connections_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(256)) * 40
    MemoryFileSystem().pipe("/a/text.fr", content)
    monkeypatch.setattr(shards, "RANGE", 1000)
    before = Unreliable.asked
    assert fetch("unreliable://a/text.fr", tmp_path).read_bytes() == content
    assert Unreliable.asked - before > len(content) // 1000 + 1, "some were asked for again"
    assert (tmp_path / "text.fr").name == "text.fr"


def test_what_cannot_be_read_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MemoryFileSystem().pipe("/a/text.fr", b"line\n")
    monkeypatch.setattr(Unreliable, "cat_file", lambda *_, **__: (_ for _ in ()).throw(TimeoutError("too long\nmore")))
    with pytest.raises(
        UserError, match=r"^unreliable://a/text.fr: cannot be read after 6 tries \(TimeoutError: too long"
    ):
        fetch("unreliable://a/text.fr", tmp_path)
    with pytest.raises(UserError, match=r"^memory://a/none: cannot be read \(FileNotFoundError: .*\); check the URL"):
        fetch("memory://a/none", tmp_path)
    with pytest.raises(UserError, match="^nosuch://a: "):
        version("nosuch://a")
    with pytest.raises(UserError, match="nothing is at memory://b/"):
        listed(["memory://b/*.fr"])


def test_patterns_are_resolved_in_order_and_content_has_a_version() -> None:
    for number in (3, 1, 2):
        MemoryFileSystem().pipe(f"/a/{number}.fr", b"x" * number)
    assert listed(["memory://a/?.fr", "here/[1].fr"]) == [*(f"memory:///a/{n}.fr" for n in (1, 2, 3)), "here/[1].fr"]
    first = version("memory://a/1.fr")
    assert first[0] == 1 and first == version("memory://a/1.fr")
    MemoryFileSystem().pipe("/a/1.fr", b"y")
    assert version("memory://a/1.fr") != first


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (Data(source=["s3://a/1.fr", "2.fr"], target=["s3://a/1.en", "2.en"]), "2.fr is a local file"),
        (Data(source=["s3://a/1.fr"], target=["s3://a/1.en", "s3://a/2.en"]), "1 source shards but 2 target shards"),
        (Data(source=["s3://a/1.fr"], target=["s3://a/1.en"], valid_source=["s3://v.fr"]), "only data.source and"),
        (Data(source=["s3://a/1.fr"]), "1 source shards but 0"),
    ],
)
def test_what_cannot_be_a_shard_is_refused(data: Data, said: str) -> None:
    with pytest.raises(UserError, match=said):
        shards_of(data)
    assert shards_of(Data(source=["s3://a/1.tsv.gz"])) == [Shard("s3://a/1.tsv.gz", "")]


# ------------------------------------------------------------------------------------------------------------ batches


class Corpus:
    """Seven shards in memory, each with words of its own, packed in this process."""

    def __init__(self, tokenizer: Subword, pairs: list[Pair], count: int = 7) -> None:
        self.tokenizer, self.fetched = tokenizer, []
        self.shards = [Shard(f"memory://c/{n}.fr", f"memory://c/{n}.en") for n in range(count)]
        each = len(pairs) // count
        for number, shard in enumerate(self.shards):
            for side, url in enumerate(shard):
                text = "".join(f"{pair[side]}\n" for pair in pairs[number * each : (number + 1) * each])
                MemoryFileSystem().pipe(url.removeprefix("memory:/"), text.encode())

    def stream(self, rank: int = 0, of: int = 1, together: int = 3) -> ShardBatches:
        stream = ShardBatches(self.shards, self.read, self.make, seed=3)
        stream.share(rank, of, together)
        return stream

    def read(self, folder: Path, files: list[Path], stopped: threading.Event) -> Pack:
        self.fetched.append((files[0].name, len(list(folder.parent.parent.iterdir()))))
        data = Data(source=[str(files[0])], target=[str(files[1])], max_ratio=9)
        return pack(Order.of(folder, data, self.tokenizer, HeldOut([]), 0))

    def make(self, pack: Pack, seed: int, lanes: int) -> Batches:
        return Batches(pack, batch_tokens=200, seed=seed, window=30, workers=0)


@pytest.fixture
def some(subword: Subword, make_pairs: MakePairs) -> Corpus:
    return Corpus(subword, make_pairs(490))


def texts(batch: Batch) -> list[list[int]]:
    return [row[kept].tolist() for row, kept in zip(batch.target, batch.target_mask)]


def taken(stream: ShardBatches, count: int) -> list[list[list[int]]]:
    with closing(iter(stream)) as batches:
        return [texts(batch) for batch in islice(batches, count)]


def test_every_pair_comes_once_an_epoch(some: Corpus, tmp_path: Path) -> None:
    """One lane goes through all shards; each pair has come once before any comes again."""
    rows: list[str] = []
    with closing(iter(stream := some.stream(together=1))) as batches:
        while stream.cursor()["0.shard"] < 7:
            rows += map(str, texts(next(batches)))
    expected: Counter[str] = Counter()
    for number, shard in enumerate(some.shards):
        (place := tmp_path / str(number)).mkdir()
        packed = some.read(place / "packed" / "pack", [fetch(url, place) for url in shard], threading.Event())
        expected.update(str([*packed.pair(row)[1], END]) for row in range(len(packed)))
    assert Counter(rows) == expected and len(rows) > 400
    assert len({name for name, _ in some.fetched[:7]}) == 7
    assert max(folders for _, folders in some.fetched) <= 2, "the current shard and the next one"


@pytest.mark.parametrize("of", [2, 3])
def test_several_processes_together_get_what_one_gets(of: int, some: Corpus) -> None:
    one = taken(some.stream(), 60)
    ranks = [taken(some.stream(rank, of), 60) for rank in range(of)]
    for turn, batch in enumerate(one):
        owner = turn % 3 % of
        assert ranks[owner][turn] == batch
        assert not any(ranks[other][turn] for other in range(of) if other != owner)


def test_each_process_fetches_its_own_share(some: Corpus) -> None:
    taken(some.stream(1, 2, 3), 90)
    assert {name for name, _ in some.fetched} == {"1.fr", "4.fr"}, "lane 1 of 3 has shards 1 and 4 of 7"


@pytest.mark.parametrize("steps", [1, 12])
def test_another_number_of_processes_goes_on_at_the_merged_cursor(steps: int, some: Corpus) -> None:
    whole = taken(some.stream(), 3 * (steps + 8))
    cursor: dict[str, int] = {}
    for rank in range(2):
        stream = some.stream(rank, 2)
        taken(stream, 3 * steps)
        cursor |= stream.cursor()
    again = some.stream()
    again.seek(cursor)
    assert taken(again, 24) == whole[3 * steps :]
    with pytest.raises(UserError, match="training.accumulate was 3 .* not 4"):
        some.stream(together=4).seek(cursor)
    with pytest.raises(UserError, match="7 shards are fewer than the 8 batches of a step"):
        some.stream(together=8)


def test_nothing_is_left_and_what_a_killed_process_left_is_removed(some: Corpus, tmp_path: Path) -> None:
    place = tmp_path / "cache" / "shards"
    name = shard_batches.local_folder().name
    dead = place / name.replace(f".{name.split('.')[3]}.", ".999999999.")
    dead.mkdir()
    taken(some.stream(), 10)
    assert not dead.exists() and [path.name for path in place.iterdir()] == [name], "which is this process's"


def test_a_mistake_in_a_shard_names_its_url(some: Corpus) -> None:
    MemoryFileSystem().pipe("/c/2.en", b"one line\n")
    with pytest.raises(UserError, match=r"memory://c/2.fr has 70 lines but memory://c/2.en has 1;"):
        taken(some.stream(together=1), 400)


# ---------------------------------------------------------------------------------------------------------- whole runs


TINY = ["tokenizer.size=300", "model.width=16", "model.layers=1", "model.heads=2", "training.batch_tokens=300"]
SETTINGS = [
    "training.accumulate=2",
    "training.save_every=2",
    "data.hold_out_valid=3",
    "data.workers=0",
    "data.max_length=24",
]
URLS = ("memory://corpus/*.fr", "memory://corpus/*.en")


@pytest.fixture
def corpus(make_pairs: MakePairs) -> None:
    pairs = make_pairs(400)
    for number in range(4):
        for side, language in enumerate(("fr", "en")):
            lines = "".join(f"{pair[side]}\n" for pair in pairs[number * 100 : number * 100 + 100])
            MemoryFileSystem().pipe(f"/corpus/{number}.{language}", lines.encode())


def test_a_run_is_prepared_from_urls(corpus: None, tmp_path: Path) -> None:
    """Rank 0 learns the tokenizer and holds pairs out of the first shards; another rank takes both over."""
    recipe = resolve(apply_overrides(Recipe(), [*TINY, *SETTINGS]), *URLS)
    assert recipe.data.source == [f"memory:///corpus/{number}.fr" for number in range(4)]
    assert (recipe.source_language, recipe.target_language) == ("fr", "en"), "by the names"
    prepared = prepare(recipe, tmp_path)
    assert len(prepared.valid) == 3 and not list(tmp_path.glob("pack*")), "no copy of the corpus in the run's folder"
    _, other, *_ = join(Ranks(1, 2), to_toml(recipe), str(tmp_path), data_files(recipe))
    streams = prepared.stream, other.stream
    for rank, stream in enumerate(streams):
        stream.share(rank, 2, 2)
    (first, empty), (none, second) = (taken(stream, 2) for stream in streams)  # type: ignore[arg-type]
    assert first and second and not empty and not none
    assert prepare(recipe, tmp_path, resume=True).valid == prepared.valid
    MemoryFileSystem().pipe("/corpus/3.en", b"changed\n")
    with pytest.raises(UserError, match=r"memory:///corpus/3.en was changed \(.* 8 now\) since"):
        prepare(recipe, tmp_path, resume=True)


@pytest.mark.slow
@pytest.mark.parametrize("small", [1 << 20, 0])
def test_a_translator_is_trained_and_resumed(
    small: int, corpus: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards are tokenised in this process, and by others."""
    monkeypatch.setattr(preparing, "SMALL_SHARD", small)
    for folder, steps in (("one", 8), ("two", 4)):
        options: dict[str, Any] = {"steps": steps, "device": "cpu", "out": tmp_path / folder, "quiet": True}
        train(None, *TINY, *SETTINGS, source=URLS[0], target=URLS[1], **options)
    train(None, "training.steps=8", resume=tmp_path / "two", quiet=True)
    one, two = (next((tmp_path / name / "checkpoints").glob("step-00000008*")) for name in ("one", "two"))
    assert (one / "weights.safetensors").read_bytes() == (two / "weights.safetensors").read_bytes()
