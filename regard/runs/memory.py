"""Fine-tunes a translator on few corrections (`regard train --start MODEL --memory FILE`) and checks what that did.

A model that is trained on a few sentences alone forgets others. So half of what it reads are sentences of any text of
the user's, with the translations that the model itself gives them before the training (or with those of a second
file). The other half of this text is held out: afterwards it tells whether the rest got worse.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.config import Recipe
from regard.data.corpus.reading import Pair, check_file, read_lines, read_pairs
from regard.directions import is_multilingual
from regard.engines import load_with
from regard.errors import UserError
from regard.evaluation.translation import corpus_scores
from regard.find_model import find_model, read_recipe_of
from regard.languages import internal, public
from regard.runs.training_run import Run, new_folder, train
from regard.storage import read_folder, write_file
from regard.suggestions import Suggestion, Suggestions, is_database

MOST_PAIRS = 100_000
"""Of a memory. More is a corpus: --source and --target."""
MOST_SENTENCES = 1000
"""Of the other text: translating them takes a minute at most on a CPU."""
PASSES, LEAST_STEPS = 6, 60
"""Passes over the corrections and as many other pairs; and steps, if there are few."""
BATCH_TOKENS = 1024
WORSE_BY, UNLIKE = 1.0, 90.0
"""The rest got worse if its chrF fell by more than the first or, where the model's own translations are the reference,
below the second."""
Note = Callable[[str], None]


@dataclass(frozen=True)
class Learnt:
    """A run on corrections, and what became of them and of the rest."""

    run: Run
    corrections: int
    given_before: int
    given_after: int
    """Corrections that the model gives word for word."""
    rest: int
    """Held-out sentences of other text."""
    chrf_before: float
    """Of the held-out sentences; 100 where the reference is what the model said before."""
    chrf_after: float
    own_reference: bool

    @property
    def got_worse(self) -> bool:
        if not self.rest:
            return False
        return self.chrf_after < (UNLIKE if self.own_reference else self.chrf_before - WORSE_BY)


def learn_corrections(
    start: str,
    memory: Path,
    *overrides: str,
    source_language: str | None = None,
    target_language: str | None = None,
    rest_source: Sequence[str] = (),
    rest_target: Sequence[str] = (),
    folder: Path | None = None,
    device: str | None = None,
    quiet: bool = False,
    note: Note = lambda text: None,
) -> Learnt:
    """Trains a copy of the model `start` on the corrections in `memory`, a file of suggestions or a .tsv."""
    recipe = read_recipe_of(read_folder(find_model(start)))
    if recipe.task != "translate":
        raise UserError(f"--memory: {start} does not translate; corrections are for translators")
    pairs, languages = read_memory(memory, source_language, target_language, recipe)
    rest = _rest(rest_source, rest_target, {source for source, _ in pairs})
    before = load_with(start, device=device or "auto")
    told = dict(zip(("source", "target"), languages)) if is_multilingual(recipe) else {}

    def given(model: Any, some: Sequence[Pair]) -> list[str]:
        return [one.text for one in model.translate([source for source, _ in some], **told)] if some else []

    note(f"{len(pairs):,} corrections; translating them and {len(rest):,} other sentences as the model does now")
    known, of_rest = given(before, pairs), given(before, rest)
    own = not rest_target
    references = of_rest if own else [target for _, target in rest]
    kept = [(source, reference) for (source, _), reference in zip(rest, references) if reference.strip()]
    replayed, held_out = kept[::2], kept[1::2]
    was = [text for text, reference in zip(of_rest, references) if reference.strip()][1::2]
    del before

    place = folder or new_folder(Recipe(name=f"{Path(start).name}-memory"))
    times = max(1, len(replayed) // len(pairs))  # so that the corrections are about half of what is read
    texts = [*(pairs * times), *replayed]
    files = []
    for side, name in enumerate(("source", "target")):
        files.append(place / "memory" / f"{name}.txt")
        files[side].parent.mkdir(parents=True, exist_ok=True)
        write_file(files[side], "".join(f"{pair[side]}\n" for pair in texts).encode())
    settings: dict[str, Any] = {
        "training.from": start,
        "training.steps": max(LEAST_STEPS, PASSES * sum(len(s) + len(t) for s, t in texts) // (4 * BATCH_TOKENS)),
        "training.batch_tokens": BATCH_TOKENS,
        "training.average": 1,  # the last weights: the first ones do not know the corrections
        "data.hold_out_valid": 0,
        "data.drop_duplicates": False,
        "data.drop_identical": False,
        **({"training.device": device} if device else {}),
        **({"source_language": languages[0], "target_language": languages[1]} if told else {}),
    }
    stated = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()]
    run = train(None, *stated, *overrides, source=files[0], target=files[1], out=place, quiet=quiet)

    after = load_with(run.folder, device=device or "auto")
    now, rest_now = given(after, pairs), given(after, held_out)
    references = [reference for _, reference in held_out]

    def chrf(outputs: list[str]) -> float:
        return corpus_scores(outputs, references, language=languages[1]).chrf if held_out else 0.0

    def same(outputs: list[str]) -> int:
        return sum(" ".join(text.split()) == wanted for text, (_, wanted) in zip(outputs, pairs, strict=True))

    return Learnt(run, len(pairs), same(known), same(now), len(held_out), chrf(was), chrf(rest_now), own)


def read_memory(
    path: Path, source: str | None, target: str | None, recipe: Recipe
) -> tuple[list[Pair], tuple[str, str]]:
    """The pairs of a file of suggestions that are in the model's languages, or those of a .tsv; and the languages."""
    own = (internal(source or recipe.source_language), internal(target or recipe.target_language))
    check_file(path)
    if not is_database(path):
        pairs = [_on_one_line(pair) for pair in islice(read_pairs([path], [], kept=True), MOST_PAIRS + 1)]
    else:
        store = Suggestions(path, create=False)
        found = store.all()
        store.close()
        directions = sorted({(one.source, one.target) for one in found})
        if is_multilingual(recipe) and not (source and target):
            if len(directions) != 1:
                named = ", ".join(f"{public(a)}-{public(b)}" for a, b in directions) or "nothing"
                raise UserError(f"--memory {path}: has {named}; choose the languages with --from and --to")
            own = directions[0]
        pairs = [_on_one_line((one.text, one.suggestion)) for one in found if _fits(one, own)]
    if is_multilingual(recipe) and not all(own):
        raise UserError("--memory: in which languages are the pairs? say so with --from and --to")
    pairs = list({source: (source, target) for source, target in pairs if source and target}.values())
    if not pairs:
        raise UserError(f"--memory {path}: has no corrections from {own[0] or '?'} to {own[1] or '?'}")
    if len(pairs) > MOST_PAIRS:
        raise UserError(f"--memory {path}: has more than {MOST_PAIRS:,} pairs; train on them with --source")
    return pairs, own


def _fits(one: Suggestion, languages: tuple[str, str]) -> bool:
    """A model that does not say its languages takes all."""
    return all(not own or own == given for own, given in zip(languages, (one.source, one.target)))


def _rest(sources: Sequence[str], targets: Sequence[str], without: set[str]) -> list[Pair]:
    """Sentences of other text, spread over the files, with their translations if there are any."""
    if not sources:
        return []
    lines: list[Pair] = (
        list(read_pairs(sources, targets, kept=True))
        if targets
        else [(line, "") for path in sources for line in read_lines(path, kept=True)]
    )
    lines = [pair for pair in map(_on_one_line, lines) if pair[0] and pair[0] not in without]
    return lines[:: max(1, -(-len(lines) // MOST_SENTENCES))]


def _on_one_line(pair: Pair) -> Pair:
    return " ".join(pair[0].split()), " ".join(pair[1].split())
