"""Every recipe learns: its tiny form, on data the package makes, beats what it says it must to have learnt anything.

Of recipes that are made of the same kinds of parts the first runs every time, the others with the slow tests.
"""

import pytest

import regard
from regard.assemble import task_of
from regard.config import Recipe, read_recipe, shipped_recipes, tiny_form

RECIPES = {name: read_recipe(name) for name in shipped_recipes()}


def parts(recipe: Recipe) -> tuple[str, ...]:
    kinds = [recipe.model.get(part, "") for part in ("kind", "stem", "encoder", "decoder")]
    return (recipe.task, *(str(kind.get("kind", "") if isinstance(kind, dict) else kind) for kind in kinds))


def cases() -> list:
    seen, found = set(), []
    for name, recipe in RECIPES.items():
        found.append(pytest.param(name, marks=[pytest.mark.slow] if parts(recipe) in seen else []))
        seen.add(parts(recipe))
    return found


@pytest.mark.parametrize("name", cases())
def test_the_tiny_form_learns(name, tmp_path):
    recipe = RECIPES[name]
    run = regard.train(tiny_form(recipe), "training.device=cpu", folder=tmp_path / "run", quiet=True)
    better = task_of(recipe).scores
    assert set(run.scores) <= set(better)  # so that training.metric can be checked before any work
    for score, bound in recipe.tiny["beats"].items():
        beats = run.scores[score] < bound if better[score] == "lower" else run.scores[score] > bound
        assert beats, f"{score} {run.scores[score]:.2f}, to beat: {bound}"


def test_every_recipe_has_a_tiny_form():
    assert [name for name, recipe in RECIPES.items() if not recipe.tiny] == []
