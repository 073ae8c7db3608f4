"""Batch norm against torch at every step, statistics and answers; the verdict depends on them."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
import torch
from torch import nn

from regard.lab.norms_through_time import (
    CONTROL,
    COUNTS,
    LAYER,
    NONE,
    OWN,
    RECALLS,
    SHARED,
    SIZES,
    TASKS,
    Network,
    NormsThroughTime,
    OverBatch,
    answers,
    at_steps,
    beyond,
    within,
)

EXPERIMENT = NormsThroughTime()
RECIPE, CPU = SIZES["tiny"], torch.device("cpu")


@pytest.fixture(scope="module")
def numbers(tiny):
    return tiny("norms_through_time").numbers


def test_the_answers_are_right():
    letters = torch.randint(4, (40, 9), generator=torch.Generator().manual_seed(1))
    most, asked = answers(COUNTS, letters)
    ago, asked_ago = answers(RECALLS, letters)
    now, asked_now = answers(CONTROL, letters)
    for row, line in enumerate(letters.tolist()):
        for t in range(9):
            (letter, first), *rest = Counter(line[: t + 1]).most_common()
            alone = not rest or rest[0][1] < first
            assert asked[row, t] == alone
            assert not alone or most[row, t] == letter
            assert asked_ago[row, t] == (t >= 2) and (t < 2 or ago[row, t] == line[t - 2])
    assert asked_now.all() and torch.equal(now, letters)


def peers(width, steps):
    """torch's batch norm, one for each step, with the gain of ours."""
    made = [nn.BatchNorm1d(width, momentum=None) for _ in range(steps)]
    for peer in made:
        nn.init.constant_(peer.weight, 0.1)
    return made


def test_it_is_torchs_batch_norm_with_one_for_every_step():
    torch.manual_seed(2)
    ours, theirs = OverBatch(5, shift=True), peers(5, 3)
    batches = [torch.randn(6, 3, 5) * torch.tensor([1.0, 2.0, 3.0])[:, None] for _ in range(4)]
    ours.uses = "gather"
    for batch in batches:
        wanted = torch.stack([peer(batch[:, t]) for t, peer in enumerate(theirs)], 1)
        torch.testing.assert_close(ours(batch), wanted)
    for peer in theirs:
        peer.eval()
    longer = torch.randn(7, 5, 5)
    ours.uses = OWN
    wanted = torch.stack([theirs[min(t, 2)](longer[:, t]) for t in range(5)], 1)
    torch.testing.assert_close(ours(longer), wanted)
    one_by_one = torch.stack([ours(longer[:, t]) for t in range(5)], 1)
    torch.testing.assert_close(one_by_one, wanted)
    ours.uses = SHARED
    mean, variance = (
        torch.stack([getattr(peer, f"running_{name}") for peer in theirs]).mean(0) for name in ("mean", "var")
    )
    torch.testing.assert_close(ours(longer), 0.1 * (longer - mean) / (variance + 1e-5).sqrt())


def test_the_whole_cell_by_torchs_batch_norm():
    """Cooijmans et al. 2017, equations 6 to 8, with torch's modules."""
    network = Network(OWN, COUNTS, 8, RECIPE, 3, CPU)
    letters = torch.randint(4, (8, 5))
    x, width = nn.functional.one_hot(letters, 4).float(), RECIPE.width
    inward, recurrent, outward = peers(4 * width, 5), peers(4 * width, 5), peers(width, 5)
    h = c = torch.zeros(8, width)
    wanted = []
    with torch.no_grad():
        for t in range(5):
            cell = network.cell
            a = recurrent[t](h @ cell.recurrent.T) + inward[t](x[:, t] @ cell.inward.T) + cell.bias
            i, f, g, o = a.chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * outward[t](c).tanh()
            wanted.append(network.line(h))
        torch.testing.assert_close(network(letters), torch.stack(wanted, 1), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("norm", "depends"), [(LAYER, False), (NONE, False), (OWN, True)])
def test_only_batch_norm_minds_the_neighbours(norm, depends):
    network = Network(norm, COUNTS, 8, RECIPE, 3, CPU)
    letters = torch.randint(4, (8, 6), generator=torch.Generator().manual_seed(4))
    others = torch.cat([letters[:1], (letters[1:] + 1) % 4])
    with torch.no_grad():
        same = torch.allclose(network(letters)[0], network(others)[0], atol=1e-6)
    assert same is not depends


def test_the_control_remembers_nothing():
    network = Network(OWN, CONTROL, 8, RECIPE, 3, CPU)
    network.gather()
    for norm in network.over_batch:
        norm.uses = OWN
    letters = torch.randint(4, (3, 6))
    changed = torch.cat([(letters[:, :3] + 1) % 4, letters[:, 3:]], 1)
    found = []
    for each in (letters, changed):
        network.random.manual_seed(7)
        with torch.no_grad():
            found.append(network(each))
    assert torch.equal(found[0][:, 3:], found[1][:, 3:]) and not torch.equal(found[0], found[1])


def test_it_holds(numbers):
    verdict = EXPERIMENT.verdict(numbers)
    assert verdict.held, verdict.sentence
    assert len(at_steps(numbers, OWN, COUNTS, 32)) == 32
    steps = at_steps(numbers, OWN, COUNTS, 32)
    assert within(numbers, OWN, COUNTS, 32) == pytest.approx(sum(steps[:8]) / 8)
    assert beyond(numbers, OWN, COUNTS, 32) == pytest.approx(sum(steps[24:]) / 8)
    first, second, *_ = at_steps(numbers, OWN, RECALLS, 32)
    assert first != first and second != second, "nothing is asked before the third step"


def replaced(numbers, way, task, batch, by, by_task=None, by_batch=None):
    made = copy.deepcopy(numbers)
    (source,) = [
        f for f in numbers["found"] if (f["way"], f["task"], f["batch"]) == (by, by_task or task, by_batch or batch)
    ]
    for found in made["found"]:
        if (found["way"], found["task"], found["batch"]) == (way, task, batch):
            found["right"] = source["right"]
    return made


@pytest.mark.parametrize("task", [COUNTS, RECALLS])
def test_shared_statistics_that_serve_as_well_flip_it(numbers, task):
    assert not EXPERIMENT.verdict(replaced(numbers, SHARED, task, 32, by=OWN)).held


@pytest.mark.parametrize("task", [COUNTS, RECALLS])
def test_without_recurrence_there_is_nothing_to_claim(numbers, task):
    """The control's own numbers in place of a task's."""
    made = replaced(numbers, SHARED, task, 32, by=SHARED, by_task=CONTROL)
    assert not EXPERIMENT.verdict(replaced(made, OWN, task, 32, by=OWN, by_task=CONTROL)).held


def test_a_control_in_which_sharing_costs_flips_it(numbers):
    assert not EXPERIMENT.verdict(replaced(numbers, SHARED, CONTROL, 32, by=SHARED, by_task=RECALLS)).held


def test_batch_norm_with_large_batches_in_place_of_small_ones_flips_it(numbers):
    assert not EXPERIMENT.verdict(replaced(numbers, OWN, COUNTS, 2, by=OWN, by_batch=32)).held


def test_a_layer_norm_that_is_lost_beyond_flips_it(numbers):
    made = copy.deepcopy(numbers)
    for found in made["found"]:
        if found["way"] == LAYER and found["task"] == COUNTS:
            found["right"][24:] = [0.25] * 8
    assert not EXPERIMENT.verdict(made).held


def test_every_task_has_its_spread(numbers):
    assert [found["task"] for found in numbers["spreads"]] == list(TASKS)
