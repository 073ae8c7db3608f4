"""The laws of cells and of stacks of them. Every file in layers/cell is found and held to them."""

import pytest
import torch

from regard import registry
from regard.errors import UserError
from regard.layers.capture import capture
from regard.layers.recurrence import Recurrence

INPUTS, WIDTH, LENGTH = 3, 4, 5
KINDS = registry.kinds("layers/cell")
STACKS = [(1, "backward"), (1, "both"), (2, "forward"), (3, "backward"), (3, "both")]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["plain", "norm"])
def norm(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["forwards", "backwards"])
def backwards(request):
    return request.param


def randomised(module):
    """In double precision, where two ways to compute the same differ by next to nothing, and with no weight special."""
    torch.manual_seed(0)
    module = module.double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return module


def cell_of(kind, norm=False):
    return randomised(registry.build("layers/cell", kind, inputs=INPUTS, width=WIDTH, norm=norm))


def stack_of(kind, layers, direction, **options):
    return randomised(Recurrence(INPUTS, 2 * WIDTH, layers, kind, direction, **options))


def padded():
    """A row of each length, not in order."""
    torch.manual_seed(1)
    lengths = torch.tensor([3, 1, 5, 2, 4])
    assert sorted(lengths.tolist()) == list(range(1, LENGTH + 1))
    return torch.randn(LENGTH, LENGTH, INPUTS, dtype=torch.double), torch.arange(LENGTH) < lengths[:, None]


def states_for(*shape, parts):
    torch.manual_seed(2)
    return tuple(torch.randn(*shape, dtype=torch.double) for _ in range(parts))


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-10)


def all_close(some, others):
    for a, b in zip(some, others, strict=True):
        close(a, b)


def values_and_gradients(run, x, states, parameters):
    """What `run(x, states)` gives, and the gradient of a weighted sum of all of it for everything it depends on."""
    leaves = [x.clone().requires_grad_(), *(part.clone().requires_grad_() for layer in states for part in layer)]
    parts = len(states[0])
    again = [tuple(leaves[1 + i : 1 + i + parts]) for i in range(0, len(leaves) - 1, parts)]
    outputs, finals = run(leaves[0], again)
    values = [outputs, *(part for layer in finals for part in layer)]
    torch.manual_seed(3)
    total = sum((value * torch.randn_like(value)).sum() for value in values)
    return values, torch.autograd.grad(total, [*leaves, *parameters])


def test_fused_equals_spelled_out_with_every_gradient_at_every_length(kind, backwards, monkeypatch):
    cell = cell_of(kind)
    x, mask = padded()
    state = states_for(LENGTH, WIDTH, parts=len(cell.parts))

    def with_padding(way):
        def run(x, states):
            outputs, final = way(x, mask, states[0], backwards=backwards)
            return outputs, [final]

        return run

    values, gradients = values_and_gradients(with_padding(cell.spelled_out), x, [state], cell.parameters())
    monkeypatch.setattr(cell, "step", None)  # unwatched, nobody walks through the equations
    fused_values, fused_gradients = values_and_gradients(with_padding(cell), x, [state], cell.parameters())
    all_close(fused_values, values)
    all_close(fused_gradients, gradients)
    assert len(gradients) == 1 + len(cell.parts) + 3


def test_without_a_mask_every_position_is_read(kind, backwards):
    cell = cell_of(kind)
    x, _ = padded()
    everywhere = torch.ones(x.shape[:2], dtype=torch.bool)
    state = cell.initial(LENGTH)
    outputs, final = cell.spelled_out(x, None, state, backwards)
    for mask in (None, everywhere):
        for again in (cell(x, mask, backwards=backwards), cell.spelled_out(x, mask, state, backwards)):
            close(again[0], outputs)
            all_close(again[1], final)


@pytest.mark.parametrize("layers, direction", STACKS)
def test_a_watched_stack_equals_the_fused_one_with_every_gradient(kind, layers, direction, monkeypatch):
    stack = stack_of(kind, layers, direction)
    x, mask = padded()
    states = [states_for(LENGTH, 2 * WIDTH, parts=stack.parts) for _ in range(layers)]
    with capture(stack) as seen:
        values, gradients = values_and_gradients(lambda x, s: stack(x, mask, s), x, states, stack.parameters())
    assert seen
    monkeypatch.setattr(stack, "_layer_by_layer", None)
    fused_values, fused_gradients = values_and_gradients(lambda x, s: stack(x, mask, s), x, states, stack.parameters())
    all_close(fused_values, values)
    all_close(fused_gradients, gradients)
    assert len(values) == 1 + layers * stack.parts


