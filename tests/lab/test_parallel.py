"""Timing, fairness of the comparison; the verdict flips when its cause is removed."""

from __future__ import annotations

import copy
import time

import pytest
import torch

from regard.lab import parallel
from regard.lab._experiment import Setting
from regard.lab.parallel import (
    SIZES,
    Parallel,
    chain,
    decoders,
    encoders,
    longest_chain,
    parameters,
    slope,
    timed,
    write,
)
from regard.layers.capture import capture
from regard.types import BEGIN, Memory

EXPERIMENT, CPU, RECIPE = Parallel(), torch.device("cpu"), SIZES["tiny"]


@pytest.fixture(scope="module")
def numbers(tiny):
    return tiny("parallel").numbers


def as_if(numbers, **powers):
    """The numbers as they would be if each network's time grew with a power of the length, the longest taking 1 s."""
    made = copy.deepcopy(numbers)
    lengths = made["lengths"]
    for name, power in powers.items():
        made["seconds"]["batch"][name] = [(length / lengths[-1]) ** power for length in lengths]
    return made


def test_it_holds_when_only_the_recurrent_ones_grow_and_not_when_all_grow_alike(numbers):
    sequential = as_if(numbers, LSTM=1.0, RNN=0.9, Transformer=0.1)
    assert EXPERIMENT.verdict(sequential).held
    assert not EXPERIMENT.verdict(as_if(numbers, LSTM=1.0, RNN=1.0, Transformer=1.0)).held
    assert not EXPERIMENT.verdict(as_if(numbers, LSTM=0.0, RNN=0.0, Transformer=0.0)).held
    assert not EXPERIMENT.verdict(as_if(numbers, LSTM=1.0, RNN=0.3, Transformer=0.1)).held  # both are claimed
    assert not EXPERIMENT.verdict(as_if(numbers, LSTM=0.3, RNN=1.0, Transformer=0.1)).held
    assert EXPERIMENT.verdict(as_if(numbers, LSTM=0.6, RNN=0.6, Transformer=0.1)).held  # just what the rule asks for
    assert not EXPERIMENT.verdict(as_if(numbers, LSTM=0.58, RNN=0.6, Transformer=0.1)).held


def test_the_verdict_says_what_was_measured_and_excuses_only_a_processor(numbers):
    sentence = EXPERIMENT.verdict(as_if(numbers, LSTM=1.0, RNN=2.0, Transformer=0.0)).sentence
    assert "from 8 to 32 tokens" in sentence and "a step on 64 tokens" in sentence
    assert "4.00 times as long with the LSTM (slope 1.00)" in sentence
    assert "16.0 times as long with the RNN (slope 2.00)" in sentence
    assert "1.00 times as long with the Transformer (slope 0.00)" in sentence
    assert f"from {numbers['chains']['LSTM'][0]} to {numbers['chains']['LSTM'][-1]} in the LSTM" in sentence
    flat = as_if(numbers, LSTM=0.0, RNN=0.0, Transformer=0.0)
    assert "little to gain" in EXPERIMENT.verdict(flat).sentence and "little to gain" not in sentence
    assert "little to gain" not in EXPERIMENT.verdict(flat | {"device": "cuda"}).sentence


def test_the_slope_is_the_power_of_the_length(numbers):
    for power in (-0.5, 0.0, 1.0, 2.0):
        assert slope(as_if(numbers, LSTM=power), "batch", "LSTM") == pytest.approx(power)


@pytest.mark.parametrize("size", SIZES)
def test_the_compared_have_about_the_same_parameters(size):
    for made in (encoders(SIZES[size]), decoders(SIZES[size])):
        counts = [parameters(model) for model in made.values()]
        assert max(counts) / min(counts) < 1.1
        assert len(counts) == len(made) > 1


@pytest.mark.parametrize("size", SIZES)
def test_every_length_divides_the_tokens_and_doubles(size):
    recipe = SIZES[size]
    assert all(recipe.tokens % length == 0 for length in recipe.lengths)
    assert all(later == 2 * earlier for earlier, later in zip(recipe.lengths, recipe.lengths[1:]))


def test_a_step_reads_as_many_tokens_whatever_the_length_and_gives_every_weight_its_gradient(monkeypatch):
    seen = []
    monkeypatch.setattr(parallel, "timed", lambda works, *rest: {name: work() or 1.0 for name, work in works.items()})
    monkeypatch.setattr(parallel, "write", lambda decoder, memory, length: None)
    step = parallel.training_step

    def spied(encoder, x):
        step(encoder, x)
        assert all(weights.grad is not None and weights.grad.abs().max() > 0 for weights in encoder.parameters())
        seen.append((len(x), x.shape[1]))

    monkeypatch.setattr(parallel, "training_step", spied)
    EXPERIMENT.run("tiny", Setting())
    assert seen == [(8, 8)] * 3 + [(1, 8)] * 3 + [(4, 16)] * 3 + [(1, 16)] * 3 + [(2, 32)] * 3 + [(1, 32)] * 3


