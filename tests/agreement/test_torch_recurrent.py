"""Recurrent networks with the same weights as torch.nn's give the same numbers; one step of each cell by hand."""

import math
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.layers.capture import capture
from regard.layers.cell.gru import GRU
from regard.layers.cell.lstm import LSTM
from regard.layers.cell.rnn import RNN
from regard.layers.recurrence import Recurrence

INPUTS, WIDTH, LENGTHS = 3, 6, [4, 7, 1, 5]
THEIRS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
NAMES = {"inward": "weight_ih", "recurrent": "weight_hh", "bias": "bias_ih"}


def pair(kind, layers, direction):
    torch.manual_seed(0)
    ours = Recurrence(INPUTS, WIDTH, layers, kind, direction).double()
    both = direction == "both"
    theirs = THEIRS[kind](INPUTS, WIDTH // (1 + both), layers, batch_first=True, bidirectional=both).double()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.5)
        for name, parameter in theirs.named_parameters():
            if name.startswith("bias_hh"):  # their second bias; the first is enough
                parameter.zero_()
        for weight, parameter in matched(ours, theirs):
            weight.copy_(parameter)
    return ours, theirs


def matched(ours, theirs):
    """Our parameters and theirs, two by two."""
    for number in range(ours.layers):
        for cell, way in zip(ours.layer(number), ("", "_reverse")):
            for name, their_name in NAMES.items():
                yield getattr(cell, name), getattr(theirs, f"{their_name}_l{number}{way}")


@pytest.mark.parametrize("watched", [False, True], ids=["fused", "watched"])
@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("kind", THEIRS)
def test_outputs_states_and_gradients_agree(kind, layers, direction, watched):
    ours, theirs = pair(kind, layers, direction)
    lengths = torch.tensor(LENGTHS)
    x = torch.randn(len(lengths), max(LENGTHS), INPUTS, dtype=torch.double)
    mask = torch.arange(max(LENGTHS)) < lengths[:, None]
    first = [
        torch.randn(layers, len(lengths), WIDTH, dtype=torch.double, requires_grad=True) for _ in range(ours.parts)
    ]

    our_x = x.clone().requires_grad_()
    with capture(ours) if watched else nullcontext():
        outputs, finals = ours(our_x, mask, list(zip(*(part.unbind(0) for part in first))))

    # Theirs: (layers, directions) on one axis, and of both directions each has half the width.
    split = [part.unflatten(-1, (ours.directions, -1)).movedim(2, 1).flatten(0, 1) for part in first]
    packed = pack_padded_sequence(
        their_x := x.clone().requires_grad_(), lengths, batch_first=True, enforce_sorted=False
    )
    packed_outputs, their_finals = theirs(packed, split[0] if len(split) == 1 else tuple(split))
    their_outputs, _ = pad_packed_sequence(packed_outputs, batch_first=True)
    their_finals = [their_finals] if len(split) == 1 else list(their_finals)
    joined = [part.unflatten(0, (layers, ours.directions)).movedim(1, 2).flatten(2) for part in their_finals]

    values = [outputs, *(torch.stack(part) for part in zip(*finals))]
    their_values = [their_outputs, *joined]
    weights = [torch.randn_like(value) for value in values]
    our_leaves, their_leaves = zip((our_x, their_x), *((part, part) for part in first), *matched(ours, theirs))
    gradients, their_gradients = (
        torch.autograd.grad(sum((v * w).sum() for v, w in zip(found, weights)), leaves)
        for found, leaves in ((values, our_leaves), (their_values, their_leaves))
    )
    for some, others in ((values, their_values), (gradients, their_gradients)):
        for a, b in zip(some, others, strict=True):
            torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-10)


# One step with two inputs and two units, every product and sum in plain numbers. The rows of a gate stand together.
X, H, C = [2.0, -1.0], [0.5, -0.25], [1.0, -2.0]


def sigmoid(a):
    return 1 / (1 + math.exp(-a))


