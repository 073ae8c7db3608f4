"""Every recipe learns: its tiny form, on synthetic data, beats the score that it declares as the bar for learning.

A recipe with a part that no recipe before it has (task, model, stem, encoder, decoder) runs every time, the others with the
slow tests.
"""

import pytest

import regard
from regard.config import Recipe, read_recipe, shipped_recipes, tiny_form
from regard.loading import task_of

RECIPES = {name: read_recipe(name) for name in shipped_recipes()}


def parts(recipe: Recipe) -> set[tuple[str, str]]:
    kinds = {part: recipe.model.get(part, "") for part in ("kind", "stem", "encoder", "decoder")}
    named = {(part, str(kind.get("kind", "") if isinstance(kind, dict) else kind)) for part, kind in kinds.items()}
    return {("task", recipe.task), *named}


def cases() -> list:
    seen: set[tuple[str, str]] = set()
    found = []
    for name, recipe in RECIPES.items():
        found.append(pytest.param(name, marks=[pytest.mark.slow] if parts(recipe) <= seen else []))
        seen |= parts(recipe)
    return found


@pytest.mark.parametrize("name", cases())
def test_the_tiny_form_learns(name, tmp_path):
    recipe = RECIPES[name]
    run = regard.train(tiny_form(recipe), "training.device=cpu", folder=tmp_path / "run", quiet=True)
    better = task_of(recipe).scores_of(tiny_form(recipe))
    assert set(run.scores) <= set(better)  # so that training.metric can be checked before any work
    for score, bound in recipe.tiny["beats"].items():
        beats = run.scores[score] < bound if better[score] == "lower" else run.scores[score] > bound
        assert beats, f"{score} {run.scores[score]:.2f}, to beat: {bound}"


def test_every_recipe_has_a_tiny_form():
    assert [name for name, recipe in RECIPES.items() if not recipe.tiny] == []
