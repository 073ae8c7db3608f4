"""The benchmarks run, give believable numbers, and compare two models that really do the same work."""

import json
import time

import pytest
import torch

from bench import algorithms, decode, recurrent, train
from bench.compare import compare, run
from bench.marian import marian_like
from regard.assemble import build_model
from regard.layers.recurrence import Recurrence
from regard.types import END


@pytest.mark.parametrize("script, rows", [(train, 1), (decode, 2), (recurrent, 4)])
def test_script_runs_and_writes_its_rows(script, rows, tmp_path, capsys):
    assert script.main(["--quick", "--device", "cpu", "--json", str(tmp_path / "rows.json")]) == 0
    printed = capsys.readouterr().out
    found = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert len(found) == rows
    for row in found:
        assert row["ours"] > 0 and row["theirs"] > 0
        assert row["ratio"] == pytest.approx(row["ours"] / row["theirs"])
        assert row["name"] in printed


def test_ratio_is_that_of_the_times_and_a_low_one_fails(capsys):
    def measure(device, quick):
        yield compare("sleep", 10, lambda: lambda: time.sleep(0.06), lambda: lambda: time.sleep(0.01), device, 3, 0.0)

    assert run("sleeping", measure, ["--device", "cpu", "--require", "0.9"], "the bear") == 1
    printed = capsys.readouterr()
    assert "sleep" in printed.err and "the bear tokens/s" in printed.out
    assert run("sleeping", measure, ["--device", "cpu", "--require", "0.001"]) == 0
    (row,) = measure(torch.device("cpu"), False)
    assert row.ours < 10 / 0.06 * 1.01 and row.theirs < 10 / 0.01 * 1.01  # a sleep is never shorter than asked for
    assert row.ratio == row.ours / row.theirs


@pytest.fixture(scope="module")
def pair():
    torch.manual_seed(3)
    ours = build_model({"preset": "tiny", "dropout": 0.0}, 300, label_smoothing=train.SMOOTHING).eval()
    return ours, marian_like(ours)


@pytest.mark.parametrize("width", [1, 4])
def test_both_write_the_same_tokens(pair, width):
    source = torch.randint(4, 300, (3, 32))
    source[:, -1] = END
    ours, theirs = decode.our_output(pair[0], source, width), decode.marian_output(pair[1], source, width)
    assert ours == theirs
    assert all(len(row) == decode.LENGTH and END not in row for row in ours)


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


def test_algorithms_are_asked_of_both_models(capsys):
    assert algorithms.main(["--tasks", "copy", "--steps", "2", "--count", "3"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[:2] for row in rows] == [["copy", "transformer"], ["copy", "universal"]]
    shares = [float(cell) for row in rows for cell in row.split()[2:7]]
    assert len(shares) == 2 * len(algorithms.LENGTHS) and all(0 <= share <= 1 for share in shares)
    assert 1 < float(rows[1].split()[7]) <= 5  # of at most four steps, and what was left
