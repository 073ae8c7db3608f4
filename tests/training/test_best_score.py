"""Which checkpoint is the best: every task declares for each of its scores whether higher or lower is better."""

from __future__ import annotations

from pathlib import Path

import pytest

import regard
from regard import registry
from regard.config import read_recipe, shipped_recipes, tiny_form
from regard.training.checkpoints import Checkpoints
from regard.training.listener import Quiet
from regard.types import Validation
from tests.training.toys import Recorder, maker

TASKS = {kind: registry.factory("task", kind) for kind in registry.kinds("task")}
HIGHER = {"accuracy", "bleu", "bleu4", "chrf", "cider", "coverage", "f1", "meteor_exact", "precision", "recall"}
"""Stated again, so that a wrong declaration is noticed; all other scores are errors or losses."""
SCORES = [(task, score) for task, kind in TASKS.items() for score in kind.scores]


@pytest.mark.parametrize("task", TASKS)
def test_every_task_declares_its_scores(task: str) -> None:
    assert TASKS[task].scores and set(TASKS[task].scores.values()) <= {"higher", "lower"}


@pytest.mark.parametrize(("task", "score"), SCORES)
def test_the_best_checkpoint_has_the_best_score(task: str, score: str, tmp_path: Path) -> None:
    left = [2.0, 1.0, 3.0]
    trainer = maker(metric=score, steps=3, validate_every=1, save_every=1, average=1, log_every=0)(tmp_path, Quiet())
    trainer.validator.better = TASKS[task].scores
    trainer.validator.validate = lambda model: Validation({"other": 0.0, score: left.pop(0)})
    assert trainer.fit().best_step == (3 if score in HIGHER else 2)


@pytest.mark.parametrize("metric", ["mase", "coverage"])
def test_a_forecaster_keeps_its_best_checkpoint(metric: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From recipe to checkpoint, with scores that fall and rise again."""
    recipe = next(r for r in map(read_recipe, shipped_recipes()) if r.task == "forecast")
    left = [2.0, 1.0, 3.0]
    monkeypatch.setattr(TASKS["forecast"], "judge", lambda *_: Validation({"mse": 1.0, metric: left.pop(0)}))
    monkeypatch.setattr(TASKS["forecast"], "learn_errors", lambda *_: False)
    changes = [f"training.metric={metric}", "training.steps=3", "training.validate_every=1", "training.average=1"]
    regard.train(tiny_form(recipe), *changes, "training.device=cpu", out=tmp_path / "run", quiet=True)
    best = Checkpoints(tmp_path / "run").best()
    assert best is not None and best.step == (3 if metric == "coverage" else 2)


def test_a_score_without_a_declaration_is_a_bug_of_the_task(tmp_path: Path) -> None:
    trainer = maker(metric="")(tmp_path, Recorder())
    trainer.validator.validate = lambda model: Validation({"surprise": 1.0})
    with pytest.raises(ValueError, match="validation gives 'surprise', but its task does not declare"):
        trainer.fit()
