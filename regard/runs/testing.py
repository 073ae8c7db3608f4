"""Tests a run on the examples its recipe keeps for that, and cross-validation."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import mean, pstdev

from regard.config import Recipe, apply_overrides
from regard.data.fingerprints import fingerprints, read_fingerprints, refuse_changes
from regard.errors import UserError
from regard.loading import load, task_of
from regard.runs.data_paths import data_paths
from regard.runs.restarts import remember_launch
from regard.runs.training_run import new_folder, saved_recipe, train
from regard.training.distributed import together


def test(run: str | Path, device: str = "auto") -> dict[str, float]:
    """The scores of a run's finished model on the test examples of its recipe."""
    recipe = saved_recipe(Path(run))
    if begun := read_fingerprints(Path(run)):
        paths = data_paths(recipe.data)
        refuse_changes(Path(run), begun, fingerprints(paths), paths)
    examples = task_of(recipe).tests(recipe)
    if not examples:
        raise UserError(f"{run}: its recipe names nothing to test on; set data.test (translators: --source)")
    return load(run, device).judge(examples).scores


def cross_validate(
    recipe: Recipe, folds: int, folder: str | Path | None = None, quiet: bool = False, device: str = "auto"
) -> tuple[dict[str, tuple[float, float]], Path]:
    """Trains once per fold and tests on it. Returns mean and standard deviation of every score, and the folder."""
    found: list[dict[str, float]] = []
    with together() as ranks:
        place = Path(ranks.first(lambda: str(_folder_of_folds(recipe, folder))))
        for fold in range(folds):
            one = apply_overrides(recipe, [f"data.folds={folds}", f"data.fold={fold}"])
            run = train(one, folder=place / f"fold-{fold}", quiet=quiet)
            if run.reason == "interrupted":
                raise KeyboardInterrupt
            found.append(ranks.first(partial(test, place / f"fold-{fold}", device)))
    return {name: (mean(s[name] for s in found), pstdev(s[name] for s in found)) for name in found[0]}, place


def _folder_of_folds(recipe: Recipe, folder: str | Path | None) -> Path:
    place = Path(folder or new_folder(recipe))
    remember_launch(place)
    return place
