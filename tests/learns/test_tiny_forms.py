"""Every recipe learns: its tiny form, on data the package makes, beats what it says it must to have learnt anything.

Of recipes that are made of the same kinds of parts the first runs every time, the others with the slow tests.
"""

import pytest

import regard
from regard.config import Recipe, read_recipe, shipped_recipes, tiny_form
from regard.evaluation.scores import SCORES
from regard.training.loop import ERRORS

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
    assert set(run.scores) <= set(SCORES[recipe.task])  # so that training.metric can be checked before any work
    for score, bound in recipe.tiny["beats"].items():
        better = run.scores[score] < bound if score in ERRORS else run.scores[score] > bound
        assert better, f"{score} {run.scores[score]:.2f}, to beat: {bound}"


def test_every_recipe_has_a_tiny_form():
    assert [name for name, recipe in RECIPES.items() if not recipe.tiny] == []