@pytest.mark.parametrize("layers, direction", STACKS)
@pytest.mark.parametrize("watched", [False, True])
@torch.no_grad()
def test_padding_cannot_matter_gives_zeros_and_rows_are_alone(kind, norm, layers, direction, watched):
    stack = stack_of(kind, layers, direction, norm=norm)
    x, mask = padded()

    def run(x, mask):
        if not watched:
            return stack(x, mask)
        with capture(stack):
            return stack(x, mask)

    outputs, finals = run(x, mask)
    assert outputs.shape == (LENGTH, LENGTH, 2 * WIDTH) and (outputs[~mask] == 0).all() and (outputs[mask] != 0).all()
    changed = torch.where(mask[..., None], x, torch.full_like(x, 1e6))
    other, other_finals = run(changed, mask)
    close(other, outputs)
    for row in range(LENGTH):
        real = mask[row]
        alone, alone_finals = run(x[row : row + 1, real], real[real][None])
        close(outputs[row : row + 1, real], alone)
        for layer, other_layer, alone_layer in zip(finals, other_finals, alone_finals, strict=True):
            all_close(other_layer, layer)
            all_close([part[row : row + 1] for part in layer], alone_layer)


@torch.no_grad()
def test_every_real_position_matters(kind, norm, backwards):
    cell = cell_of(kind, norm)
    x, mask = padded()
    _, (hidden, *_) = cell(x, mask, backwards=backwards)
    for t in range(LENGTH):
        changed = x.clone()
        changed[:, t] += 1
        _, (other, *_) = cell(changed, mask, backwards=backwards)
        assert ((other - hidden).abs().amax(1) > 1e-6).tolist() == mask[:, t].tolist()


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("half", range(1, LENGTH))
@torch.no_grad()
def test_two_halves_with_the_state_carried_equal_the_whole(kind, norm, backwards, half, watched):
    """Cut before its end, a short row's second half is padding only: its state must wait there unchanged."""
    stack = stack_of(kind, 2, "backward" if backwards else "forward", norm=norm)
    x, mask = padded()
    parts = [slice(0, half), slice(half, LENGTH)]
    whole, finals = stack(x, mask)
    outputs, state = {}, None
    for part in reversed(parts) if backwards else parts:
        if watched:
            with capture(stack):
                outputs[part.start], state = stack(x[:, part], mask[:, part], state)
        else:
            outputs[part.start], state = stack(x[:, part], mask[:, part], state)
    close(torch.cat([outputs[part.start] for part in parts], 1), whole)
    for layer, again in zip(finals, state, strict=True):
        all_close(again, layer)


@torch.no_grad()
def test_the_last_hidden_state_is_the_last_output(kind, norm, backwards):
    cell = cell_of(kind, norm)
    x, mask = padded()
    outputs, (hidden, *_) = cell(x, mask, backwards=backwards)
    last = torch.zeros(LENGTH, dtype=torch.long) if backwards else mask.sum(1) - 1
    close(hidden, outputs[torch.arange(LENGTH), last])


@torch.no_grad()
def test_both_directions_are_one_each_side_by_side(kind):
    both = stack_of(kind, 1, "both")
    x, mask = padded()
    outputs, [final] = both(x, mask)
    forward, backward = both.layer(0)
    assert both.cells[0] is forward and both.cells[1] is backward
    (first, first_state), (second, second_state) = forward(x, mask), backward(x, mask, backwards=True)
    close(outputs, torch.cat([first, second], -1))
    all_close(final, [torch.cat(pair, -1) for pair in zip(first_state, second_state)])


@torch.no_grad()
def test_reading_backwards_is_reading_the_turned_sentence(kind, norm):
    cell = cell_of(kind, norm)
    x, mask = padded()
    outputs, final = cell(x, mask, backwards=True)
    for row in range(LENGTH):
        real = x[row : row + 1, mask[row]]
        turned, turned_final = cell(real.flip(1))
        close(outputs[row : row + 1, mask[row]], turned.flip(1))
        all_close([part[row : row + 1] for part in final], turned_final)


def test_parameters_are_those_of_the_formula(kind):
    """W, U and one bias for each gate."""
    cell = registry.build("layers/cell", kind, inputs=7, width=5)
    assert sum(p.numel() for p in cell.parameters()) == len(cell.gates) * (5 + 5 * 5 + 5 * 7)
    stack = Recurrence(7, 10, 3, kind, "both")
    one = len(cell.gates) * (5 + 5 * 5)
    assert sum(p.numel() for p in stack.parameters()) == 6 * one + len(cell.gates) * 5 * (2 * 7 + 4 * 10)


