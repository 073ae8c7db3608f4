"""Gradient norms per layer, as they are logged."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from regard.training.gradient_norms import by_layer, gradient_norms, layer_of
from regard.training.listener import Log
from regard.training.progress import MAX_SAMPLE_CHARACTERS, Reporter
from regard.training.trainer import Trainer
from regard.types import Validation
from tests.training.laws import Killed, trained
from tests.training.toys import Recorder, Stream, Toy, maker


@pytest.mark.parametrize(
    ("parameter", "layer"),
    [
        ("encoder.layers.11.attention.inward.weight", "encoder.layers.11"),
        ("encoder.recurrence.cells.0.recurrent.bias", "encoder.recurrence.cells.0"),
        ("stem.layers.1.norms.0.weight", "stem.layers.1"),
        ("decoder.embedding.position.table.weight", "decoder.embedding"),
        ("encoder.norm.weight", "encoder.norm"),
        ("head.bias", "head"),
        ("bias", "bias"),
    ],
)
def test_layers_are_named_as_a_person_would(parameter: str, layer: str) -> None:
    assert layer_of(parameter) == layer


def test_norms_by_hand() -> None:
    """Gradients of 3, 4 and 12 in two layers; what has no gradient adds nothing, and hides nobody's."""
    model = nn.ModuleDict({"head": nn.Linear(1, 1), "idle": nn.Linear(1, 1), "other": nn.Linear(1, 1, bias=False)})
    for name, gradient in (("head.weight", 3.0), ("head.bias", 4.0), ("other.weight", 12.0)):
        parameter = model.get_parameter(name)
        parameter.grad = torch.full_like(parameter, gradient)
    named = dict(model.named_parameters())
    assert by_layer(named, gradient_norms(named.values()).tolist()) == {"head": 5.0, "idle": 0.0, "other": 12.0}


def test_without_any_gradient_all_are_zero() -> None:
    assert gradient_norms(nn.Linear(2, 2).parameters()).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_first_step_logs_the_norms_of_its_own_gradient(accumulate: int, tmp_path: Path) -> None:
    """Computed again: the same model, the same batches, the mean loss of all their tokens, and no trainer."""
    told = Recorder()
    maker("transformer", dropout=0.0, steps=1, accumulate=accumulate, clip=1e-3)(tmp_path, told).fit()
    torch.manual_seed(5)
    model, batches = Toy("transformer", 0.0), iter(Stream())
    losses = [model.loss(next(batches)) for _ in range(accumulate)]
    (sum(loss.total for loss in losses) / sum(loss.units for loss in losses)).backward()
    squares: dict[str, float] = {}
    for name, parameter in model.named_parameters():  # the output's weight is the embedding's
        layer = "middle.self_attn" if ".self_attn." in name else ".".join(name.split(".")[:-1])
        squares[layer] = squares.get(layer, 0.0) + float(parameter.grad.double().square().sum())
    expected = {layer: math.sqrt(square) for layer, square in squares.items()}
    assert told.logs[1].layers == pytest.approx(expected, rel=1e-5)
    assert math.hypot(*told.logs[1].layers.values()) == pytest.approx(told.logs[1].norm, rel=1e-5)


def test_steps_that_are_not_logged_cost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = 0

    def counting(parameters: Any) -> torch.Tensor:
        nonlocal counted
        counted += 1
        return gradient_norms(parameters)

    monkeypatch.setattr("regard.training.single_process.gradient_norms", counting)
    told = Recorder()
    maker(log_every=8)(tmp_path, told).fit()
    assert sorted(told.logs) == [8, 16, 24] and counted == 3 and all(log.layers for log in told.logs.values())


def test_read_late_they_are_those_of_the_step_they_stand_at(tmp_path: Path) -> None:
    """As on a GPU, where the numbers of a step are read when the next one is under way, and gradients are scaled."""
    told, late = Recorder(), Recorder()
    maker(clip=0.01)(tmp_path / "told", told).fit()
    trainer: Trainer = maker(clip=0.01)(tmp_path / "late", late)
    trainer.step.reads_late = True
    trainer.fit()
    for step, log in told.logs.items():
        assert late.logs[step].layers == pytest.approx(log.layers, rel=1e-3), step


# ------------------------------------------------------------------------------------------------ what is written down


def lines_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_layers_and_samples_are_written_and_survive_a_resume(tmp_path: Path) -> None:
    class Dying(Reporter):
        def advance(self, step: int) -> None:
            if step == 10:
                raise Killed

    def make(folder: Path, report: Any) -> Trainer:
        trainer = maker()(folder, report)
        inner = trainer.validator.validate
        assert inner is not None
        sample = ("un\u2028chat\ud800", "<b>a cat</b>\n", "a cat")
        trainer.validator.validate = lambda model: Validation(inner(model).scores, [sample])
        return trainer

    told = Recorder()
    trained(maker(), tmp_path / "alone", told)
    run = tmp_path / "run"
    with (tmp_path / "stderr").open("w") as stream:
        with pytest.raises(Killed):
            trained(make, run, Dying(run, stream=stream))
        trained(make, run, Reporter(run, stream=stream))
    logs = {line["step"]: line for line in lines_of(run) if "loss" in line}
    assert list(logs) == list(range(1, 25))
    for step, line in logs.items():
        assert line["layers"] == pytest.approx(told.logs[step].layers, rel=1e-5)
    samples = {line["step"]: line["samples"] for line in lines_of(run) if "samples" in line}
    expected = [{"source": "un\u2028chat\ud800", "output": "<b>a cat</b>\n", "reference": "a cat"}]
    assert samples == {8: expected, 16: expected, 24: expected}


def test_a_long_sample_is_cut_and_what_is_not_finite_is_null(tmp_path: Path) -> None:
    report = Reporter(tmp_path, live=False)
    report.start(0, 1)
    report.log(Log(1, 0, 1.0, 0.5, math.nan, 1, 1.0, {"head": math.nan, "stem": 0.123456789}))
    report.validated(1, Validation({"bleu": 1.0}, [("x" * 10**6, "", "y")]))
    report.close()
    log, validation = lines_of(tmp_path)
    assert log["layers"] == {"head": None, "stem": 0.123457}
    assert len(validation["samples"][0]["source"]) == MAX_SAMPLE_CHARACTERS


def test_tensorboard_has_them_too(tmp_path: Path) -> None:
    report = Reporter(tmp_path, live=False)
    report.start(0, 1)
    report.log(Log(1, 0, 1.0, 0.5, 0.25, 1, 1.0, {"encoder.layers.0": 0.25}))
    report.close()
    loading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = loading.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.value for event in events.Scalars("gradient/encoder.layers.0")] == [0.25]
