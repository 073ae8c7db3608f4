"""Packs the entries of `[[data.pairs]]` into one pack whose description lists sections: an entry in one direction each.

An entry is read and filtered once. Each of its chunks is written forwards and then backwards, so a section is several
ranges of rows. Filters, and the usual scripts they learn, are those of one entry; duplicates are found across all.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import compress
from pathlib import Path
from typing import Any

from regard.config import Recipe
from regard.data.corpus.copies import Copies
from regard.data.corpus.entries import directions_of, read_entry, title, trained_directions, trains
from regard.data.corpus.filters import BloomFilter, Filters, new_pairs
from regard.data.corpus.hold_out import HeldOut
from regard.data.corpus.mixture import Mixture, Section
from regard.data.corpus.pack import Pack, Writer, chunks, empty_description, fingerprint, lengths_of
from regard.data.corpus.packing import filter_settings
from regard.data.corpus.reading import Pair
from regard.data.normalise import made_plain
from regard.data.tokenizer._base import Tokenizer
from regard.directions import Marks, marks
from regard.errors import UserError

LOUD = 0.05
"""The share of an entry's pairs from which on a filter that drops them is reported."""
Note = Callable[[str], None]
Ids = list[list[int]]


def entries_fingerprint(recipe: Recipe, tokenizer: Tokenizer) -> str:
    """A hash of all that the pack depends on; weights and temperature only decide what is drawn from it."""
    data = recipe.data
    entries = [{k: v for k, v in asdict(one).items() if k not in ("weight", "kind")} for one in data.pairs]
    inputs = [path for one in data.pairs for path in (*one.source, *one.target, *one.valid_source, *one.valid_target)]
    settings = filter_settings(data) | {
        "pairs": entries,
        "languages": asdict(recipe.languages),
        "withheld": [data.hold_out_valid, data.hold_out_test, data.plain_source, data.format],
        "copies": bool(data.copies),
    }
    settings |= {"plain_target": True} if data.plain_target else {}
    return fingerprint(inputs, settings, tokenizer.files())


def mixture_of(pack: Pack, recipe: Recipe) -> Mixture:
    """What an epoch draws from a pack of entries."""
    data = recipe.data
    sections = []
    for one in pack.about["sections"]:
        start, to = one["direction"]
        weight = data.pairs[one["entry"] - 1].weight if one["entry"] else 1.0
        ranges = [(first, count) for first, count in one["ranges"]]
        sections.append(Section((start, to), weight, ranges, copies=not one["entry"]))
    return Mixture(sections, data.temperature, recipe.seed, data.copies)


def pack_entries(
    recipe: Recipe,
    tokenizer: Tokenizer,
    held_out: HeldOut,
    folder: Path,
    fingerprint: str,
    note: Note,
    progress: Callable[[int], None],
) -> Pack:
    """Filters, tokenises and writes all entries; `progress` is called with the number of pairs read so far."""
    data = recipe.data
    vocabulary = max(len(tokenizer), len(tokenizer.target))
    about = empty_description(fingerprint, "<u2" if vocabulary <= 1 << 16 else "<u4")
    about["sections"], about["warnings"] = [], []
    seen = BloomFilter() if data.drop_duplicates else None
    copies: dict[frozenset[str], Copies] = {}
    total: dict[str, int] = {}
    read = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with Writer(folder, about) as writer:
            for number in range(1, len(data.pairs) + 1):
                if not trains(data, number):
                    continue
                entry = _EntryPacker(recipe, tokenizer, held_out, number, seen)
                if data.copies and not data.pairs[number - 1].tag:
                    entry.copies = copies.setdefault(frozenset(entry.directions[0]), Copies())
                for lines in chunks(read_entry(data, number), 0):
                    read += len(lines) * len(entry.directions)
                    entry.pack(lines, writer, about)
                    progress(read)
                for warning in entry.finish():
                    note(warning)
                    about["warnings"].append(warning)
                about["sections"] += entry.sections
                for reason, count in entry.dropped_in_all().items():
                    total[reason] = total.get(reason, 0) + count
            for direction in trained_directions(data) if copies else ():
                words = copies[frozenset(direction)].words() if frozenset(direction) in copies else []
                words = [word for word in words if not held_out.has(word, word)]
                if words:
                    section = _copies_section(recipe, tokenizer, direction, words, writer, about)
                    about["sections"].append(section)
                    read += len(words)
            writer.record(read, total, whole=True)
    except OSError as error:
        raise UserError(f"{folder}: the tokenised corpus cannot be written ({error}); check the disk") from None
    finally:
        if not about["read"]:
            shutil.rmtree(folder, ignore_errors=True)
    return Pack(folder)


