"""Training steps as CUDA graphs, with a stand-in for the GPU; and losses that are read one step late."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from regard.assemble import build_model
from regard.errors import UserError
from regard.training import cuda_graph
from regard.training.cuda_graph import CudaGraphs, pad_to
from regard.training.listener import Quiet
from regard.types import BEGIN, END, PAD, Batch
from tests.training.laws import last, resume_is_exact, trained
from tests.training.toys import maker


def batch_of(rows: int, source: int, target: int) -> Batch:
    ids = torch.randint(4, 30, (rows, source + target + 1))
    read, written = ids[:, :source].contiguous(), ids[:, source:].contiguous()
    written[:, 0], written[:, -1] = BEGIN, END
    return Batch(read, read != PAD, written, written != BEGIN, rows * target)


class Graph:
    """Keeps what was computed while it recorded, and computes it again when replayed."""

    replays = 0

    def capture_begin(self, **options: object) -> None:
        Computing.graph = self

    def capture_end(self) -> None:
        Computing.graph = None

    def replay(self) -> None:
        Graph.replays += 1
        self.total.copy_(self.again())


class Computing:
    """Stands for the work of a batch: the sum of its target."""

    graph: Graph | None = None

    def __init__(self, error: str = "") -> None:
        self.shapes: list[tuple[int, ...]] = []
        self.error = error

    def __call__(self, batch: Batch) -> torch.Tensor:
        if self.graph is None:
            self.shapes.append((len(batch), batch.source.shape[1], batch.target.shape[1]))
            return batch.target.sum().float()
        if self.error:
            raise RuntimeError(self.error)
        graph = self.graph
        graph.total, graph.again = torch.zeros(()), lambda: batch.target.sum().float()
        return graph.total


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        def wait_stream(self, other: object) -> None: ...

    monkeypatch.setattr(Graph, "replays", 0)
    for name, thing in {
        "CUDAGraph": Graph,
        "Stream": Stream,
        "current_stream": Stream,
        "graph_pool_handle": object,
        "stream": lambda stream: nullcontext(),
    }.items():
        monkeypatch.setattr(torch.cuda, name, thing)


def test_a_shape_is_computed_then_recorded_then_replayed_for_all_that_fits(gpu: None) -> None:
    compute, notes = Computing(), []
    graphs = CudaGraphs(compute, notes.append)
    for shape in [(20, 9, 10), (20, 9, 10), (20, 9, 10), (19, 9, 9), (5, 9, 9), (21, 9, 10)]:
        batch = batch_of(*shape)
        assert graphs(batch) == batch.target.sum()
    assert compute.shapes == [(20, 9, 11), (5, 9, 10), (21, 9, 11)]
    assert Graph.replays == 3 and not notes


def test_what_cannot_be_recorded_costs_one_line(gpu: None) -> None:
    compute, notes = Computing("not while recording\nmore"), []
    graphs = CudaGraphs(compute, notes.append)
    for _ in range(4):
        batch = batch_of(3, 4, 5)
        assert graphs(batch) == batch.target.sum()
    assert notes == ["steps do not use CUDA graphs: not while recording"] and len(compute.shapes) == 4


def test_memory_is_given_back_once(gpu: None) -> None:
    graphs = CudaGraphs(Computing(), lambda text: None)
    batch = batch_of(3, 4, 5)
    for _ in range(2):
        graphs(batch)
    assert graphs.stop() and not graphs.stop()
    assert graphs(batch) == batch.target.sum() and Graph.replays == 1


def test_only_so_many_are_kept(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graph, "MAX_GRAPHS", 1)
    graphs = CudaGraphs(compute := Computing(), lambda text: None)
    for rows in (2, 2, 9, 9, 9):
        graphs(batch_of(rows, 4, 5))
    assert [rows for rows, *_ in compute.shapes] == [2, 9, 9, 9]


def test_filling_a_batch_up_changes_neither_loss_nor_gradients() -> None:
    torch.manual_seed(0)
    model = build_model({"preset": "tiny", "dropout": 0.0}, 30, label_smoothing=0.1).train().double()
    batch, results = batch_of(3, 5, 6), []
    for given in (batch, pad_to(batch, (5, 8, 9)), pad_to(batch, (3, 5, 7))):
        assert given.units == batch.units
        model.zero_grad()
        loss = model.loss(given).total
        loss.backward()
        results.append([loss.detach(), *(p.grad.clone() for p in model.parameters())])
    for other in results[1:]:
        torch.testing.assert_close(other, results[0])


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({}, True),
        ({"position": "learned"}, True),
        ({"position": "shifted"}, False),
        ({"encoder": "recurrent", "decoder": "recurrent"}, False),
        ({"decoder": "ssru"}, True),
        ({"encoder": "universal", "decoder": "universal"}, False),
    ],
)
def test_what_the_host_takes_part_in_is_not_recorded(model: dict, expected: bool) -> None:
    assert build_model({"preset": "tiny", **model}, 30).cuda_graphable is expected


def late(**changes: object) -> Callable[[Path, Quiet], object]:
    """A maker of trainers that read a step's numbers when the next step is under way, as on a GPU."""
    make = maker(**changes)

    def made(folder: Path, report: Quiet) -> object:
        trainer = make(folder, report)
        trainer.step.reads_late = True
        return trainer

    return made


CHANGES = [{}, {"stream": {"poison": {(0, 2), (1, 3)}}}, {"kind": "normed", "stream": {"poison": {(0, 2)}}}]


@pytest.mark.parametrize("changes", CHANGES, ids=["plain", "poisoned", "normed"])
def test_reading_late_is_the_same_training(changes: dict, tmp_path: Path) -> None:
    trained(maker(**changes), tmp_path / "once", Quiet())
    trained(late(**changes), tmp_path / "late", Quiet())
    once, found = last(tmp_path / "once"), last(tmp_path / "late")
    assert found.read("training.json") == once.read("training.json")
    torch.testing.assert_close(found.weights(), once.weights())


@pytest.mark.parametrize("changes", CHANGES[:2], ids=["plain", "poisoned"])
def test_read_late_it_resumes_exactly(changes: dict) -> None:
    resume_is_exact(late(**changes), kills=2, seed=3)


def test_steps_read_late_that_are_not_finite_stop_the_run(tmp_path: Path) -> None:
    make = late(bad_steps=2, stream={"poison": {(0, 2), (0, 3)}})
    trainer = make(tmp_path / "run", Quiet())
    with pytest.raises(UserError, match="2 steps in a row were not finite"):
        trainer.fit()
    assert all(p.isfinite().all() for p in trainer.model.parameters())
