"""The benchmarks run, give plausible numbers, and compare models that do the same work."""

import json
import sys
import time

import pytest
import torch
import typer

from regard import registry
from regard.assemble import build_model
from regard.bench import decode, generate, recurrent, train
from regard.bench._benchmark import Benchmark, Row, Setting
from regard.bench._compare import compare
from regard.bench._marian import marian_like
from regard.cli.bench import bench
from regard.errors import UserError
from regard.layers.recurrence import Recurrence
from regard.types import END

CPU = torch.device("cpu")
ROWS = {
    "train": 1,
    "decode": 4,
    "generate": 4,
    "recurrent": 4,
    "growth": 4,
    "cpu_decode": 1,
    "translate_file": 3,
    "cold_start": 2,
    "serve": 1,
    "busy": 2,
    "ray": 1,
    "search": 10,
}


SLOW = [
    "busy",
    "cold_start",
    "cpu_decode",
    "generate",
    "ray",
    "search",
    "serve",
    "translate_file",
]  # they start processes that load a model


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in registry.kinds("bench")]
)
def test_every_benchmark_runs_and_writes_its_rows(name, tmp_path, capsys):
    only = "float32, batch 2, greedy" if name == "cpu_decode" else ""
    bench([name], quick=True, device="cpu", only=only, output=tmp_path / "rows.json")
    printed = capsys.readouterr().out
    (found,) = json.loads((tmp_path / "rows.json").read_text())
    assert len(found["rows"]) == ROWS[name]
    for row in found["rows"]:
        assert row["ours"] > 0 and row["theirs"] > 0
        if name == "cold_start":
            assert row["seconds over"] == pytest.approx(row["ours"] - row["theirs"])
        else:
            assert row["ratio"] == pytest.approx(row["ours"] / row["theirs"])
        assert row["name"] in printed


class Sleep(Benchmark):
    title, peer = "sleeping", "the bear"

    def rows(self, setting):
        yield compare(setting, "nap", 10, lambda: lambda: time.sleep(0.06), lambda: lambda: time.sleep(0.01), 3, 0.0)


class Wait(Sleep):
    verdict, ceiling = "seconds over", True


def test_ratio_is_that_of_the_times():
    (row,) = Sleep().rows(Setting(CPU))
    assert row.ours < 10 / 0.06 * 1.01 and row.theirs < 10 / 0.01 * 1.01  # a sleep is never shorter than asked for
    assert row.verdict == row.ours / row.theirs
    head, line = Sleep().table([row]).splitlines()
    assert "the bear tokens/s" in head and line.startswith("nap") and len(head) == len(line)


@pytest.mark.parametrize("benchmark, allowed, refused", [(Sleep(), 0.4, 0.6), (Wait(), 0.6, 0.4)])
def test_what_is_worse_than_required_is_named(benchmark, allowed, refused):
    rows = [Row("nap", 1.0, 2.0, 0.5, 700.0, 300.0), Row("snore", 1.0, 2.0, 0.5)]
    assert benchmark.failing(rows, None) == benchmark.failing(rows, allowed, 700) == []
    assert len(found := benchmark.failing(rows, refused)) == 2 and found[1].startswith("snore")
    assert benchmark.failing(rows, allowed, 699) == ["nap: 700 MiB, above 699"]


def test_a_goal_is_shown_with_whether_it_was_met():
    rows = [Row("nap", 1.0, 2.0, 0.5, goal=">= 0.4"), Row("snore", 1.0, 2.0, 0.5, goal=">= 1", met=False)]
    assert [line.split()[-2:] for line in Sleep().table(rows).splitlines()[1:]] == [["0.4", "(met)"], ["1", "(missed)"]]
    assert [(row["goal"], row["met"]) for row in Sleep().as_tree(rows)] == [(">= 0.4", True), (">= 1", False)]
    assert "goal" not in Sleep().table([Row("nap", 1.0, 2.0, 0.5)])


def test_the_command_fails_below_what_is_required(capsys):
    with pytest.raises(typer.Exit) as left:
        bench(["growth"], quick=True, device="cpu", only="batch 1, at 512", require=1000)
    assert left.value.exit_code == 1
    printed = capsys.readouterr()
    assert "batch 1, at 512" in printed.err and "below 1000" in printed.err
    assert len(printed.out.strip().splitlines()) == 3  # only the row that was asked for


