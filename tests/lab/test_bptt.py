"""Back-propagation through time by hand, against autograd, finite differences and the cell."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from regard.lab._bptt import Weights, backward, contributions, forward, loss
from regard.layers.cell.rnn import RNN

NAMES = ["U", "W", "b", "V", "c"]
STEPS, INPUTS, WIDTH, CLASSES = 9, 4, 6, 5


@pytest.fixture
def sentence():
    torch.manual_seed(3)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64) * 0.7  # noqa: E731
    weights = Weights(draw(WIDTH, INPUTS), draw(WIDTH, WIDTH), draw(WIDTH), draw(CLASSES, WIDTH), draw(CLASSES))
    asked = torch.tensor([True, False, True, True, False, False, True, False, True])
    return weights, draw(STEPS, INPUTS), torch.randint(CLASSES, (STEPS,)), asked


def by_autograd(weights, x, targets, asked):
    """The same equations through torch.nn.functional, which shares no line with ours."""
    leaves = {name: value.clone().requires_grad_() for name, value in vars(weights).items()}
    h, states, total = x.new_zeros(WIDTH), [], x.new_zeros(())
    for t in range(STEPS):
        h = torch.tanh(
            torch.nn.functional.linear(torch.cat([x[t], h]), torch.cat([leaves["U"], leaves["W"]], 1), leaves["b"])
        )
        h.retain_grad()
        states.append(h)
        if asked[t]:
            total = total + torch.nn.functional.cross_entropy(leaves["V"] @ h + leaves["c"], targets[t])
    total.backward()
    return {name: leaf.grad for name, leaf in leaves.items()}, torch.stack([h.grad for h in states]), total.detach()


@pytest.mark.parametrize("every", [True, False], ids=["at every step", "where asked"])
@pytest.mark.parametrize("name", NAMES)
def test_each_gradient_is_autograds(name, every, sentence):
    weights, x, targets, asked = sentence
    asked = torch.ones_like(asked) if every else asked
    expected, _, _ = by_autograd(weights, x, targets, asked)
    found = backward(weights, forward(weights, x), targets, None if every else asked)
    assert expected[name].abs().max() > 1e-2
    torch.testing.assert_close(getattr(found.total, name), expected[name], atol=1e-10, rtol=0)


def test_loss_and_hidden_gradients_are_autograds(sentence):
    weights, x, targets, asked = sentence
    _, hidden, expected = by_autograd(weights, x, targets, asked)
    passed = forward(weights, x)
    torch.testing.assert_close(loss(passed.y, targets, asked), expected, atol=1e-10, rtol=0)
    found = backward(weights, passed, targets, asked)
    torch.testing.assert_close(found.h, hidden, atol=1e-10, rtol=0)
    torch.testing.assert_close(found.norms, hidden.norm(dim=1), atol=1e-10, rtol=0)


def test_the_shares_of_the_steps_add_up_to_the_gradient(sentence):
    """And each is what a weight of its own, used at that step alone, would get."""
    weights, x, targets, asked = sentence
    passed = forward(weights, x)
    found = backward(weights, passed, targets, asked)
    each = contributions(passed, found.o, found.a)
    assert list(each) == [field.name for field in dataclasses.fields(Weights)]
    for name, steps in each.items():
        torch.testing.assert_close(steps.sum(0), getattr(found.total, name), atol=1e-10, rtol=0)

    own = [weights.W.clone().requires_grad_() for _ in range(STEPS)]
    h, total = x.new_zeros(WIDTH), x.new_zeros(())
    for t in range(STEPS):
        h = torch.tanh(weights.b + own[t] @ h + weights.U @ x[t])
        total = total + asked[t] * torch.nn.functional.cross_entropy(weights.V @ h + weights.c, targets[t])
    torch.testing.assert_close(each["W"], torch.stack(torch.autograd.grad(total, own)), atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_small_nudge_changes_the_loss_as_the_gradient_says(name, sentence):
    weights, x, targets, asked = sentence
    gradient = getattr(backward(weights, forward(weights, x), targets, asked).total, name)
    nudge, size = torch.randn_like(gradient), 1e-5

    def after(step: float) -> float:
        moved = dataclasses.replace(weights, **{name: getattr(weights, name) + step * nudge})
        return loss(forward(moved, x).y, targets, asked).item()

    measured = (after(size) - after(-size)) / (2 * size)
    assert abs(measured) > 1e-2
    assert measured == pytest.approx((gradient * nudge).sum().item(), rel=1e-7)


def test_the_cell_reads_a_sentence_as_the_equations_do(sentence):
    weights, x, _, _ = sentence
    cell = RNN(INPUTS, WIDTH).double()
    with torch.no_grad():
        for parameter, value in ((cell.inward, weights.U), (cell.recurrent, weights.W), (cell.bias, weights.b)):
            parameter.copy_(value)
        torch.testing.assert_close(cell(x[None])[0][0], forward(weights, x).h, atol=1e-12, rtol=0)
