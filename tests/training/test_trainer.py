"""A training step against the same computation spelled out; and what a trainer does when something fails (R4 - R10)."""

from __future__ import annotations

import copy
import math
import random
import resource
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.storage import read_folder
from regard.training.checkpoints import Checkpoints
from regard.training.listener import Quiet
from regard.training.placement import named_weights
from regard.training.trainer import Trainer
from regard.types import Batch, LossSum, Validation
from regard.weights import load_tensors
from tests.training.laws import Killed, KilledAt, last, same_run, trained
from tests.training.toys import (
    BETTER,
    SETTINGS,
    Recorder,
    Stream,
    Toy,
    files,
    maker,
    run_child,
    train_in_child,
    validate,
)

# ------------------------------------------------------------------------------------------------- what a step computes


def spelled_out(model: Toy, trainer: Trainer, steps: int, ema: float = 0.0) -> list[Tensor]:
    """Plain PyTorch: mean loss over all tokens of the step, clip, AdamW, schedule; returns the moving average."""
    settings, batches = trainer.settings, iter(Stream())
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        foreach=False,
    )
    smooth = [p.detach().clone() for p in model.parameters()]
    model.train()
    for step in range(1, steps + 1):
        losses = [model.loss(next(batches)) for _ in range(settings.accumulate)]
        optimizer.zero_grad()
        (sum(loss.total for loss in losses) / sum(loss.units for loss in losses)).backward()
        if settings.clip:
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        for group in optimizer.param_groups:
            group["lr"] = trainer.step.schedule(step)
        optimizer.step()
        decay = min(ema, (1 + step) / (10 + step))
        smooth = [decay * s + (1 - decay) * p.detach() for s, p in zip(smooth, model.parameters(), strict=True)]
    return smooth


@pytest.mark.parametrize("changes", [{}, {"accumulate": 2}, {"clip": 0.05}, {"clip": 0.0}, {"ema": 0.8}])
def test_training_equals_plain_pytorch(changes: dict, tmp_path: Path) -> None:
    make = maker("lstm", dropout=0.0, steps=10, average=1, save_every=10, validate_every=10, **changes)
    trainer = make(tmp_path, Quiet())
    copied = copy.deepcopy(trainer.model)
    smooth = spelled_out(copied, trainer, 10, changes.get("ema", 0.0))
    trainer.fit()
    expected = smooth if "ema" in changes else list(copied.parameters())
    stored = read_folder(tmp_path / "model").weights()
    for (name, _), wanted in zip(copied.named_parameters(), expected, strict=True):
        torch.testing.assert_close(stored[name], wanted.detach(), rtol=1e-4, atol=1e-5)


def test_tied_weights_are_stored_once_and_stay_tied(tmp_path: Path) -> None:
    trainer = maker(steps=4)(tmp_path, Quiet())
    assert "output.weight" not in named_weights(trainer.model)
    trainer.fit()
    assert "output.weight" not in read_folder(tmp_path / "model").weights()
    assert trainer.model.output.weight is trainer.model.embedding.weight


def test_validation_leaves_no_trace(tmp_path: Path) -> None:
    """The toy's validation draws random numbers; with dropout on, any of them leaking would change the weights."""
    trained(maker(average=1, validate_every=2), tmp_path / "often", Quiet())
    trained(maker(average=1, validate_every=24), tmp_path / "once", Quiet())
    often, once = last(tmp_path / "often"), last(tmp_path / "once")
    for name in ("optimizer.safetensors", "weights.safetensors"):
        assert (often.path / name).read_bytes() == (once.path / name).read_bytes()


# ------------------------------------------------------------------------------------------ the best, the mean, the end


class Scripted(Recorder):
    """A validation that says what a list says, one entry each time."""

    def __init__(self, *scores: float) -> None:
        super().__init__()
        self.left = list(scores)

    def __call__(self, model: nn.Module) -> Validation:
        return Validation({"bleu": self.left.pop(0)})


def scripted(folder: Path, scores: list[float], **changes: object) -> tuple[Trainer, Scripted]:
    script = Scripted(*scores)
    trainer = maker(metric="bleu", steps=24, validate_every=4, save_every=4, **changes)(folder, script)
    trainer.validator.validate = script
    return trainer, script


def weights_at(run: Path, step: int) -> dict[str, Tensor]:
    return next(read_folder(s.path).weights() for s in Checkpoints(run).all() if s.step == step)


def test_the_mean_of_the_best_and_those_before_it(tmp_path: Path) -> None:
    trainer, _ = scripted(tmp_path, [1, 2, 3, 9, 5, 6, 10], keep=2, average=3)
    result = trainer.fit()
    assert (result.best_step, result.reason, result.scores) == (16, "steps", {"bleu": 10})
    assert [s.step for s in Checkpoints(tmp_path).all()] == [8, 12, 16, 20, 24]
    parts = [weights_at(tmp_path, step) for step in (8, 12, 16)]
    for name, tensor in read_folder(tmp_path / "model").weights().items():
        wanted = sum(part[name].double() for part in parts) / 3
        torch.testing.assert_close(tensor.double(), wanted, rtol=1e-6, atol=1e-8)
        assert torch.equal(trainer.weights[name].detach(), tensor), "the model in memory is the one that was written"