class Clock:
    """A clock that advances only when set."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def work(self, *seconds):
        taken = iter(seconds)

        def pass_time():
            self.now += next(taken)

        return pass_time


def test_the_time_is_the_median_of_rounds_in_turns_after_warming_up(monkeypatch):
    clock = Clock(monkeypatch)
    works = {"slow": clock.work(90, 4, 4, 50, 6), "fast": clock.work(70, 1, 3, 2, 1)}
    assert timed(works, CPU, rounds=3, least=0.0) == {"slow": 6, "fast": 2}


def test_short_works_are_done_several_times_between_two_looks_at_the_clock(monkeypatch):
    clock = Clock(monkeypatch)
    works = {"short": clock.work(9, 1, *[1, 1, 1, 5], *[2, 2, 2, 2])}
    assert timed(works, CPU, rounds=2, least=3.5) == {"short": 2}  # of (8 / 4) and (8 / 4)


def test_the_longest_chain_by_hand():
    x = torch.ones(3, requires_grad=True)  # its leaf counts, too: the gradient ends there
    assert longest_chain(x.exp()) == 2
    assert longest_chain(x.exp().exp().exp()) == 4
    assert longest_chain(x.exp().exp().exp() + x.sin()) == 5
    assert longest_chain(x.sin() + x.exp().exp().exp()) == 5
    doubled = x
    for _ in range(40):  # one after the other; as a tree it would have a million million branches
        doubled = doubled + doubled
    assert longest_chain(doubled) == 41
    assert longest_chain(torch.ones(3)) == 0


def test_the_chain_grows_with_the_length_only_where_steps_wait_for_one_another():
    made = encoders(RECIPE)
    for name in ("LSTM", "RNN"):
        four, eight, twelve = (chain(made[name], length, CPU) for length in (4, 8, 12))
        assert twelve - eight == eight - four >= 4 * RECIPE.layers
    assert chain(made["Transformer"], 4, CPU) == chain(made["Transformer"], 400, CPU) > 10
    x, mask = torch.zeros(1, 8, made["LSTM"].width), torch.ones(1, 8, dtype=torch.bool)
    with capture(made["LSTM"]) as seen:
        spelled = longest_chain(made["LSTM"](x, mask).states)
    assert seen and spelled > 3 * longest_chain(made["LSTM"](x, mask).states)  # fused, one operation hides them


@pytest.mark.parametrize("name", ["LSTM", "Transformer"])
def test_what_is_written_is_the_likeliest_token_after_the_likeliest(name):
    """One step at a time with the state kept, against the whole beginning read anew for every token."""
    torch.manual_seed(0)
    decoder = decoders(RECIPE)[name].eval()
    width = RECIPE.width
    final = [(torch.randn(2, width), torch.randn(2, width)) for _ in range(3)]
    memory = Memory(torch.randn(2, 5, width), torch.ones(2, 5, dtype=torch.bool), final)
    fed = []
    step = decoder.step
    decoder.step = lambda ids, state: (fed.append(ids.clone()), step(ids, state))[1]  # type: ignore[method-assign]
    assert int(write(decoder, memory, 6)) == 6
    del decoder.step
    expected = torch.full((2, 1), BEGIN)
    with torch.no_grad():
        for _ in range(5):
            logits, _ = decoder.step(expected, decoder.start(memory, beams=1, capacity=0))
            expected = torch.cat([expected, logits[:, -1:].argmax(-1)], 1)
    assert torch.equal(torch.cat(fed, 1), expected)


def test_the_table_has_every_number_once(numbers):
    made = as_if(numbers, LSTM=1.0)
    head, *rows = EXPERIMENT.table(made)
    assert head[3:] == ["8", "16", "32", "slope"]
    assert rows[0] == ["step of 64 tokens, ms", "LSTM", "4,224", "250", "500", "1000", "1.00"]
    assert [row[1] for row in rows] == [*parallel.READERS, *parallel.READERS, *parallel.WRITERS, *parallel.READERS]
    assert rows[-1] == [
        "longest chain of operations",
        "Transformer",
        "-",
        *map(str, made["chains"]["Transformer"]),
        "0.00",
    ]


def test_the_figure_draws_the_times(numbers):
    figure = EXPERIMENT.figure(numbers)
    reading, writing = figure.axes
    assert reading.get_xscale() == reading.get_yscale() == writing.get_xscale() == writing.get_yscale() == "log"
    drawn = [list(line.get_ydata()) for line in reading.lines]
    seconds = numbers["seconds"]
    assert drawn == [
        [1000 * t for t in seconds[kind][name]] for kind in ("batch", "alone") for name in parallel.READERS
    ]
    drawn = [list(line.get_ydata()) for line in writing.lines]
    assert drawn == [[1000 * t for t in seconds["writing"][name]] for name in parallel.WRITERS]
    assert all(list(line.get_xdata()) == numbers["lengths"] for line in [*reading.lines, *writing.lines])
