"""Adaptive computation time against its equations, position by position, and what it must not depend on."""

import math

import pytest
import torch

from regard.assemble import build_model
from regard.encoder.transformer import EncoderLayer
from regard.encoder.universal import UniversalEncoder
from regard.layers.attention.multi_head import MultiHead
from regard.layers.capture import capture
from regard.layers.feed_forward import FeedForward
from regard.layers.halting import Halting
from regard.layers.position.sinusoidal import Sinusoidal
from regard.layers.residual import Residual
from regard.types import BEGIN, END, PAD, Batch

WIDTH = 6


def halting(epsilon=0.01, spread=0.6, bias=-1.0):
    """Halting probabilities that differ: some positions halt early, some late, some only at the limit."""
    torch.manual_seed(4)
    made = Halting(WIDTH, epsilon)
    torch.nn.init.normal_(made.judge.weight, std=spread)
    torch.nn.init.constant_(made.judge.bias, bias)
    return made


def think(x, step):
    """A step without attention between positions."""
    return torch.tanh(1.7 * x.roll(1, -1) + 0.3 * step) + 0.5 * x


def by_hand(made, vector, most, epsilon):
    """Graves 2016, equations 5 to 9 and 12 to 14, of a single position and in plain numbers."""
    weight, bias = made.judge.weight[0].tolist(), made.judge.bias.item()
    states, probabilities = [], []
    for step in range(most):
        vector = think(vector, step)
        states.append(vector)
        logit = sum(w * x for w, x in zip(weight, vector.tolist())) + bias
        probabilities.append(1 / (1 + math.exp(-logit)))
        if sum(probabilities) >= 1 - epsilon:
            break
    updates = len(states)
    remainder = 1 - sum(probabilities[:-1])
    shares = [*probabilities[:-1], remainder]
    mean = [sum(p * s[i].item() for p, s in zip(shares, states)) for i in range(WIDTH)]
    return mean, updates + remainder, shares


@pytest.mark.parametrize("most", [1, 2, 5, 12])
@pytest.mark.parametrize("epsilon", [0.01, 0.3])
@torch.no_grad()
def test_it_is_the_papers_equations(most, epsilon):
    made, x = halting(epsilon), torch.randn(3, 5, WIDTH)
    with capture(made) as seen:
        mean, ponder = made(x, think, most)
    (told,), (shares,) = seen["ponder"], seen["shares"]
    assert shares.shape == (3, 5, most)
    torch.testing.assert_close(told[..., 0], ponder)
    for row in range(3):
        for place in range(5):
            wanted, time, parts = by_hand(made, x[row, place], most, epsilon)
            assert mean[row, place].tolist() == pytest.approx(wanted, abs=1e-5)
            assert ponder[row, place].item() == pytest.approx(time, abs=1e-5)
            assert shares[row, place].tolist() == pytest.approx(parts + [0.0] * (most - len(parts)), abs=1e-6)
    if most == 12 and epsilon == 0.01:
        assert len(set(ponder.floor().flatten().tolist())) > 3, "all positions think equally long: this shows little"


@torch.no_grad()
def test_early_watched_and_masked_are_the_same():
    made, x = halting(bias=1.0), torch.randn(4, 5, WIDTH)
    mask = torch.arange(5) < torch.tensor([5, 3, 1, 0])[:, None]
    steps = []
    plain, ponder = made(x, think, 40, mask)
    early, again = made(x, lambda x, step: steps.append(step) or think(x, step), 40, mask, early=True)
    assert 1 < len(steps) < 40
    with capture(made) as seen:
        watched, _ = made(x, think, 40, mask, early=True)
    assert seen["shares"][0].shape == (4, 5, 40)
    torch.testing.assert_close(seen["shares"][0].sum(-1), mask.float())
    for other in (early, watched):
        torch.testing.assert_close(other, plain, rtol=0, atol=0)
    torch.testing.assert_close(again, ponder, rtol=0, atol=0)
    assert (ponder[~mask] == 0).all() and (plain[~mask] == 0).all() and (ponder[mask] > 1).all()
    alone, short = made(x[1:2, :3], think, 40)
    torch.testing.assert_close(plain[1:2, :3], alone)
    torch.testing.assert_close(ponder[1:2, :3], short)


@torch.no_grad()
def test_who_has_halted_stands_still_for_the_others_to_see():
    made = halting(spread=0.0)
    made.judge.weight[0, 0] = 100.0  # a first number above zero halts at once, one below never does
    x = torch.tensor([[[1.0] * WIDTH, [-1.0] * WIDTH]])
    seen = []
    made(x, lambda x, step: seen.append(x.clone()) or x * 1.5, 4)
    assert [float(s[0, 0, 0]) for s in seen] == [1.0, 1.5, 1.5, 1.5]
    assert [float(s[0, 1, 0]) for s in seen] == [-1.0, -1.5, -2.25, -3.375]