def test_the_best_alone_when_the_mean_is_worse(tmp_path: Path) -> None:
    trainer, script = scripted(tmp_path, [1, 2, 3, 9, 5, 6, 8], keep=2, average=3)
    result = trainer.fit()
    assert result.scores == {"bleu": 9} and "the best is kept" in script.notes[-1]
    model = read_folder(tmp_path / "model").weights()
    assert all(torch.equal(model[name], tensor) for name, tensor in weights_at(tmp_path, 16).items())


def test_patience_stops(tmp_path: Path) -> None:
    trainer, _ = scripted(tmp_path, [5, 4, math.nan, 3], average=1, patience=2)
    result = trainer.fit()
    assert (result.step, result.reason, result.best_step) == (12, "patience", 4)


def test_a_time_limit_stops_and_still_makes_a_model(tmp_path: Path) -> None:
    result = maker(steps=100_000, minutes=0.005)(tmp_path, Quiet()).fit()
    assert result.reason == "minutes" and 0 < result.step < 100_000 and result.model
    assert read_folder(result.model)


def test_an_unknown_metric_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="training.metric: validation gives no 'los'; did you mean 'loss'"):
        maker(metric="los")(tmp_path, Quiet()).fit()


def test_without_validation_the_newest_are_averaged(tmp_path: Path) -> None:
    trainer = maker(steps=8, average=2, metric="bleu")(tmp_path, Quiet())
    trainer.validator.validate = None
    assert trainer.fit().scores == {}
    for name, tensor in read_folder(tmp_path / "model").weights().items():
        wanted = (weights_at(tmp_path, 4)[name].double() + weights_at(tmp_path, 8)[name].double()) / 2
        torch.testing.assert_close(tensor.double(), wanted, rtol=1e-6, atol=1e-8)


# ---------------------------------------------------------------------------------------------- R6: numbers gone wrong


def test_a_poisoned_batch_is_skipped_and_logged_once(tmp_path: Path) -> None:
    told = Recorder()
    trainer = maker("normed", stream={"poison": {(1, 2)}})(tmp_path, told)
    trainer.fit()
    assert len([note for note in told.notes if "not finite" in note]) == 1
    assert "step 10, batch {'epoch': 1, 'batch': 2}" in told.notes[0]
    assert all(math.isfinite(log.loss) == (step != 10) for step, log in told.logs.items())
    for saved in Checkpoints(tmp_path).all():
        for name in ("weights.safetensors", "optimizer.safetensors"):
            tensors = load_tensors(saved.path / name).values()
            assert all(t.isfinite().all() for t in tensors if t.is_floating_point())


def test_a_skipped_step_changes_nothing(tmp_path: Path) -> None:
    """Not the weights, not the moments, not even a batch norm's running mean."""
    trainer = maker("normed", stream={"poison": {(0, 4)}}, steps=5, save_every=1, keep=9, average=1)(tmp_path, Quiet())
    trainer.fit()
    before, after = (read_folder(s.path) for s in Checkpoints(tmp_path).all()[-2:])
    changed = {
        key
        for name in ("weights.safetensors", "optimizer.safetensors")
        for key, tensor in load_tensors(before.path / name).items()
        if not torch.equal(tensor, load_tensors(after.path / name)[key])
    }
    assert changed == {"random.cpu", "middle.num_batches_tracked"}


def test_many_bad_steps_in_a_row_stop_the_run(tmp_path: Path) -> None:
    poison = {(0, 5), (0, 6), (1, 0)}
    with pytest.raises(UserError, match=r"step 8, batch .*'epoch': 1, 'batch': 0.*3 steps in a row"):
        maker(bad_steps=3, stream={"poison": poison})(tmp_path, Quiet()).fit()
    assert Checkpoints(tmp_path).all()[-1].step == 4
    trained(maker(bad_steps=4, stream={"poison": poison}), tmp_path / "patient", Quiet())


# ------------------------------------------------------------------------------------------------- R7: out of memory


class Bursting(torch.autograd.Function):
    """Fails in the backward pass, when some of the gradients are already there."""

    @staticmethod
    def forward(ctx: object, x: Tensor, rows: int, limit: int) -> Tensor:
        ctx.burst = rows > limit  # type: ignore[attr-defined]
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        if ctx.burst:  # type: ignore[attr-defined]
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        return gradient, None, None


class Large(Toy):
    limit = 4

    def loss(self, batch: Batch) -> LossSum:
        found = super().loss(batch)
        early = Bursting.apply(self.embedding.weight, len(batch), self.limit)
        return LossSum(found.total + 0.0 * early.sum(), found.units)


