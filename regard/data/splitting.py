"""Splits a data set into disjoint training, validation and test examples."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard import part_settings, registry
from regard.config import Data
from regard.data.corpus.reading import check_file, split_column
from regard.data.format._base import Example, Format
from regard.errors import UserError
from regard.setting import declared


@dataclass
class Parts:
    train: list[Example] = field(default_factory=list)
    valid: list[Example] = field(default_factory=list)
    test: list[Example] = field(default_factory=list)


def read_parts(data: Data) -> Parts:
    """Reads the parts that the recipe names; missing ones are held out of the training examples, always the same ones.

    With `folds` (cross-validation), fold number `fold` is the test part.
    """
    check_folds(data)
    form = make_format(data)
    found = Parts(form.read(_files(data.train), "train"))
    if not found.train:
        raise UserError(f"data.train: no examples in {', '.join(data.train) or 'what the format makes'}")
    made = not data.train
    if data.valid or made:
        found.valid = form.read(_files(data.valid), "valid")
    if data.test or made:
        found.test = form.read(_files(data.test), "test")
    if data.folds:
        if data.folds > len(found.train):
            raise UserError(f"data.folds: {data.folds} folds of {len(found.train)} examples; use fewer folds")
        shuffled = _shuffled(len(found.train), 0)
        in_fold = np.zeros(len(shuffled), dtype=bool)
        in_fold[shuffled[data.fold :: data.folds]] = True
        found.test = [e for e, chosen in zip(found.train, in_fold) if chosen]
        found.train = [e for e, chosen in zip(found.train, in_fold) if not chosen]
    elif data.hold_out_test and not found.test:
        found.train, found.test = _held_out(found.train, data.hold_out_test, 1)
    count = data.hold_out_valid
    if count < 0:
        count = 0 if found.valid else min(1000, max(1, len(found.train) // 10))
    if count:
        found.train, held = _held_out(found.train, count, 2)
        found.valid += held
    return found


def check_parts(data: Data) -> None:
    """Refuses an unknown format and missing files, without reading data."""
    check_folds(data)
    format = make_format(data)
    if not data.train and format.sample() is not None:
        raise UserError(f"data.train: name the files to train on; {data.format['kind']} reads files")
    _files([*data.train, *data.valid, *data.test])


def check_folds(data: Data) -> None:
    if data.folds == 1:
        raise UserError("data.folds: one fold leaves nothing to train on; use 2 or more, or 0 for no cross-validation")
    if data.fold and data.fold >= data.folds:
        most = f"use 0 to {data.folds - 1}" if data.folds else "set data.folds to cross-validate"
        raise UserError(f"data.fold: no fold {data.fold} of {data.folds} folds; {most}")


def make_format(data: Data) -> Format:
    options = dict(data.format)
    kind = options.pop("kind", "")
    if not kind:
        kinds = ", ".join(kind for kind in registry.kinds("data/format") if not kind.startswith("made_"))
        raise UserError(f"data.format.kind: say which format the files have: {kinds}")
    known = registry.keywords(registry.factory("data/format", kind, "data.format.kind"))
    keys = declared(part_settings.Format)
    loose = {name: value for name, value in options.items() if name not in keys or len(keys[name].types) > 1}
    registry.check_types(loose, known, "data.format")  # `columns` is a number for one kind, a list for another
    return registry.create("data/format", kind, "data.format", **options)


def _files(names: list[str]) -> list[Path]:
    paths = [Path(name) for name in names]
    for path in paths:
        if not path.is_dir():
            check_file(split_column(path)[0])  # `pairs.tsv#2` is a column of a file
    return paths


def _held_out(examples: list[Example], count: int, seed: int) -> tuple[list[Example], list[Example]]:
    if count >= len(examples):
        raise UserError(f"data: {count} examples cannot be held out of {len(examples)}; hold out fewer")
    chosen = set(_shuffled(len(examples), seed)[:count].tolist())
    rest = [example for i, example in enumerate(examples) if i not in chosen]
    return rest, [example for i, example in enumerate(examples) if i in chosen]


def _shuffled(count: int, seed: int) -> np.ndarray:
    """A fixed seed, not the run's: runs with different seeds are compared on the same examples."""
    return np.random.default_rng([7, seed]).permutation(count)
