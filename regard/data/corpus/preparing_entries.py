"""Prepares the entries of `[[data.pairs]]` for training: held-out pairs, tokenizer, pack, and what is drawn from it."""

from __future__ import annotations

import random as python_random
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from regard.config import Data, Recipe
from regard.data import tokenizer as tokenizers
from regard.data.corpus.entries import (
    DirectedPair,
    directed,
    directions_of,
    named_valid,
    read_entry,
    trained_directions,
    trains,
)
from regard.data.corpus.filters import longest_text
from regard.data.corpus.hold_out import HeldOut, choose
from regard.data.corpus.mixture import Mixture
from regard.data.corpus.pack import Pack, open_pack
from regard.data.corpus.pack_entries import entries_fingerprint, mixture_of, pack_entries
from regard.data.corpus.reading import Pair, read_pairs
from regard.data.normalise import plain
from regard.data.tokenizer._base import Tokenizer
from regard.directions import directions
from regard.storage import write_file

Note = Callable[[str], None]
SETS = ("valid", "test")
USUAL = 1000
"""Pairs held out of an entry for validation, unless the recipe says how many."""


def prepare_entries(
    recipe: Recipe, place: Path, known: Mapping[str, bytes], note: Note = lambda text: None
) -> tuple[Tokenizer, Pack, Mixture, list[DirectedPair]]:
    """The tokenizer (`known`, if given), the pack of all entries, what is drawn from it, and the validation pairs.

    An existing pack is reused unless its inputs have changed.
    """
    valid, held = held_out(recipe.data, place, note)
    tokenizer = tokenizers.from_files(known) if known else _trained(recipe, held, note)
    mark = entries_fingerprint(recipe, tokenizer)
    pack = open_pack(place / "pack", mark)
    if pack is None:
        pack = pack_entries(recipe, tokenizer, held, place / "pack", mark, note, _every(200_000, note))
    else:
        for warning in pack.about["warnings"]:
            note(warning)
    note(str(pack))
    mixture = mixture_of(pack, recipe)
    shares = ", ".join(f"{start}-{to} {100 * share:.1f} %" for (start, to), share in mixture.shares().items())
    note(f"an epoch draws {len(mixture):,} pairs: {shares}")
    _note_untrained(recipe, note)
    return tokenizer, pack, mixture, limited(valid, recipe.data.valid_limit)


