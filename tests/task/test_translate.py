"""What a Translator does at the edges of what its model knows."""

import pytest
import torch

import regard
from regard.assemble import build_model, resolve_model
from regard.config import Recipe
from regard.data.tokenizer.character import Character
from regard.errors import UserError
from regard.task.translate import Translator
from regard.types import END


@pytest.mark.parametrize("beam", [1, 3])
def test_learned_positions_limit_what_is_written(beam, monkeypatch):
    tokenizer = Character.train(["abcdef"], seed=1)
    torch.manual_seed(0)
    tree = resolve_model({"preset": "tiny", "position": {"kind": "learned", "length": 24}})
    recipe = Recipe(model=tree)
    recipe.data.max_length = 20
    translator = Translator(recipe, tokenizer, build_model(tree, len(tokenizer)), torch.device("cpu"))
    project = translator.model.decoder.project

    def endless(hidden):
        logits = project(hidden)
        logits[..., END] = -torch.inf
        return logits

    monkeypatch.setattr(translator.model.decoder, "project", endless)
    (found,) = translator.translate("abcdef" * 3, beam=beam, max_length=500)
    assert len(found.tokens) == 24 and not found.finished  # and position 25 was never asked for


def test_too_few_positions_for_the_text_are_refused_before_training(tmp_path):
    for name in ("s", "t"):
        (tmp_path / name).write_text("".join(f"{name} word {number}\n" for number in range(60)))
    with pytest.raises(UserError, match="64 positions are too few for data.max_length=128"):
        regard.train(
            None,
            "model.preset=tiny",
            'model.position={kind="learned", length=64}',
            "tokenizer.kind=word",
            source=tmp_path / "s",
            target=tmp_path / "t",
            folder=tmp_path / "run",
            quiet=True,
        )


@pytest.mark.parametrize("wrong", [{"beam": 0}, {"n_best": 0}, {"length_penalty": -1.0}, {"max_length": 0}])
def test_limits_are_refused_before_anything_is_searched(wrong):
    with pytest.raises(UserError):
        Translator._check(
            wrong.get("beam", 4), wrong.get("n_best", 1), wrong.get("length_penalty"), wrong.get("max_length"), None
        )


def test_a_folder_left_by_a_refused_run_does_not_decide_the_next_ones_tokenizer(tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"mot {n}\tword {n}\n" for n in range(60)))
    options = ["model.preset=tiny", "tokenizer.kind=word", "data.hold_out_valid=2"]
    with pytest.raises(UserError, match="positions"):
        regard.train(
            None,
            *options,
            "tokenizer.size=10",
            'model.position={kind="learned", length=8}',
            source=tmp_path / "pairs.tsv",
            folder=tmp_path / "run",
            quiet=True,
        )
    run = regard.train(
        None,
        *options,
        "tokenizer.size=40",
        "training.steps=1",
        source=tmp_path / "pairs.tsv",
        folder=tmp_path / "run",
        quiet=True,
    )
    assert len(run.model.tokenizer) == 40
