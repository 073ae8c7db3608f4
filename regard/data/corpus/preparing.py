"""From parallel text to what training reads: pairs are held out, a tokenizer is learnt, the corpus becomes numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from regard.config import Data, Recipe
from regard.data import tokenizer as tokenizers
from regard.data.corpus.filters import Filters
from regard.data.corpus.hold_out import HeldOut, choose
from regard.data.corpus.pack import Pack, fingerprint, open_pack, pack_pairs
from regard.data.corpus.reading import Pair, read_pairs
from regard.data.normalise import plain
from regard.data.splitting import make_format
from regard.data.tokenizer._base import Tokenizer
from regard.errors import UserError, suggestion
from regard.storage import write_file

Note = Callable[[str], None]


def prepare(
    recipe: Recipe, place: Path, known: Mapping[str, bytes], note: Note = lambda text: None
) -> tuple[Tokenizer, Pack, list[Pair]]:
    """The tokenizer (the `known` one, where there is one), the corpus as numbers and the pairs to validate on.

    The pack is made again only where what it was made of has changed.
    """
    valid, held = held_out(recipe.data, place, note)
    tokenizer = _tokenizer(recipe, held, known, note)
    data = recipe.data
    chosen = {
        name: getattr(data, name)
        for name in ("max_length", "max_ratio", "drop_duplicates", "drop_identical", "drop_wrong_script")
    }
    withheld = [data.hold_out, data.hold_out_valid, data.hold_out_test, data.plain_source, data.format]
    inputs = [*data.source, *data.target, *data.valid_source, *data.valid_target]
    mark = fingerprint(inputs, {**chosen, "withheld": withheld}, tokenizer.files())
    pack = open_pack(place / "pack", mark)
    if pack is None:
        tidy = plain if data.plain_source else str
        pack = pack_pairs(
            training_pairs(data),
            lambda texts: tokenizer.encode_many([tidy(text) for text in texts]),
            tokenizer.encode_many,
            place / "pack",
            vocabulary=len(tokenizer),
            filters=Filters(**chosen),
            held_out=held,
            fingerprint=mark,
            progress=_every(200_000, lambda lines: note(f"reading the corpus: {lines:,} lines")),
        )
    dropped = ", ".join(f"{name} {count:,}" for name, count in pack.dropped.items() if count) or "none"
    note(f"{len(pack):,} pairs to train on of {pack.about['read']:,}; dropped: {dropped}")
    return tokenizer, pack, valid


def training_pairs(data: Data) -> Iterator[Pair]:
    """Lines of two files, or what a format that makes its own pairs gives."""
    return _made(data, "train") if data.format else read_pairs(data.source, data.target)


def named_pairs(data: Data, part: str = "valid") -> list[Pair]:
    """The pairs to validate on that the recipe names; a format that makes its own has others to test on."""
    if data.format:
        return list(_made(data, part))
    return list(read_pairs(data.valid_source, data.valid_target)) if data.valid_source else []


def _made(data: Data, part: str) -> Iterator[Pair]:
    return iter([(example.input, example.target) for example in make_format(data).read([], part)])


def held_out(data: Data, place: Path, note: Note) -> tuple[list[Pair], HeldOut]:
    """The validation pairs, and all pairs (those for testing too) that training must avoid."""
    folder = place / "held_out"
    named = named_pairs(data)
    wanted = data.hold_out_valid if data.hold_out_valid >= 0 else 0 if named else 1000
    for path in data.hold_out:
        if path not in data.source:
            raise UserError(f"data.hold_out: {path} is not among data.source{suggestion(path, data.source)}")
    files = [
        (source, target)
        for source, target in zip(data.source, data.target or data.source)
        if source in data.hold_out or not data.hold_out
    ]
    valid, test = [], []
    if wanted or data.hold_out_test:
        pairs = training_pairs(data) if data.format else read_pairs(*map(list, zip(*files)))
        valid, test = choose(pairs, [wanted, data.hold_out_test])
        for name, some in (("valid", valid), ("test", test)):
            for side, ending in enumerate(("source", "target")):
                if some:
                    write_file(folder / f"{name}.{ending}", "".join(f"{pair[side]}\n" for pair in some).encode())
        note(f"held out: {len(valid):,} pairs to validate and {len(test):,} to test, in {folder}")
    return [*valid, *named], HeldOut([*valid, *test, *named])


def _tokenizer(recipe: Recipe, held: HeldOut, known: Mapping[str, bytes], note: Note) -> Tokenizer:
    if known:
        return tokenizers.from_files(known)
    note("learning the tokenizer from the training text")
    tidy = plain if recipe.data.plain_source else str

    def lines() -> Iterator[str]:
        for source, target in training_pairs(recipe.data):
            if not held.has(source, target):
                yield tidy(source)
                yield target

    return tokenizers.train(recipe.tokenizer, lines(), recipe.seed)


def _every(count: int, tell: Callable[[int], None]) -> Callable[[int], None]:
    """Tells a count of lines each time it passed another `count`."""
    told = 0

    def hear(lines: int) -> None:
        nonlocal told
        if lines // count > told:
            told = lines // count
            tell(lines)

    return hear
