"""Another package adds an attention, a position encoding, a cell and a schedule: one file and one entry point each.

Recipes, training, saved models, inspection and drawings then know them, without a line anywhere else.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import registry
from regard.config import Recipe, read_recipe, tiny_form
from regard.training.listener import Quiet

FILES = {
    "staircase": '''
"""A learning rate that is halved every few steps."""

__all__ = ["staircase"]

def staircase(learning_rate: float, every: int = 1000):
    return lambda step: learning_rate * 0.5 ** (step // every)
''',
    "undeclared": '''
"""An encoder that does not say what an encoder must."""
from torch import nn

class Undeclared(nn.Module):
    pass

__all__ = ["Undeclared"]
''',
    "nearness": '''
"""Attention by distance: the nearer two vectors are, the higher the score."""
import torch
from torch import nn
from regard.layers.attention._base import Attention

__all__ = ["Nearness"]

class Nearness(Attention):
    """score(s, h) = -sharpness |W s - U h|^2."""

    def __init__(self, width: int, memory_width: int = 0, sharpness: float = 0.1):
        super().__init__()
        self.context = memory_width or width
        self.sharpness = sharpness
        self.query, self.key = nn.Linear(width, width), nn.Linear(self.context, width)

    def project_memory(self, memory):
        return {"key": self.key(memory), "value": memory}

    def scores(self, query, projected, mask=None, positions=None):
        return -self.sharpness * (self.query(query)[:, :, None] - projected["key"][:, None]).square().sum(-1)
''',
    "ramp": '''
"""Position as the number itself, in one column, and its square root in the next."""
import torch
from regard.layers.position._base import Position

__all__ = ["Ramp"]

class Ramp(Position):
    """p(t) = [slope t, slope sqrt(t), 0, 0, ...]."""

    def __init__(self, width: int, slope: float = 0.3):
        super().__init__()
        self.width, self.slope = width, slope

    def forward(self, positions):
        columns = torch.zeros(len(positions), self.width, device=positions.device)
        columns[:, 0], columns[:, 1] = positions, positions.sqrt()
        return self.slope * columns
''',
    "minimal_gated": '''
"""The minimal gated unit (Zhou et al. 2016): a GRU with one gate."""
import torch
from regard.layers.cell._base import Cell

__all__ = ["MinimalGated"]

class MinimalGated(Cell):
    """f = sigmoid(b + W h + U x);  n = tanh(b + U x + f (W h));  h' = (1 - f) h + f n."""

    gates, parts = ("forget", "candidate"), ("hidden",)

    def step(self, projected, state):
        (h,) = state
        (x_f, x_n), (h_f, h_n) = projected.chunk(2, -1), self.recur(h).chunk(2, -1)
        f = torch.sigmoid(x_f + h_f)
        n = torch.tanh(x_n + f * h_n)
        return ((1 - f) * h + f * n,), {"forget": f, "candidate": n}
