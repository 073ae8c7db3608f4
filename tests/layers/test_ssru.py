"""The SSRU against its equations, position by position; its gradients against autograd through that loop."""

import pytest
import torch

from regard.layers.capture import capture
from regard.layers.ssru import SSRU, linear_recurrence

WIDTH = 5


@pytest.fixture
def unit():
    torch.manual_seed(0)
    unit = SSRU(WIDTH).double()
    torch.nn.init.normal_(unit.inward.bias)
    return unit


def spelled_out(unit, x, state):
    """The equations of the paper, with the bias of W besides."""
    (w_f, w), (b_f, b) = unit.inward.weight.chunk(2), unit.inward.bias.chunk(2)
    outputs = []
    for t in range(x.shape[1]):
        f = torch.sigmoid(x[:, t] @ w_f.T + b_f)
        state = f * state + (1 - f) * (x[:, t] @ w.T + b)
        outputs.append(torch.relu(state))
    return torch.stack(outputs, 1), state


@pytest.mark.parametrize("length", [1, 2, 9])
def test_outputs_state_and_gradients_are_those_of_the_equations(unit, length):
    x = torch.randn(3, length, WIDTH, dtype=torch.double)
    first = torch.randn(3, WIDTH, dtype=torch.double)
    found = []
    for run in (unit, lambda x, first: spelled_out(unit, x, first)):
        given = x.clone().requires_grad_(), first.clone().requires_grad_()
        outputs, last = run(*given)
        weights = torch.arange(outputs.numel()).view_as(outputs).cos()
        grads = torch.autograd.grad((outputs * weights).sum() + last.sum(), [*given, *unit.parameters()])
        found.append([outputs, last, *grads])
    for ours, expected in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected)


def test_one_step_by_hand():
    unit = SSRU(1)
    torch.nn.init.zeros_(unit.inward.weight)
    unit.inward.bias.data = torch.tensor([0.0, 3.0])  # the gate is a half, the candidate 3
    outputs, last = unit(torch.zeros(1, 3, 1), torch.tensor([[-4.0]]))
    assert outputs.flatten().tolist() == [0.0, 1.25, 2.125]  # c is -0.5, 1.25, 2.125
    assert last.item() == 2.125


def test_the_gradient_of_the_recurrence_is_the_numerical_one():
    torch.manual_seed(0)
    given = [torch.randn(*shape, dtype=torch.double, requires_grad=True) for shape in ((2, 4, 3), (2, 4, 3), (2, 3))]
    assert torch.autograd.gradcheck(linear_recurrence, given)
    torch.library.opcheck(torch.ops.regard.linear_recurrence, [tensor.detach().requires_grad_() for tensor in given])


def test_the_state_keeps_its_precision_where_the_layer_computes_in_bfloat16():
    unit = SSRU(1).to(torch.bfloat16)
    torch.nn.init.zeros_(unit.inward.weight)
    unit.inward.bias.data = torch.tensor([9.0, 0.0], dtype=torch.bfloat16)  # sigmoid(9) is 0.99988, 1 in bfloat16
    outputs, last = unit(torch.zeros(1, 1000, 1, dtype=torch.bfloat16), torch.ones(1, 1))
    assert outputs.dtype == torch.bfloat16
    assert last.item() == pytest.approx((1 / (1 + 2.718281828**-9)) ** 1000, abs=1e-4)


def test_watched_equals_unwatched(unit):
    x, first = torch.randn(2, 4, WIDTH, dtype=torch.double), torch.zeros(2, WIDTH, dtype=torch.double)
    with capture(unit) as seen:
        outputs, last = unit(x, first)
    assert set(seen) == {"forget", "candidate", "cell"}
    assert torch.equal(seen["cell"][0].relu(), outputs) and torch.equal(seen["cell"][0][:, -1], last)
    assert torch.equal(unit(x, first)[0], outputs)