def large(folder: Path, limit: int, report: Recorder) -> Trainer:
    torch.manual_seed(5)
    model = Large(dropout=0.0)
    model.limit = limit
    settings = replace(SETTINGS, steps=6, accumulate=2, average=1)
    return Trainer(
        model, Stream(), folder, settings, seed=7, model_files=files, validate=validate, better=BETTER, report=report
    )


@pytest.mark.parametrize(("limit", "notes"), [(2, 12), (1, 36)])
def test_what_does_not_fit_is_split_and_nothing_is_lost(limit: int, notes: int, tmp_path: Path) -> None:
    """Batches of 4 rows: each of 12 is split once to fit 2 rows, or 1 + 2 times to fit 1."""
    whole, split = large(tmp_path / "whole", 4, Recorder()), Recorder()
    parts = large(tmp_path / "parts", limit, split)
    whole.fit(), parts.fit()
    assert len([note for note in split.notes if "is split in two" in note]) == notes
    for one, other in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_one_row_that_does_not_fit_is_left_out(tmp_path: Path) -> None:
    told = Recorder()
    trainer = large(tmp_path, 0, told)
    before = {name: t.detach().clone() for name, t in trainer.weights.items()}
    assert trainer.fit().step == 6
    assert any("is left out" in note for note in told.notes)
    assert all(torch.equal(t.detach(), before[name]) for name, t in trainer.weights.items())


def test_other_errors_are_not_swallowed(tmp_path: Path) -> None:
    trainer = maker()(tmp_path, Quiet())
    trainer.model.output = nn.Linear(3, 3)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        trainer.fit()


# --------------------------------------------------------------------------------------------- R4: the disk says no


def train_with_small_files(folder: str) -> None:
    """A quota: the first save passes, then no file may grow beyond 1,000 bytes."""
    torch.set_num_threads(1)

    class Quota(Quiet):
        def advance(self, step: int) -> None:
            if step == 5:
                resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

    try:
        maker()(Path(folder), Quota()).fit()
    except UserError as error:
        assert "cannot write" in str(error) and "intact" in str(error)
        raise SystemExit(2) from None


def test_a_write_that_fails_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    assert run_child(train_with_small_files, str(tmp_path / "run")) == 2
    assert [s.step for s in Checkpoints(tmp_path / "run").all()] == [4]
    assert not list(tmp_path.rglob(".*.tmp"))
    trained(maker(), tmp_path / "run", Quiet())
    trained(maker(), tmp_path / "alone", Quiet())
    same_run(tmp_path / "alone", tmp_path / "run")


def test_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)], capture_output=True)
    if mount.returncode:
        pytest.skip("mounting a small disk needs rights this user does not have")
    try:
        with pytest.raises(UserError, match="No space left"):
            maker(keep=100, save_every=1, average=1)(disk / "run", Quiet()).fit()
        saved, _ = Checkpoints(disk / "run").newest_valid() or pytest.fail("nothing whole was left")
        assert saved.step > 0
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=f"cannot write in {tmp_path}/file/run"):
        maker()(tmp_path / "file" / "run", Quiet()).fit()


# --------------------------------------------------------------------------------------------------- R5: broken files


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints at 4, 8 and 12, killed at 13."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    with pytest.raises(Killed):
        trained(maker(keep=3), folder, KilledAt(13))
    return folder


def test_resume_steps_back_over_a_broken_checkpoint_and_says_so(killed: Path, tmp_path: Path) -> None:
    run, told = tmp_path / "run", Recorder()
    shutil.copytree(killed, run)
    broken = Checkpoints(run).all()[-1].path / "optimizer.safetensors"
    content = bytearray(broken.read_bytes())
    content[random.Random(0).randrange(len(content))] ^= 4
    broken.write_bytes(content)
    trained(maker(keep=3), run, told)
    assert "stepping back" in told.notes[0] and "optimizer.safetensors" in told.notes[0]
    assert "going on from step 8" in told.notes[1] and min(told.logs) == 9
    trained(maker(keep=3), tmp_path / "alone", Quiet())
    same_run(tmp_path / "alone", run)


def test_when_no_checkpoint_is_whole_nothing_starts_from_zero(killed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(killed, run)
    for saved in Checkpoints(run).all():
        (saved.path / "training.json").write_bytes(b"{}")
    with pytest.raises(UserError, match="none of 3 checkpoints is whole"):
        maker(keep=3)(run, Quiet()).resume()


def test_a_checkpoint_of_another_model_is_refused(killed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(killed, run)
    with pytest.raises(UserError, match="resume with the recipe of the run"):
        maker("transformer")(run, Quiet()).resume()


# -------------------------------------------------------------------------------------------------- R10: one at a time


def test_a_second_trainer_refuses(tmp_path: Path) -> None:
    first = maker()(tmp_path, Quiet())
    first.resume()
    with pytest.raises(UserError, match=r"process \d+ is training here"):
        maker()(tmp_path, Quiet()).fit()
    assert run_child(train_in_child, str(tmp_path)) == 1
    first.fit()
    assert run_child(train_in_child, str(tmp_path)) == 0, "the lock is gone with the trainer"