def test_every_gate_begins_as_a_rotation_and_without_a_bias_but_to_remember(kind):
    cell = registry.build("layers/cell", kind, inputs=7, width=5)
    for gate, weight in zip(cell.gates, cell.recurrent.chunk(len(cell.gates))):
        torch.testing.assert_close(weight @ weight.T, torch.eye(5), atol=1e-5, rtol=0)
        expected = 1.0 if gate == "forget" else 0.0
        assert cell.rows_of(cell.bias, gate).tolist() == [expected] * 5


@torch.no_grad()
def test_norm_is_of_both_products_over_all_gates(kind):
    cell = cell_of(kind, norm=True)
    bias, rows = cell.bias, len(cell.gates) * WIDTH
    for gain in (cell.norm_inward.weight, cell.norm_recurrent.weight):
        assert gain.shape == (rows,)
        gain.fill_(1.0)
    for normalised in (
        cell.project(torch.randn(2, 6, INPUTS).double() * 50) - bias,
        cell.recur(torch.randn(9, WIDTH).double() * 50),
    ):
        close(normalised.mean(-1), torch.zeros(normalised.shape[:-1]).double())
        torch.testing.assert_close(
            normalised.var(-1, correction=0), torch.ones(normalised.shape[:-1]).double(), atol=1e-3, rtol=0
        )
    before = cell.project(torch.ones(1, INPUTS).double()), cell.recur(torch.ones(1, WIDTH).double())
    cell.norm_inward.weight.fill_(3.0)
    cell.norm_recurrent.weight.fill_(4.0)
    close(cell.project(torch.ones(1, INPUTS).double()) - bias, 3 * (before[0] - bias))
    close(cell.recur(torch.ones(1, WIDTH).double()), 4 * before[1])


@torch.no_grad()
def test_with_the_norm_the_size_of_the_weights_does_not_matter(kind):
    x, mask = padded()
    for norm in (True, False):
        cell = cell_of(kind, norm)
        cell.recurrent *= 10
        cell.inward *= 10
        state = states_for(LENGTH, WIDTH, parts=len(cell.parts))
        before, _ = cell(x, mask, state)
        cell.recurrent *= 10
        cell.inward *= 10
        after, _ = cell(x, mask, state)
        assert torch.allclose(after, before, atol=1e-4) == norm


@torch.no_grad()
def test_the_norm_of_a_cell_state_is_between_it_and_the_hidden_state():
    """Ba et al., equation 22: h = o tanh(LN(c)), while c itself is carried on as it is."""
    cell = cell_of("lstm", norm=True)
    x, mask = padded()
    with capture(cell) as seen:
        outputs, _ = cell(x, mask)
    c, o = seen["cell"][0], seen["output"][0]
    centred = c - c.mean(-1, keepdim=True)
    normalised = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    hidden = o * torch.tanh(normalised * cell.norm_cell.weight + cell.norm_cell.bias)
    close(outputs, hidden * mask[..., None])
    i, f, g = (seen[gate][0] for gate in ("input", "forget", "candidate"))
    close(c[:, 1:][mask[:, 1:]], (f[:, 1:] * c[:, :-1] + i[:, 1:] * g[:, 1:])[mask[:, 1:]])


