"""Prepares parallel text for training: holds out pairs, trains the tokenizer, packs the corpus.

Of a large corpus, pairs are held out and the tokenizer is trained from the beginning only, and training starts while
the rest is still being packed.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

from regard.config import Data, Recipe
from regard.data import tokenizer as tokenizers
from regard.data.corpus.filters import longest_text
from regard.data.corpus.hold_out import HeldOut, choose
from regard.data.corpus.pack import Pack, open_pack
from regard.data.corpus.packing import Order, Packer, made_pairs, pack, training_pairs
from regard.data.corpus.reading import Pair, has_more_lines, raw_lines, read_pairs
from regard.data.corpus.shards import Shard, fetch, local_folder, shards_of
from regard.data.normalise import plain
from regard.data.tokenizer._base import Tokenizer
from regard.directions import Marks, direction, is_multilingual, marks
from regard.errors import UserError, suggestion
from regard.storage import write_file

Note = Callable[[str], None]

LARGE = 16
"""Parts above which a corpus is large."""
BEGINNING = 2
"""Parts of a large corpus that pairs are held out of and the tokenizer is trained on."""
SMALL_SHARD = 1 << 20
"""Bytes up to which a shard is tokenised in this process: starting another would take longer."""
SETS = ("valid", "test")
"""Held-out sets, each two files in RUN/held_out."""


def prepare(
    recipe: Recipe, place: Path, known: Mapping[str, bytes], note: Note = lambda text: None
) -> tuple[Tokenizer, Pack, list[Pair]]:
    """The tokenizer (`known`, if given), the packed corpus and the validation pairs.

    An existing pack is reused unless its inputs have changed.
    """
    data = recipe.data
    if data.part < 1:
        raise UserError(f"data.part must be at least 1, not {data.part}")
    large = not data.format and has_more_lines(data.source, LARGE * data.part)
    most = BEGINNING * data.part if large else None
    valid, held = held_out(data, place, note, most)
    tokenizer = _tokenizer(recipe, held, known, note, most)
    order = Order.of(place / "pack", data, tokenizer, held, data.part if large else 0, _marks(recipe, tokenizer))
    made = _growing(order, note) if large else open_pack(order.folder, order.fingerprint)
    made = made or pack(order, _every(200_000, lambda lines: note(f"reading the corpus: {lines:,} lines")))
    note(str(made) if made.whole else f"{len(made):,} pairs to begin with; the rest of the corpus is read meanwhile")
    return tokenizer, made, valid


def prepare_shards(
    recipe: Recipe, place: Path, known: Mapping[str, bytes], note: Note = lambda text: None
) -> tuple[Tokenizer, list[Shard], Callable[[Path, list[Path], threading.Event], Pack], list[Pair]]:
    """The tokenizer, the shards, what packs one that was fetched, and the validation pairs.

    Pairs are held out of the first shards and the tokenizer is trained on them, which takes as many as hold two parts.
    """
    data, shards = recipe.data, shards_of(recipe.data)
    named = bool(data.valid_source)
    wanted = data.hold_out_test or (data.hold_out_valid if data.hold_out_valid >= 0 else not named)
    most = BEGINNING * data.part
    beginning = local_folder()
    try:
        if not known or (wanted and not (place / "held_out").is_dir()):
            note("fetching the first shards")
            data = _beginning(data, shards, most, beginning)
        valid, held = held_out(data, place, note, most)
        tokenizer = _tokenizer(replace(recipe, data=data), held, known, note, most)
    finally:
        shutil.rmtree(beginning, ignore_errors=True)
    told = _marks(recipe, tokenizer)
    note(f"{len(shards):,} shards to train on; each process fetches its own")

    def read(folder: Path, files: list[Path], stopped: threading.Event) -> Pack:
        source, *target = map(str, files)
        local = replace(recipe.data, source=[source], target=target)
        order = Order.of(folder, local, tokenizer, held, data.part, told)
        if sum(file.stat().st_size for file in files) < SMALL_SHARD:
            return pack(order)
        packer = Packer(order)
        while (found := open_pack(order.folder, order.fingerprint, packer)) is None:
            if stopped.is_set():
                packer.stop()
            packer.wait()
        return found

    return tokenizer, shards, read, valid


def _beginning(data: Data, shards: list[Shard], most: int, folder: Path) -> Data:
    """The data with as many of the first shards, fetched, as have `most` lines."""
    sides: tuple[list[str], list[str]] = ([], [])
    lines = 0
    for number, shard in enumerate(shards):
        for side, url, name in zip(sides, shard, ("source", "target")):
            if url:
                (folder / f"{number}-{name}").mkdir()
                side.append(str(fetch(url, folder / f"{number}-{name}")))
        lines += sum(1 for _ in raw_lines(Path(sides[0][-1])))
        if lines >= most:
            break
    return replace(data, source=sides[0], target=sides[1])


def _marks(recipe: Recipe, tokenizer: Tokenizer) -> Marks:
    """What tells the model the direction of the training text: all of it is in one."""
    source, target = direction(recipe, recipe.source_language or None, recipe.target_language or None)
    if not source and is_multilingual(recipe):
        raise UserError("this model translates from several languages; say which the text is in, with --from")
    return marks(recipe, tokenizer, source, target)


def _growing(order: Order, note: Note) -> Pack:
    """The pack of a large corpus, as soon as it has pairs."""
    packer = Packer(order)
    while (found := open_pack(order.folder, order.fingerprint, packer, lambda whole: note(str(whole)))) is None:
        packer.wait()
    return found


def named_pairs(data: Data, part: str = "valid") -> list[Pair]:
    """The validation pairs that the recipe names; a format that makes its own also has test pairs."""
    if data.format:
        return list(made_pairs(data, part))
    return list(read_pairs(data.valid_source, data.valid_target, kept=True)) if data.valid_source else []


def held_out(data: Data, place: Path, note: Note, most: int | None = None) -> tuple[list[Pair], HeldOut]:
    """The validation pairs, and all pairs (test ones too) that training must avoid, from the first `most`.

    Sets that are already in the run's folder are kept: newly chosen pairs might have been trained on.
    """
    folder = place / "held_out"
    named = named_pairs(data)
    count = data.hold_out_valid if data.hold_out_valid >= 0 else 0 if named else 1000
    for path in data.hold_out:
        if path not in data.source:
            raise UserError(f"data.hold_out: {path} is not among data.source{suggestion(path, data.source)}")
    files = [
        (source, target)
        for source, target in zip(data.source, data.target or data.source)
        if source in data.hold_out or not data.hold_out
    ]
    valid, test = (_stored(folder, name) for name in SETS)
    if (count or data.hold_out_test) and not (valid or test):
        sources, targets = map(list, zip(*files)) if files else ([], [])
        pairs = training_pairs(data) if data.format else read_pairs(sources, targets, mixed=most is not None)
        valid, test = choose(islice(pairs, most), [count, data.hold_out_test], longest_text(data.max_length))
        for name, some in zip(SETS, (valid, test)):
            for side, file in enumerate(_files(folder, name)):
                if some:
                    write_file(file, "".join(f"{pair[side]}\n" for pair in some).encode())
    if count or data.hold_out_test:
        note(f"held out: {len(valid):,} pairs to validate and {len(test):,} to test, in {folder}")
    return [*valid, *named], HeldOut([*valid, *test, *named])


def forget_held_out(place: Path) -> None:
    """Removes the sets of a run that never started training, so that the next one chooses its own."""
    for name in SETS:
        for file in (place / "held_out").glob(f"{name}.*"):
            file.unlink(missing_ok=True)


def _files(folder: Path, name: str) -> list[Path]:
    return [folder / f"{name}.{side}" for side in ("source", "target")]


def _stored(folder: Path, name: str) -> list[Pair]:
    source, target = _files(folder, name)
    return list(read_pairs([source], [target])) if source.is_file() and target.is_file() else []


def _tokenizer(recipe: Recipe, held: HeldOut, known: Mapping[str, bytes], note: Note, most: int | None) -> Tokenizer:
    if known:
        return tokenizers.from_files(known)
    note("learning the tokenizer from the training text")
    longest = longest_text(recipe.data.max_length)
    first, second = (plain if wanted else str for wanted in (recipe.data.plain_source, recipe.data.plain_target))

    def lines() -> Iterator[str]:
        for source, target in islice(training_pairs(recipe.data, mixed=most is not None), most):
            if max(len(source), len(target)) <= longest and not held.has(source, target):
                yield first(source)
                yield second(target)

    return tokenizers.train(recipe.tokenizer, lines(), recipe.seed)


def _every(count: int, report: Callable[[int], None]) -> Callable[[int], None]:
    """Calls `report` each time the number of lines passes another multiple of `count`."""
    reported = 0

    def progress(lines: int) -> None:
        nonlocal reported
        if lines // count > reported:
            reported = lines // count
            report(lines)

    return progress
