"""The benchmarks run, give believable numbers, and compare two models that really do the same work."""

import json
import time

import pytest
import torch

from bench import decode, train
from bench.compare import compare, run
from bench.marian import marian_like
from regard.assemble import build_model
from regard.types import END


@pytest.mark.parametrize("script, rows", [(train, 1), (decode, 2)])
def test_script_runs_and_writes_its_rows(script, rows, tmp_path, capsys):
    assert script.main(["--quick", "--device", "cpu", "--json", str(tmp_path / "rows.json")]) == 0
    printed = capsys.readouterr().out
    found = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert len(found) == rows
    for row in found:
        assert row["ours"] > 0 and row["marian"] > 0
        assert row["ratio"] == pytest.approx(row["ours"] / row["marian"])
        assert row["name"] in printed


def test_ratio_is_that_of_the_times_and_a_low_one_fails(capsys):
    def measure(device, quick):
        yield compare("sleep", 10, lambda: lambda: time.sleep(0.06), lambda: lambda: time.sleep(0.01), device, 3, 0.0)

    assert run("sleeping", measure, ["--device", "cpu", "--require", "0.9"]) == 1
    assert "sleep" in capsys.readouterr().err
    assert run("sleeping", measure, ["--device", "cpu", "--require", "0.001"]) == 0
    (row,) = measure(torch.device("cpu"), False)
    assert row.ours < 10 / 0.06 * 1.01 and row.marian < 10 / 0.01 * 1.01  # a sleep is never shorter than asked for
    assert row.ratio == row.ours / row.marian


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