def test_every_weight_learns(kind, norm):
    """To tell, at the end, what stood first: the loss must fall, and every parameter take part."""
    torch.manual_seed(0)
    stack = Recurrence(INPUTS, 16, 2, kind, norm=norm)
    start = {name: p.detach().clone() for name, p in stack.named_parameters()}
    optimizer = torch.optim.Adam(stack.parameters(), lr=0.02)
    x = torch.randn(32, 4, INPUTS)
    losses = []
    for _ in range(60):
        loss = (stack(x)[0][:, -1, :INPUTS] - x[:, 0].tanh()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    assert not [name for name, p in stack.named_parameters() if torch.equal(p, start[name])]


@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize("watched", [False, True])
@torch.no_grad()
def test_dropout_is_between_layers_when_training(kind, direction, watched):
    x, mask = padded()

    def run(stack, seed=0):
        torch.manual_seed(seed)
        if not watched:
            return stack(x, mask)[0]
        with capture(stack):
            return stack(x, mask)[0]

    stack = stack_of(kind, 2, direction, dropout=0.5)
    calm = run(stack.eval())
    dropped = run(stack.train())
    assert not torch.allclose(dropped, calm)
    assert torch.equal(run(stack), dropped) and not torch.equal(run(stack, seed=1), dropped)
    assert (dropped[mask] != 0).all()  # none after the last layer
    single = stack_of(kind, 1, direction, dropout=0.5)
    close(run(single.train()), run(single.eval()))
    # All of it dropped, the second layer reads nothing; and the first is not what loses its input.
    stack.dropout = 1.0
    upper = Recurrence(2 * WIDTH, 2 * WIDTH, 1, kind, direction).double()
    upper.load_state_dict(
        {f"cells.{i}.{k}": v for i, c in enumerate(stack.layer(1)) for k, v in c.state_dict().items()}
    )
    close(run(stack.train()), upper(torch.zeros(LENGTH, LENGTH, 2 * WIDTH).double(), mask)[0])


@pytest.mark.parametrize("watched", [False, True])
@torch.no_grad()
def test_what_is_not_dropped_grows_to_make_up(kind, watched):
    stack = randomised(Recurrence(1, 1, 2, kind, dropout=0.75)).train()
    x = torch.full((200, 1, 1), 0.3).double()
    first, second = stack.cells
    between = first(x)[0][:1]
    if watched:
        with capture(stack):
            outputs = stack(x)[0].flatten()
    else:
        outputs = stack(x)[0].flatten()
    either = torch.cat([second(torch.zeros_like(between))[0], second(between / 0.25)[0]]).flatten()
    nearest = (outputs[:, None] - either).abs()
    assert nearest.amin(1).max() < 1e-12
    assert 25 <= nearest.argmin(1).sum() <= 75  # a quarter of 200


def test_a_run_that_must_repeat_exactly_drops_where_a_watched_one_does(kind):
    """Not in the kernel, whose random state cannot be saved."""
    stack = stack_of(kind, 2, "both", dropout=0.5).train()
    x, mask = padded()
    torch.manual_seed(0)
    with capture(stack):
        expected, _ = stack(x, mask)
    torch.use_deterministic_algorithms(True)
    try:
        found = []
        for seed in (0, 0, 1):
            torch.manual_seed(seed)
            found.append(stack(x, mask)[0])
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(found[0], found[1]) and not torch.allclose(found[0], found[2])
    close(found[0], expected)


@torch.no_grad()
def test_a_watcher_is_told_gates_within_their_bounds_at_their_positions(kind, norm, backwards):
    """Each told value follows by one step from the states told at the neighbouring position."""
    cell = cell_of(kind, norm)
    x, mask = padded()
    first = tuple(part.tanh() for part in states_for(LENGTH, WIDTH, parts=len(cell.parts)))
    with capture(cell) as seen:
        outputs, _ = cell(x, mask, first, backwards=backwards)
    assert set(seen) == {*cell.gates, *cell.parts} and all(len(calls) == 1 for calls in seen.values())
    told = {name: calls[0] for name, calls in seen.items()}
    for name in {*cell.gates, "hidden"}:
        low = -1 if name in ("candidate", "hidden") else 0
        assert told[name].shape == (LENGTH, LENGTH, WIDTH)
        assert (told[name] > low).all() and (told[name] < 1).all()
    close(told["hidden"] * mask[..., None], outputs)
    projected = cell.project(x)
    for row, real in enumerate(mask.sum(1).tolist()):
        state = tuple(part[row : row + 1] for part in first)
        for t in range(real - 1, -1, -1) if backwards else range(real):
            state, gates = cell.step(projected[row : row + 1, t], state)
            for name, value in (gates | dict(zip(cell.parts, state))).items():
                close(told[name][row : row + 1, t], value)


@torch.no_grad()
def test_in_a_stack_each_cell_tells_under_its_own_name(kind):
    stack = stack_of(kind, 2, "both")
    x, mask = padded()
    with capture(stack) as seen:
        outputs, _ = stack(x, mask)
    names = {*stack.layer(0)[0].gates, *stack.layer(0)[0].parts}
    assert set(seen) == {f"cells.{i}.{name}" for i in range(4) for name in names}
    together = torch.cat([seen["cells.2.hidden"][0], seen["cells.3.hidden"][0]], -1)
    close(together * mask[..., None], outputs)


def test_what_cannot_be_built_says_why(kind):
    with pytest.raises(UserError, match="direction: no 'sideways'; use forward, backward, both"):
        Recurrence(2, 4, cell=kind, direction="sideways")
    with pytest.raises(UserError, match="width 5 cannot be halved"):
        Recurrence(2, 5, cell=kind, direction="both")