''',
}
POINTS = """
[regard.layers.attention]
nearness = another_package.nearness

[regard.layers.position]
ramp = another_package.ramp

[regard.layers.cell]
minimal_gated = another_package.minimal_gated

[regard.training.schedule]
staircase = another_package.staircase

[regard.encoder]
undeclared = another_package.undeclared
"""
SMALL = ["training.steps=4", "training.validate_every=0", "training.device=cpu", "data.valid_limit=8"]


@pytest.fixture(scope="module", autouse=True)
def package(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Installs the package: a folder on the path, with the metadata that pip would write."""
    site = tmp_path_factory.mktemp("site")
    (site / "another_package").mkdir()
    (site / "another_package" / "__init__.py").touch()
    for name, code in FILES.items():
        (site / "another_package" / f"{name}.py").write_text(code.lstrip())
    info = site / "another_package-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: another-package\nVersion: 1\n")
    (info / "entry_points.txt").write_text(POINTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        registry._elsewhere.cache_clear()
        yield
    for name in [name for name in sys.modules if name.startswith("another_package")]:
        del sys.modules[name]
    registry._elsewhere.cache_clear()


def made(recipe: str, folder: Path, *changes: str, report: Quiet | None = None) -> tuple[Recipe, Any]:
    """A tiny model, trained for a few steps, saved and loaded; and what an inspection of it records."""
    run = regard.train(tiny_form(read_recipe(recipe)), *SMALL, *changes, out=folder, report=report or Quiet())
    model = regard.load(run.folder, device="cpu")
    before, after = (model.translate("a b c d", beam=beam).text for beam in (1, 3))
    assert isinstance(before, str) and isinstance(after, str)
    return model.recipe, regard.inspect(model, "a b c d")


ATTENTION = '{kind = "nearness", sharpness = 0.2}'


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("fr-en", [f"model.encoder.attention={ATTENTION}", f"model.decoder.attention={ATTENTION}"]),
        ("bahdanau", [f"model.decoder.attention={ATTENTION}"]),
    ],
)
def test_an_attention(recipe: str, changes: list[str], tmp_path: Path) -> None:
    saved, trace = made(recipe, tmp_path / "run", *changes)
    assert saved.model["decoder"]["attention"] == {"kind": "nearness", "sharpness": 0.2}
    assert trace.attention and all(len(one.weights) == 1 for one in trace.attention)
    assert "<svg" in trace.svg("heads" if recipe != "bahdanau" else "")
    for kind in {one.kind for one in trace.attention}:
        assert "<svg" in trace.svg("numbers", attention=kind, position=0)
        (calculation,) = trace.calculations
        assert calculation.difference < 1e-5
        assert {"scores", "softmax", "weighted sum"} <= {stage.name for stage in calculation.stages}


def test_a_position(tmp_path: Path) -> None:
    position = 'position={kind = "ramp", slope = 0.2}'
    saved, trace = made("fr-en", tmp_path / "run", f"model.stem.{position}", f"model.decoder.{position}")
    assert saved.model["stem"]["position"] == {"kind": "ramp", "slope": 0.2}
    (one,) = trace.positions
    assert one.kind == "ramp" and one.values[3, 0] == pytest.approx(0.6)
    assert "<svg" in trace.svg("positions")


def test_a_cell(tmp_path: Path) -> None:
    changes = ["model.encoder.cell=minimal_gated", "model.decoder.cell=minimal_gated"]
    saved, trace = made("bahdanau", tmp_path / "run", *changes)
    assert saved.model["encoder"]["cell"] == saved.model["decoder"]["cell"] == "minimal_gated"
    assert {name for one in trace.gates for name in one.values} == {"forget", "candidate", "hidden"}
    assert "<svg" in trace.svg("gates")


def test_a_schedule(tmp_path: Path) -> None:
    changes = [
        'training.schedule={kind = "staircase", every = 2}',
        "training.learning_rate=0.01",
        "training.log_every=1",
    ]
    rates: dict[int, float] = {}
    report = Quiet()
    report.log = lambda log: rates.update({log.step: log.learning_rate})  # type: ignore[method-assign]
    saved, trace = made("bahdanau", tmp_path / "run", *changes, report=report)
    assert saved.training.schedule == {"kind": "staircase", "every": 2}
    assert rates == {step: pytest.approx(0.01 * 0.5 ** (step // 2)) for step in range(1, 5)}
    assert "<svg" in trace.svg()


def test_what_they_take_is_checked_before_any_work(tmp_path: Path) -> None:
    for change, message in (
        ('model.decoder.attention={kind = "nearness", sharp = 1}', "takes no 'sharp'; did you mean 'sharpness'"),
        ('model.decoder.attention={kind = "nearnes"}', "did you mean 'nearness'"),
        ('training.schedule={kind = "staircase", evry = 2}', "staircase takes no 'evry'; did you mean 'every'"),
        ("model.encoder.kind=undeclared", r"Undeclared must be a subclass of regard\.encoder\._base\.Encoder"),
    ):
        with pytest.raises(regard.UserError, match=message):
            regard.train(tiny_form(read_recipe("bahdanau")), change, out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


@torch.no_grad()
def test_a_cell_without_a_kernel_reads_padded_batches_like_any_other() -> None:
    cell = registry.build("layers/cell", "minimal_gated", inputs=3, width=4).eval()
    x, mask = torch.randn(2, 5, 3), torch.tensor([[True] * 5, [True] * 2 + [False] * 3])
    outputs, (final,) = cell(x, mask)
    alone, (end,) = cell(x[1:, :2])
    torch.testing.assert_close(outputs[1:, :2], alone)
    torch.testing.assert_close(final[1:], end)
    assert not outputs[1, 2:].any()