def limited(valid: list[DirectedPair], most: int) -> list[DirectedPair]:
    """At most so many pairs of each direction: as many of each kind of text, if there are, spread evenly over it."""
    of: dict[tuple[str, str], dict[str, list[DirectedPair]]] = {}
    for pair in valid:
        of.setdefault((pair.start, pair.to), {}).setdefault(pair.kind, []).append(pair)
    found: list[DirectedPair] = []
    for kinds in of.values():
        left = most
        for number, pairs in enumerate(sorted(kinds.values(), key=len)):
            share = min(len(pairs), left // (len(kinds) - number))
            left -= share
            found += [pairs[i * len(pairs) // share] for i in range(share)]
    return found


def _note_untrained(recipe: Recipe, note: Note) -> None:
    """Says which directions the model will offer without having seen text in them."""
    trained = set(trained_directions(recipe.data))
    without = [f"{start}-{to}" for start, to in directions(recipe) if (start, to) not in trained]
    if without and len(without) <= 50:
        note(f"no pairs for {', '.join(without)}: the model is not trained in these directions, and may fail in them")


def held_out(data: Data, place: Path, note: Note) -> tuple[list[DirectedPair], HeldOut]:
    """The validation pairs, and all texts (of test pairs too) that training must avoid, in whatever entry they are.

    Sets that are already in the run's folder are kept: newly chosen pairs might have been trained on.
    """
    chosen: list[tuple[int, list[Pair], list[Pair]]] = []
    for number in range(1, len(data.pairs) + 1):
        valid, test = (_stored(place, data, number, name) for name in SETS)
        if trains(data, number) and not (valid or test) and any(counts := _counts(data, number)):
            pairs = read_entry(data, number)
            valid, test = choose(pairs, counts, longest_text(data.max_length))
        chosen.append((number, valid, test))
    validated = HeldOut(pair for _, valid, _ in chosen for pair in valid)
    either = validated.sources | validated.targets
    validated = HeldOut.of_hashes(either, either)
    held: list[Pair] = []
    found: list[DirectedPair] = []
    for number, valid, test in chosen:
        test = [pair for pair in test if not validated.has(*pair)]  # entries may share sentences
        for name, some in zip(SETS, (valid, test)):
            for side, file in enumerate(_files(place, data, number, name)):
                if some and not file.is_file():
                    write_file(file, "".join(f"{pair[side]}\n" for pair in some).encode())
        named = named_valid(data, number)
        held += [*valid, *test, *named]
        found += directed(data, number, [*valid, *named])
        if trains(data, number) and not data.pairs[number - 1].source:
            held += named_valid(data, number, "test")
    counted = sum(len(valid) for _, valid, _ in chosen), sum(len(test) for _, _, test in chosen)
    if any(counted):
        note(f"held out: {counted[0]:,} pairs to validate and {counted[1]:,} to test, in {place / 'held_out'}")
    texts = HeldOut(held)
    either = texts.sources | texts.targets
    return found, HeldOut.of_hashes(either, either)


def _counts(data: Data, number: int) -> list[int]:
    """Pairs of an entry that are held out for validation and for testing."""
    entry = data.pairs[number - 1]
    usual = 0 if entry.valid_source or not entry.source else USUAL
    of_data = data.hold_out_valid if data.hold_out_valid >= 0 else usual
    valid = entry.hold_out_valid if entry.hold_out_valid >= 0 else of_data
    return [valid, entry.hold_out_test if entry.hold_out_test >= 0 else data.hold_out_test]


def _files(place: Path, data: Data, number: int, name: str) -> list[Path]:
    start, to = directions_of(data.pairs[number - 1])[0]
    return [place / "held_out" / f"{name}.{number}.{start}-{to}.{side}" for side in ("source", "target")]


def _stored(place: Path, data: Data, number: int, name: str) -> list[Pair]:
    source, target = _files(place, data, number, name)
    return list(read_pairs([source], [target])) if source.is_file() and target.is_file() else []


def _trained(recipe: Recipe, held: HeldOut, note: Note) -> Tokenizer:
    """The tokenizer, learnt from as much text of each language as there is in all."""
    note("learning the tokenizer from the training text, as much of each language as of the others")
    count = int(recipe.tokenizer.get("sample_lines", 200_000))
    return tokenizers.train(recipe.tokenizer, balanced(_texts(recipe.data, held), count, recipe.seed), recipe.seed)


def _texts(data: Data, held: HeldOut) -> Iterator[tuple[str, str]]:
    """The language and text of each side of every pair."""
    longest = longest_text(data.max_length)
    for number, entry in enumerate(data.pairs, 1):
        start, to = directions_of(entry)[0]
        if not trains(data, number):
            continue
        for i, (source, target) in enumerate(read_entry(data, number)):
            if max(len(source), len(target)) > longest or held.has(source, target):
                continue
            # Text that serves on both sides is read in both forms.
            first = data.plain_source if not entry.both or i % 2 == 0 else data.plain_target
            second = first if entry.both else data.plain_target
            yield start, plain(source) if first else source
            yield to, plain(target) if second else target


def balanced(texts: Iterable[tuple[str, str]], count: int, seed: int) -> list[str]:
    """A sample of `count` texts with equally many of each language; one that has fewer gives all, the others more.

    At most `count` texts of each language are in memory.
    """
    random = python_random.Random(seed)
    kept: dict[str, list[str]] = {}
    seen: dict[str, int] = {}
    for language, text in texts:
        sample = kept.setdefault(language, [])
        seen[language] = seen.get(language, 0) + 1
        if len(sample) < count:
            sample.append(text)
        elif (place := random.randrange(seen[language])) < len(sample):
            sample[place] = text
    found: list[str] = []
    left = sorted(kept.items(), key=lambda item: (len(item[1]), item[0]))
    for number, (_, sample) in enumerate(left):
        share = (count - len(found)) // (len(left) - number)
        found += sample if len(sample) <= share else random.sample(sample, share)
    return found


def _every(count: int, note: Note) -> Callable[[int], None]:
    reported = 0

    def progress(pairs: int) -> None:
        nonlocal reported
        if pairs // count > reported:
            reported = pairs // count
            note(f"reading the corpus: {pairs:,} pairs")

    return progress