def test_a_peer_that_is_not_installed_is_left_out_with_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys.modules["regard.cli.bench"], "find_spec", lambda name: None)
    kinds = registry.kinds
    monkeypatch.setattr(registry, "kinds", lambda family: ["growth", "decode"] if family == "bench" else kinds(family))
    bench(quick=True, device="cpu", only="batch")
    printed = capsys.readouterr()
    assert "growth:" in printed.out and "decode:" not in printed.out
    (line,) = [line for line in printed.err.splitlines() if "decode" in line]
    assert "pip install transformers" in line
    with pytest.raises(UserError, match="pip install transformers"):
        bench(["decode"], quick=True, device="cpu")


def test_mistakes_are_said_before_anything_is_measured(tmp_path):
    for arguments, why in (
        ({"names": ["grwoth"]}, "did you mean 'growth'"),
        ({"require": 1.0}, "name it"),
        ({"names": ["growth", "train"], "memory": 1.0}, "name it"),
        ({"names": ["translate-file"], "source": tmp_path / "none"}, "does not exist"),
        ({"names": ["growth"], "quick": True, "only": "moon"}, "'moon'"),
        ({"names": ["growth"], "device": "moon"}, "moon"),
    ):
        with pytest.raises(UserError, match=why):
            bench(**arguments)


def test_they_are_listed_with_what_they_measure(capsys):
    bench(list_=True)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == [kind.replace("_", "-") for kind in registry.kinds("bench")]
    assert all(len(line.split()) > 5 for line in printed)


@pytest.fixture(scope="module", params=["post", "pre"])
def pair(request):
    torch.manual_seed(3)
    tree = {"preset": "tiny", "dropout": 0.0, "norm": request.param}
    ours = build_model(tree, 300, label_smoothing=train.SMOOTHING).eval()
    return ours, marian_like(ours)


@pytest.mark.parametrize("width", [1, 4])
def test_both_write_the_same_tokens(pair, width):
    source = torch.randint(4, 300, (3, 32))
    source[:, -1] = END
    ours, theirs = decode.our_output(pair[0], source, width), decode.marian_output(pair[1], source, width)
    assert ours == theirs
    assert all(len(row) == decode.LENGTH and END not in row for row in ours)


def test_both_language_models_write_the_same_tokens(tmp_path):
    ours, theirs = generate.random_model(tmp_path, generate.QUICK, 500)
    how = {"batch": 1, "length": 20, "sampled": False, "device": "cpu"}
    (found,) = generate.our_work(str(ours), "float32", **how)()
    (wanted,) = generate.their_work(str(theirs), "float32", **how)()
    assert found == [f"▁t{id}" for id in wanted]


def test_both_minimise_the_same_loss(pair):
    batch = train.random_batch(300, 4, 7)
    torch.testing.assert_close(train.our_loss(pair[0], batch), train.marian_loss(pair[1], batch))


def recurrent_stacks(ours, theirs):
    return [(ours.encoder.recurrence, theirs.encoder), (ours.decoder.recurrence, theirs.decoder)]


@pytest.mark.parametrize("direction", ["forward", "both"])
def test_both_recurrent_networks_minimise_the_same_loss_with_the_same_gradients(direction):
    torch.manual_seed(4)
    ours = recurrent.our_model(60, 16, direction, dropout=0.0)
    theirs = recurrent.plain_like(ours)
    batch = recurrent.random_batch(60, 6, 9)
    assert len(set(batch.source_mask.sum(1).tolist())) > 2 and not batch.target_mask.all()
    losses = train.our_loss(ours, batch), recurrent.plain_loss(theirs, batch)
    torch.testing.assert_close(*losses)
    for loss in losses:
        loss.backward()
    pairs = [pair for stacks in recurrent_stacks(ours, theirs) for pair in recurrent.same_weights(*stacks)]
    assert len(pairs) == 3 * sum(len(stack.cells) for stack, _ in recurrent_stacks(ours, theirs))
    for our_weight, their_weight in [*pairs, (ours.stem.embedding.table.weight, theirs.embedding.weight)]:
        assert our_weight.grad.abs().max() > 0
        torch.testing.assert_close(our_weight.grad, their_weight.grad, atol=1e-6, rtol=1e-4)
    extra = sum(
        bias.numel()
        for name, bias in theirs.named_parameters()
        if name.startswith(("encoder.bias_hh", "decoder.bias_hh"))
    )
    assert sum(p.numel() for p in theirs.parameters()) - extra == sum(p.numel() for p in ours.parameters())


@pytest.mark.parametrize("direction", ["forward", "both"])
def test_both_recurrent_stacks_compute_the_same(direction):
    torch.manual_seed(5)
    ours = Recurrence(8, 8, 2, "lstm", direction)
    mask = recurrent.random_batch(60, 6, 9).source_mask
    x = torch.randn(*mask.shape, 8)
    torch.testing.assert_close(ours(x, mask)[0], recurrent.Packed(recurrent.lstm_like(ours))(x, mask)[0])
