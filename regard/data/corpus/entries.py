"""The entries of `[[data.pairs]]`: parallel text between several languages, one entry per corpus."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import compress
from typing import NamedTuple

from regard import registry
from regard.config import Data, Pairs, Recipe
from regard.data.corpus.reading import Pair, raw_lines, read_lines, read_pairs, split_column
from regard.data.format._languages import MadeInLanguages
from regard.data.splitting import make_format
from regard.directions import direction, is_multilingual
from regard.errors import UserError
from regard.languages import code_of, internal, is_code

Direction = tuple[str, str]
"""The codes of source and target language."""


class DirectedPair(NamedTuple):
    """A pair with its direction and the kind of its text."""

    source: str
    target: str
    start: str
    to: str
    kind: str = ""


def title(data: Data, number: int) -> str:
    """The name of entry `number` (from 1) in messages."""
    entry = data.pairs[number - 1]
    return f"data.pairs.{number} ({', '.join(filter(None, (f'{entry.from_}-{entry.to}', entry.kind)))})"


def directions_of(entry: Pairs) -> list[Direction]:
    """The directions that an entry is text for."""
    forth = internal(entry.from_), internal(entry.to)
    return [forth, forth[::-1]] if entry.both else [forth]


def all_directions(data: Data) -> list[Direction]:
    """The directions of all entries, each once, in the order of the entries."""
    return list(dict.fromkeys(one for entry in data.pairs for one in directions_of(entry)))


def kinds_of(data: Data) -> list[str]:
    return list(dict.fromkeys(entry.kind for entry in data.pairs if entry.kind))


def trains(data: Data, number: int) -> bool:
    """Whether an entry has text to train on; others are validated on alone."""
    entry = data.pairs[number - 1]
    return bool(entry.source or not entry.valid_source)


def trained_directions(data: Data) -> list[Direction]:
    """The directions that some text is trained in."""
    numbers = (number for number in range(1, len(data.pairs) + 1) if trains(data, number))
    return list(dict.fromkeys(one for number in numbers for one in directions_of(data.pairs[number - 1])))


def named_valid(data: Data, number: int, part: str = "valid") -> list[Pair]:
    """The validation pairs that an entry names; a format that makes its own also has test pairs."""
    entry = data.pairs[number - 1]
    if not entry.source and not entry.valid_source:
        return list(read_entry(data, number, part))
    return list(read_pairs(entry.valid_source, entry.valid_target, kept=True)) if entry.valid_source else []


def directed(data: Data, number: int, pairs: list[Pair]) -> list[DirectedPair]:
    """The pairs of an entry in each of its directions."""
    entry = data.pairs[number - 1]
    found: list[DirectedPair] = []
    for turn, (start, to) in enumerate(directions_of(entry)):
        found += [DirectedPair(*(pair[::-1] if turn else pair), start, to, entry.kind) for pair in pairs]
    return found


def read_entry(data: Data, number: int, part: str = "train") -> Iterator[Pair]:
    """The pairs of an entry, at most `most`, spread evenly; of a format that makes its own, those of a part."""
    entry = data.pairs[number - 1]
    pairs: Iterator[Pair]
    if entry.source and entry.without:
        pairs = compress(read_pairs(entry.source, entry.target), _wanted(entry))
        count = sum(_wanted(entry)) if entry.most else 0
    elif entry.source:
        pairs = read_pairs(entry.source, entry.target)
        count = sum(1 for path in entry.source for _ in raw_lines(split_column(path)[0])) if entry.most else 0
    else:
        made = _format(data, number).between(internal(entry.from_), internal(entry.to), part)
        pairs, count = iter(made), len(made)
    if not entry.most or entry.most >= count:
        return pairs
    # Of n lines the i-th is taken where i * most / n reaches the next whole number.
    return compress(pairs, ((i + 1) * entry.most // count > i * entry.most // count for i in range(count)))


def _wanted(entry: Pairs) -> Iterator[bool]:
    """Which lines have no word of `without` in their third column."""
    without = set(entry.without)
    for path in entry.source:
        yield from (origin not in without for origin in read_lines(f"{split_column(path)[0]}#3"))


def _format(data: Data, number: int) -> MadeInLanguages:
    format = make_format(data) if data.format else None
    if not isinstance(format, MadeInLanguages):
        raise UserError(f"{title(data, number)}: names no text; give its files as source and target")
    return format


def check_entries(data: Data) -> None:
    """Refuses entries that cannot be read, in one line each."""
    for number, entry in enumerate(data.pairs, 1):
        for key, code in (("from", entry.from_), ("to", entry.to)):
            if not code:
                raise UserError(f"data.pairs.{number}.{key}: say which language it is, such as fr")
            if not is_code(internal(code)):
                better = code_of(code) or "one such as fr"
                raise UserError(f"data.pairs.{number}.{key}: '{code}' is no language code; write {better}")
        if internal(entry.from_) == internal(entry.to):
            raise UserError(f"data.pairs.{number}: from and to are both {entry.from_}; name two languages")
        if entry.kind and not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", entry.kind):
            raise UserError(
                f"data.pairs.{number}.kind: '{entry.kind}' is no name; write small letters, digits and _, such as talk"
            )
        if not entry.source:
            if entry.target or (entry.valid_target and not entry.valid_source):
                raise UserError(f"{title(data, number)}: names no source; give its files as source and target")
            if trains(data, number):
                _format(data, number)
        try:
            if entry.source:
                read_pairs(entry.source, entry.target)
            if entry.valid_source or entry.valid_target:
                read_pairs(entry.valid_source, entry.valid_target)
        except UserError as error:
            raise UserError(f"{title(data, number)}: {str(error).removeprefix('data: ')}") from None

    if not trained_directions(data):
        raise UserError("data.pairs: no entry names text to train on; give one source and target")


def with_stated_languages(recipe: Recipe) -> Recipe:
    """The recipe with the languages of its entries and with tags that say which language to translate to.

    A model that training starts from has its own; entries in other directions than its own are refused.
    """
    every = all_directions(recipe.data)
    extra = list(dict.fromkeys(entry.tag for entry in recipe.data.pairs if entry.tag))
    known = recipe.training.start_from
    stated = recipe.languages
    if not known:
        stated = replace(
            stated,
            source=stated.source or list(dict.fromkeys(start for start, _ in every)),
            target=stated.target or list(dict.fromkeys(to for _, to in every)),
        )
        if len(set(map(internal, stated.target))) > 1 and stated.target_tag == "none" and not stated.prefixes:
            stated = replace(stated, target_tag="source")
        tagged = [*(stated.target if stated.target_tag != "none" else [])]
        tagged += stated.source if stated.source_tag != "none" else []
        have = set(map(internal, stated.tags))
        tags = {code: f">>{code}<<" for code in map(internal, tagged) if code not in have}
        stated = replace(stated, tags={**stated.tags, **tags})
        tokenizer = _with_tags(recipe, [*map(str, stated.tags.values()), *extra])
        recipe = replace(recipe, languages=stated, tokenizer=tokenizer)
    elif len(every) > 1 and not is_multilingual(recipe):
        raise UserError(f"data.pairs: {known} translates in one direction; train a new model for several")
    for number, entry in enumerate(recipe.data.pairs, 1):
        try:
            for start, to in directions_of(entry):
                direction(recipe, start, to)
        except UserError as error:
            raise UserError(f"{title(recipe.data, number)}: {error}") from None
    return recipe


def _with_tags(recipe: Recipe, tags: list[str]) -> dict[str, object]:
    """The tokenizer section with tokens for tags."""
    if not tags or recipe.tokenizer.get("path"):
        return recipe.tokenizer
    kind = str(recipe.tokenizer.get("kind", "subword"))
    if "tags" not in registry.keywords(registry.factory("data/tokenizer", kind, "tokenizer.kind").train):  # type: ignore[attr-defined]
        raise UserError(f"tokenizer.kind: {kind} has no tokens for tags, which data.pairs needs; use subword")
    return {**recipe.tokenizer, "tags": list(dict.fromkeys([*recipe.tokenizer.get("tags", ()), *tags]))}
