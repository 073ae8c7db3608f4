"""Which languages a translator translates from and to, and how the model is told which are meant.

A model with one direction states `source_language` and `target_language`; one with several has the section
`[languages]`, whose tags or prefixes say which direction is wanted.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.languages import internal, name
from regard.recipe import Recipe
from regard.special_tokens import END

if TYPE_CHECKING:
    from regard.data.tokenizer._base import Tokenizer

_LISTED = 12
"""Languages that a message lists; of more it names the nearest."""


@dataclass(frozen=True)
class Marks:
    """What is added to a text so that the model knows the direction."""

    text_prefix: str = ""
    """Put before the source text."""
    before: tuple[int, ...] = ()
    """Tokens before those of the source text."""
    after: tuple[int, ...] = ()
    """Tokens after them, END included; empty: the source ends with END as always."""
    prefix: tuple[int, ...] = ()
    """Tokens that the output is forced to begin with."""


NO_MARKS = Marks()


def directions(recipe: Recipe) -> list[tuple[str, str]]:
    """The pairs of source and target language, by our codes; empty for a model that does not state its languages."""
    return [(source, target) for source, targets in _targets_of(recipe).items() for target in targets]


def is_multilingual(recipe: Recipe) -> bool:
    """Whether there are several directions, so that a text alone does not say which is meant."""
    return sum(map(len, _targets_of(recipe).values())) > 1


def direction(recipe: Recipe, source: str | None = None, target: str | None = None) -> tuple[str, str]:
    """The direction that is meant. Fills in a language that can only be one, and leaves the source empty if it could be
    several (it is then detected).

    Refuses languages that the model does not have, and to translate without a target where there are several.
    """
    start, to = internal(source or ""), internal(target or "")
    targets_of, sources_of = _targets_of(recipe), _sources_of(recipe)
    if not targets_of:
        stated = [internal(recipe.source_language), internal(recipe.target_language)]
        for side, wanted, has in zip(("from", "to"), (start, to), stated):
            if wanted and has and wanted != has:
                raise UserError(f"this model does not translate {side} {_named(wanted)}{_has(wanted, [has], side)}")
        return start or stated[0], to or stated[1]
    if start and start not in targets_of:
        raise UserError(f"this model does not translate from {_named(start)}{_has(start, targets_of, 'from')}")
    if to and to not in sources_of:
        raise UserError(f"this model does not translate to {_named(to)}{_has(to, sources_of, 'to')}")
    targets = targets_of[start] if start else tuple(sources_of)
    if to and to not in targets:
        raise UserError(f"this model does not translate from {_named(start)} to {_named(to)}{_has(to, targets, 'to')}")
    if not to and len(targets) > 1:
        raise UserError(f"this model translates to several languages; say which, by target or --to: {_listed(targets)}")
    to = to or targets[0]
    sources = (start,) if start else sources_of[to]
    return sources[0] if len(sources) == 1 else "", to


def sources_for(recipe: Recipe, target: str) -> tuple[str, ...]:
    """The languages that the model translates to `target`."""
    return _sources_of(recipe).get(target, ())


_Graph = dict[str, tuple[str, ...]]


def _targets_of(recipe: Recipe) -> _Graph:
    return _graphs(*_key(recipe))[0]


def _sources_of(recipe: Recipe) -> _Graph:
    return _graphs(*_key(recipe))[1]


def _key(recipe: Recipe) -> tuple[tuple[str, ...], ...]:
    stated, one = recipe.languages, (recipe.source_language, recipe.target_language)
    return tuple(stated.source), tuple(stated.target), tuple(stated.prefixes), one


@lru_cache(maxsize=64)
def _graphs(source: tuple[str, ...], target: tuple[str, ...], prefixes: tuple[str, ...], one: tuple[str, ...]) -> Any:
    """The targets of each source, and the sources of each target: a model may have 40,000 directions."""
    if prefixes:
        pairs = sorted(set(filter(None, (_pair(key, source, target) for key in prefixes))))
    elif source and target:
        starts, ends = (list(dict.fromkeys(map(internal, codes))) for codes in (source, target))
        pairs = [(start, end) for start in starts for end in ends if start != end] or list(zip(starts, ends))
    else:
        pairs = [(internal(one[0]), internal(one[1]))] if all(one) else []
    found: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    for start, end in pairs:
        found[0].setdefault(start, []).append(end)
        found[1].setdefault(end, []).append(start)
    return tuple({code: tuple(others) for code, others in graph.items()} for graph in found)


def marks(recipe: Recipe, tokenizer: Tokenizer, source: str, target: str) -> Marks:
    """How this model is told a direction (as `direction` returns it, the source included)."""
    stated = recipe.languages
    tagged = (stated.source_tag, stated.target_tag) != ("none", "none")
    if not (tagged or stated.prefixes or stated.source_token or stated.output_token):
        return NO_MARKS
    before = [_token(tokenizer, stated.source_token)] if stated.source_token else []
    after: list[int] = []
    prefix = [_token(tokenizer.target, stated.output_token)] if stated.output_token else []
    if stated.target_tag == "source":
        before.append(_tag(recipe, tokenizer, target))
    elif stated.target_tag == "output":
        prefix.append(_tag(recipe, tokenizer.target, target))
    if stated.source_tag == "before":
        before.append(_tag(recipe, tokenizer, source))
    elif stated.source_tag == "after":
        after = [END, _tag(recipe, tokenizer, source)]
    known = _key(recipe)[:2]
    text = [str(value) for key, value in stated.prefixes.items() if _pair(key, *known) == (source, target)]
    return Marks("".join(text[:1]), tuple(before), tuple(after), tuple(prefix))


def with_end(ids: Sequence[int]) -> list[int]:
    """A source as the model reads it: closed by END, unless it contains END already, before a tag (`Marks.after`)."""
    return list(ids) if END in ids else [*ids, END]


def tag_of(recipe: Recipe, language: str) -> str:
    """The token that stands for a language; empty if there is none."""
    return next((str(tag) for code, tag in recipe.languages.tags.items() if internal(code) == language), "")


def _tag(recipe: Recipe, tokenizer: Tokenizer, language: str) -> int:
    spelled = tag_of(recipe, language)
    found = tokenizer.id_of(spelled) if spelled else None
    if found is None:
        what = f"no token {spelled!r}" if spelled else "no tag"
        raise UserError(
            f"this model has {what} for {_named(language)} (languages.tags); take another copy of the model"
        )
    return found


def _token(tokenizer: Tokenizer, spelled: str) -> int:
    found = tokenizer.id_of(spelled)
    if found is None:
        raise UserError(f"this model has no token {spelled!r} (languages); take another copy of the model")
    return found


def _pair(key: str, sources: tuple[str, ...], targets: tuple[str, ...]) -> tuple[str, str] | None:
    """The languages of a key such as en-de; a code may contain a hyphen itself."""
    words = key.split("-")
    stated = [set(map(internal, codes)) for codes in (sources, targets)]
    for at in range(1, len(words)):
        pair = internal("-".join(words[:at])), internal("-".join(words[at:]))
        if all(not known or one in known for one, known in zip(pair, stated)):
            return pair
    return None


def _named(code: str) -> str:
    known = name(code)
    return f"{code} ({known})" if known != code else f"'{code}'"


def _listed(codes: Iterable[str]) -> str:
    found = sorted(set(codes))
    if len(found) <= _LISTED:
        return ", ".join(map(_named, found))
    return ", ".join(map(_named, found[:_LISTED])) + f" and {len(found) - _LISTED} more"


def _has(wanted: str, known: Collection[str], side: str) -> str:
    """What the model has instead: all of few languages, or those with the nearest codes or names."""
    if len(set(known)) <= _LISTED:
        return f"; it translates {side} {_listed(known)}"
    by_name = {name(code).lower(): code for code in known}
    near = difflib.get_close_matches(wanted, sorted(set(known)), n=3, cutoff=0.6)
    near += [by_name[one] for one in difflib.get_close_matches(name(wanted).lower(), by_name, n=3, cutoff=0.6)]
    near += [code for code in known if code.split("-")[0] == wanted.split("-")[0]]
    near = list(dict.fromkeys(near))[:3]
    return f"; did you mean {' or '.join(map(_named, near))}?" if near else f"; it translates {side} {_listed(known)}"
