"""Shifted positions: one random shift in training for both sides of a model, none in use."""

import torch

from regard.assemble import build_model
from regard.layers.position.shifted import Shifted, shift_together
from regard.layers.position.sinusoidal import Sinusoidal
from regard.types import BEGIN, END, Batch


def offset(table, width=8, most=50):
    """Which of the sinusoids the first row is, when all rows follow each other."""
    (found,) = [n for n in range(most) if torch.allclose(table, Sinusoidal(width)(torch.arange(n, n + len(table))))]
    return found


def test_in_training_they_begin_anywhere_and_in_use_at_zero():
    torch.manual_seed(0)
    position = Shifted(8, most=5)
    assert {offset(position(torch.arange(6))) for _ in range(80)} == {0, 1, 2, 3, 4, 5}
    position.eval()
    assert {offset(position(torch.arange(6))) for _ in range(20)} == {0}


def model(kind):
    shifted = {"kind": "shifted", "most": 20}
    sizes = {"kind": kind, "width": 8, "layers": 2, "heads": 2, "feed_forward": 8, "dropout": 0.0}
    where = "encoder" if kind == "universal" else "stem"
    parts = {"stem": {"width": 8, "dropout": 0.0}, "encoder": sizes, "decoder": {**sizes, "position": shifted}}
    return build_model({**parts, where: {**parts[where], "position": shifted}}, 12)


def test_a_model_moves_what_it_reads_and_what_it_writes_by_as_much():
    source, target = torch.tensor([[5, 6, END]]), torch.tensor([[BEGIN, 7, END]])
    batch = Batch(source, source > 0, target, target > BEGIN, 2)
    for kind in ("transformer", "universal"):
        torch.manual_seed(0)
        made, seen = model(kind), []
        positions = [module for module in made.modules() if isinstance(module, Shifted)]
        for module in positions:
            module.register_forward_hook(lambda module, given, table, seen=seen: seen.append(offset(table)))
        for _ in range(10):
            made.train().loss(batch)
        reading, writing = seen[::2], seen[1::2]
        assert len(positions) == 2 and reading == writing and len(set(reading)) > 4
        made.eval().loss(batch)
        assert seen[-2:] == [0, 0]


def test_none_are_shifted_where_there_are_none_and_no_random_number_is_spent():
    plain = torch.nn.Sequential(torch.nn.Linear(2, 2), Sinusoidal(4))
    state = torch.get_rng_state()
    shift_together(plain)
    assert torch.equal(state, torch.get_rng_state())
    different = torch.nn.ModuleList([Shifted(4, most=30), Shifted(4, most=2)])
    offsets = set()
    for _ in range(40):
        shift_together(different)
        assert different[0].offset == different[1].offset
        offsets.add(different[0].offset)
    assert offsets == {0, 1, 2}