class _EntryPacker:
    """Filters and writes the pairs of one entry."""

    def __init__(
        self, recipe: Recipe, tokenizer: Tokenizer, held_out: HeldOut, number: int, seen: BloomFilter | None
    ) -> None:
        self.data, self.tokenizer, self.held_out, self.number = recipe.data, tokenizer, held_out, number
        entry = recipe.data.pairs[number - 1]
        self.directions = directions_of(entry)
        self.told = [_marks(recipe, tokenizer, number, start, to, entry.tag) for start, to in self.directions]
        settings = filter_settings(recipe.data)
        is_new = new_pairs(seen, self.directions) if seen else None
        self.filters = Filters(**settings, is_new=is_new)
        # Lengths are another matter backwards: tags and apostrophes are those of the source.
        backwards = Filters(**settings | {"drop_duplicates": False})
        self.by_length = [self.filters, backwards]
        self.sections: list[dict[str, Any]] = [
            {"entry": number, "direction": list(direction), "ranges": []} for direction in self.directions
        ]
        self.read = self.withheld = 0
        self.copies: Copies | None = None

    def pack(self, lines: list[Pair], writer: Writer, about: dict[str, Any]) -> None:
        self.read += len(lines)
        lines = self.filters.by_size(lines)
        kept = [pair for pair in lines if not self.held_out.has(*pair)]
        self.withheld += len(lines) - len(kept)
        kept = self.filters.by_text(kept)
        if not kept:
            return
        if self.copies is not None:
            self.copies.see(kept)
        first, second = ([pair[side] for pair in kept] for side in (0, 1))
        targets = [self._target_ids(second)]
        sources = []
        if len(self.directions) > 1:
            targets.append(self._target_ids(first))
        for turn, texts in enumerate((first, second)[: len(self.directions)]):
            known = targets[1 - turn] if len(targets) > 1 else None
            sources.append(self._source_ids(texts, self.told[turn], known))
        for turn, section in enumerate(self.sections):
            told = self.told[turn]
            source = [[*told.before, *ids, *told.after] for ids in sources[turn]]
            target = [[*told.prefix, *ids] for ids in targets[turn]] if told.prefix else targets[turn]
            fits = self.by_length[turn].by_length(lengths_of(source), lengths_of(target), kept).tolist()
            before = about["pairs"]
            writer.write(list(compress(source, fits)), list(compress(target, fits)))
            _extend(section["ranges"], before, about["pairs"] - before)

    def _target_ids(self, texts: Sequence[str]) -> Ids:
        return self.tokenizer.target.encode_many(made_plain(texts, self.data.plain_target))

    def _source_ids(self, texts: Sequence[str], told: Marks, as_target: Ids | None) -> Ids:
        """The ids of texts as sources. Most are those of the same texts as targets, which need not be encoded again."""
        tidy = made_plain(texts, self.data.plain_source)
        if as_target is None or told.text_prefix or self.tokenizer.target is not self.tokenizer:
            return self.tokenizer.encode_many([told.text_prefix + text for text in tidy])
        encoded = made_plain(texts, self.data.plain_target)
        changed = [i for i, (text, one) in enumerate(zip(encoded, tidy)) if text != one]
        found = list(as_target)
        for i, ids in zip(changed, self.tokenizer.encode_many([tidy[i] for i in changed])):
            found[i] = ids
        return found

    def dropped(self) -> dict[str, int]:
        """By reason; a pair that is too long in both directions counts once."""
        lengths = {
            reason: max(one.dropped[reason] for one in self.by_length[: len(self.directions)])
            for reason in ("too_long", "ratio")
        }
        return {"held_out": self.withheld, **self.filters.dropped, **lengths}

    def dropped_in_all(self) -> dict[str, int]:
        """By reason, with each direction counted."""
        found = {reason: count * len(self.directions) for reason, count in self.dropped().items()}
        for reason in ("too_long", "ratio"):
            found[reason] = sum(one.dropped[reason] for one in self.by_length)
        return found

    def finish(self) -> list[str]:
        """Refuses an entry of which nothing is left; the warnings about filters that dropped much of it."""
        name, dropped = title(self.data, self.number), self.dropped()
        for section in self.sections:
            if not section["ranges"]:
                reasons = ", ".join(f"{reason} {count}" for reason, count in dropped.items() if count)
                raise UserError(
                    f"{name}: no pairs left to train on, of {self.read} read ({reasons}); loosen data.* or leave it out"
                )
        found = []
        for reason, count in dropped.items():
            if reason == "held_out" or count <= LOUD * self.read:
                continue
            example = next((one.examples[reason] for one in self.by_length if reason in one.examples), ("", ""))
            shown = " -> ".join(f"'{text if len(text) <= 60 else text[:57] + '...'}'" for text in example)
            found.append(
                f"warning: {name}: the filter {reason} dropped {count:,} of {self.read:,} pairs "
                f"({100 * count / self.read:.0f} %), such as {shown}"
            )
        return found


def _copies_section(
    recipe: Recipe,
    tokenizer: Tokenizer,
    direction: tuple[str, str],
    words: Sequence[str],
    writer: Writer,
    about: dict[str, Any],
) -> dict[str, Any]:
    """Writes words as pairs to copy; entry 0 says that no entry has them."""
    told = marks(recipe, tokenizer, *direction)
    encoded = tokenizer.encode_many([told.text_prefix + word for word in words])
    sources = [[*told.before, *ids, *told.after] for ids in encoded]
    targets = [[*told.prefix, *ids] for ids in tokenizer.target.encode_many(words)]
    first = about["pairs"]
    writer.write(sources, targets)
    return {"entry": 0, "direction": list(direction), "ranges": [[first, len(words)]]}


def _marks(recipe: Recipe, tokenizer: Tokenizer, number: int, start: str, to: str, tag: str) -> Marks:
    """What tells the model the direction of an entry's text, and the entry's own tag."""
    told = marks(recipe, tokenizer, start, to)
    if not tag:
        return told
    own = tokenizer.id_of(tag)
    if own is None:
        raise UserError(
            f"{title(recipe.data, number)}: the tokenizer has no token {tag}; train one with it in tokenizer.tags"
        )
    return Marks(told.text_prefix, (*told.before, own), told.after, told.prefix)


def _extend(ranges: list[list[int]], first: int, count: int) -> None:
    if ranges and sum(ranges[-1]) == first:
        ranges[-1][1] += count
    elif count:
        ranges.append([first, count])