def weights_of(cell):
    """Small whole numbers, different in every row and column."""
    gates = len(cell.gates)
    inward = [[(3 * i + j) % 5 - 2.0 for j in range(2)] for i in range(2 * gates)]
    recurrent = [[(2 * i + 3 * j) % 7 - 3.0 for j in range(2)] for i in range(2 * gates)]
    bias = [(i % 3) / 2 - 0.5 for i in range(2 * gates)]
    with torch.no_grad():
        cell.inward.copy_(torch.tensor(inward))
        cell.recurrent.copy_(torch.tensor(recurrent))
        cell.bias.copy_(torch.tensor(bias))
    u_x = [b + row[0] * X[0] + row[1] * X[1] for b, row in zip(bias, inward)]
    w_h = [row[0] * H[0] + row[1] * H[1] for row in recurrent]
    return u_x, w_h


def stepped(cell, *state):
    """The state after one step, by the equations and by the kernel."""
    before = tuple(torch.tensor([part]) for part in state)
    by_hand, gates = cell.step(cell.project(torch.tensor([X])), before)
    outputs, fused = cell(torch.tensor([[X]]), None, before)
    for a, b in zip(by_hand, fused, strict=True):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(outputs[:, 0], by_hand[0])
    return [part[0].tolist() for part in by_hand], {name: value[0].tolist() for name, value in gates.items()}


def test_one_step_of_an_rnn_by_hand():
    cell = RNN(2, 2)
    u_x, w_h = weights_of(cell)
    # a = b + U x + W h: U = [[-2, -1], [1, 2]], W = [[-3, 0], [-1, 2]], b = [-0.5, 0]
    assert u_x == [-0.5 - 4 + 1, 0 + 2 - 2] and w_h == [-1.5, -0.5 - 0.5]
    (h,), gates = stepped(cell, H)
    assert h == pytest.approx([math.tanh(-5.0), math.tanh(-1.0)], abs=1e-6)
    assert gates["candidate"] == h


def test_one_step_of_an_lstm_by_hand():
    cell = LSTM(2, 2)
    u_x, w_h = weights_of(cell)
    a = [u + w for u, w in zip(u_x, w_h)]
    i, f, g, o = a[0:2], a[2:4], a[4:6], a[6:8]
    c = [sigmoid(f[k]) * C[k] + sigmoid(i[k]) * math.tanh(g[k]) for k in (0, 1)]
    h = [sigmoid(o[k]) * math.tanh(c[k]) for k in (0, 1)]
    (our_h, our_c), gates = stepped(cell, H, C)
    assert our_c == pytest.approx(c, abs=1e-6) and our_h == pytest.approx(h, abs=1e-6)
    assert gates["input"] == pytest.approx([sigmoid(k) for k in i], abs=1e-6)
    assert gates["forget"] == pytest.approx([sigmoid(k) for k in f], abs=1e-6)
    assert gates["candidate"] == pytest.approx([math.tanh(k) for k in g], abs=1e-6)
    assert gates["output"] == pytest.approx([sigmoid(k) for k in o], abs=1e-6)


def test_one_step_of_a_gru_by_hand():
    cell = GRU(2, 2)
    u_x, w_h = weights_of(cell)
    r = [sigmoid(u_x[k] + w_h[k]) for k in (0, 1)]
    z = [sigmoid(u_x[2 + k] + w_h[2 + k]) for k in (0, 1)]
    n = [math.tanh(u_x[4 + k] + r[k] * w_h[4 + k]) for k in (0, 1)]
    h = [(1 - z[k]) * n[k] + z[k] * H[k] for k in (0, 1)]
    (our_h,), gates = stepped(cell, H)
    assert our_h == pytest.approx(h, abs=1e-6)
    assert gates["reset"] == pytest.approx(r, abs=1e-6)
    assert gates["update"] == pytest.approx(z, abs=1e-6)
    assert gates["candidate"] == pytest.approx(n, abs=1e-6)


def test_an_open_forget_gate_and_closed_input_keep_the_cell_state():
    """The slide's reason for gates: with f = 1 and i = 0 what is remembered stays, for any number of steps."""
    cell = LSTM(2, 2)
    with torch.no_grad():
        cell.rows_of(cell.bias, "forget").fill_(50.0)
        cell.rows_of(cell.bias, "input").fill_(-50.0)
    _, (_, c) = cell(torch.randn(1, 100, 2), None, (torch.tensor([H]), torch.tensor([C])))
    torch.testing.assert_close(c, torch.tensor([C]))
