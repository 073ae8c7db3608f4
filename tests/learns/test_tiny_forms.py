"""Every recipe learns: its tiny form, on data the package makes, beats what it says it must to have learnt anything."""

import pytest

import regard
from regard.config import read_recipe, shipped_recipes, tiny_form
from regard.training.loop import ERRORS

RECIPES = {name: read_recipe(name) for name in shipped_recipes()}


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.tiny])
def test_the_tiny_form_learns(name, tmp_path):
    recipe = RECIPES[name]
    run = regard.train(tiny_form(recipe), "training.device=cpu", folder=tmp_path / "run", quiet=True)
    for score, bound in recipe.tiny["beats"].items():
        better = run.scores[score] < bound if score in ERRORS else run.scores[score] > bound
        assert better, f"{score} {run.scores[score]:.2f}, to beat: {bound}"


def test_every_recipe_but_translations_has_a_tiny_form():
    assert [name for name, recipe in RECIPES.items() if not recipe.tiny and recipe.task != "translate"] == []