def test_thinking_longer_costs_and_the_cost_reaches_the_judge():
    made, x = halting(), torch.randn(2, 3, WIDTH)
    made(x, think, 6)[1].sum().backward()
    assert made.judge.bias.grad.item() < 0  # a greater bias halts sooner, and so costs less
    with torch.no_grad():
        before = made(x, think, 6)[1].sum()
        made.judge.bias += 1.0
        assert made(x, think, 6)[1].sum() < before - 1


@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_without_halting_it_is_one_layer_so_many_times(norm):
    torch.manual_seed(0)
    encoder = UniversalEncoder(8, layers=3, heads=2, feed_forward=16, norm=norm, halting=False).eval()
    layer = EncoderLayer(MultiHead(8, 2), FeedForward(8, 16), lambda: Residual(8, 0.0, norm)).eval()
    layer.load_state_dict(encoder.layer.state_dict())
    x, mask = torch.randn(2, 4, 8), torch.tensor([[True] * 4, [True, True, False, False]])
    found = encoder(x, mask)
    places = Sinusoidal(8)(torch.arange(4))
    for step in (1, 2, 3):
        x = layer(x + places + Sinusoidal(8)(torch.tensor([step])), mask[:, None, :])
    torch.testing.assert_close(found.states, encoder.norm(x))
    assert found.ponder_cost is None


@pytest.fixture
def model():
    torch.manual_seed(0)
    sizes = {"kind": "universal", "width": 8, "layers": 5, "heads": 2, "feed_forward": 16, "dropout": 0.0}
    made = build_model(
        {"stem": {"width": 8, "dropout": 0.0}, "encoder": sizes, "decoder": {**sizes, "ponder_cost": 0.5}}, 12
    )
    for part in (made.encoder, made.decoder):
        torch.nn.init.normal_(part.halting.judge.weight, std=1.0)
    return made


def batch():
    source = torch.tensor([[5, 6, 7, END], [8, END, PAD, PAD]])
    target = torch.tensor([[BEGIN, 5, END, PAD, PAD], [BEGIN, 6, 7, 8, END]])
    mask = (target != PAD) & (target != BEGIN)
    return Batch(source, source != PAD, target, mask, int(mask.sum()))


@torch.no_grad()
def test_padding_costs_nothing(model):
    both, given = batch(), batch().target[:, :-1]
    with capture(model) as seen:
        memory = model.encode(both.source, both.source_mask)
        _, state = model.decoder.step(given, model.decoder.start(memory, 1, 0))
    (read,), (written,) = seen["encoder.halting.ponder"], seen["decoder.halting.ponder"]
    torch.testing.assert_close(memory.ponder_cost, 0.01 * torch.stack([read[0].sum(), read[1, :2].sum()]))
    torch.testing.assert_close(state.ponder_cost, 0.5 * torch.stack([written[0, :3].sum(), written[1].sum()]))
    alone = model.encode(both.source[1:, :2], both.source_mask[1:, :2])
    torch.testing.assert_close(alone.ponder_cost, memory.ponder_cost[1:])


@torch.no_grad()
def test_the_cost_belongs_to_training_and_a_validation_loss_stays_the_likelihood(model):
    both = batch()
    memory = model.encode(both.source, both.source_mask)
    _, state = model.decoder.step(both.target[:, :-1], model.decoder.start(memory, 1, 0))
    trained, judged = model.train().loss(both).total, model.eval().loss(both).total
    torch.testing.assert_close(trained - judged, memory.ponder_cost.sum() + state.ponder_cost.sum())
    assert trained - judged > 1


@torch.no_grad()
def test_heads_of_all_steps_are_told_side_by_side(model):
    both = batch()
    with capture(model) as seen:
        model(both.source, both.source_mask, both.target)
    (written,) = seen["decoder.layer.cross_attention.weights"]
    assert written.shape == (2, 5 * 2, 5, 4)
    (read,) = seen["encoder.layer.attention.weights"]
    taken = int((seen["encoder.halting.shares"][0] > 0).any(0).any(0).sum())
    assert read.shape == (2, taken * 2, 4, 4)


@torch.no_grad()
def test_who_thinks_longer_sees_those_before_it_that_had_halted(model):
    model.eval()
    torch.nn.init.normal_(model.decoder.embedding.table.weight)
    torch.nn.init.normal_(model.decoder.halting.judge.weight, std=2.0)
    torch.nn.init.constant_(model.decoder.halting.judge.bias, -3.0)
    ids = torch.tensor([[BEGIN, 5, 9, 7, 4, 8, 6, 11]])
    memory = model.encode(batch().source[:1], batch().source_mask[:1])
    with capture(model.decoder) as seen:
        whole, _ = model.decoder.step(ids, model.decoder.start(memory, 1, 0))
    (ponder,) = seen["halting.ponder"]
    assert ponder[0, 4] < 3 and ponder[0, 5] > 5  # of five steps, and the remainder
    state, parts = model.decoder.start(memory, 1, 8), []
    for token in ids.split(1, 1):
        logits, state = model.decoder.step(token, state)
        parts.append(logits)
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=1e-4)
