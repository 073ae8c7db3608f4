"""The laws of models that read and answer without writing: a stem, an encoder and a head, with every kind of encoder.

A new file in regard/model with a stem, an encoder and no decoder is found here, and so is a new encoder. Such a model
must say below what it is asked: one entry in ASKED.
"""

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch

from regard import registry
from regard.assemble import build_model
from regard.layers.capture import capture
from regard.layers.observable import Observable
from regard.types import PAD, Batch

VOCABULARY, LABELS, FEATURES, WIDTH = 23, 5, 2, 16
LENGTHS = [7, 4, 1, 6]
SIZES = {"width": WIDTH, "heads": 4, "feed_forward": 32, "layers": 2, "dropout": 0.1}
TOLD = {"vocabulary": VOCABULARY, "labels": LABELS, "features": FEATURES}
REAL = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


class Asked(NamedTuple):
    """What a kind of model is asked in these tests."""

    stem: str
    """The stem that reads for it: tokens (ids) or features (numbers)."""
    target: object
    """() -> (target, where it is wanted) for four rows of 7, 4, 1 and 6 positions."""
    options: dict = {}
    """Keys of the model section."""
    per_position: bool = True
    """What comes out has an entry for each position, the second axis; otherwise it is one thing an example."""


def classes():
    return torch.tensor([[0], [4], [2], [1]]), torch.ones(4, 1, dtype=torch.bool)


def tags():
    """At some positions of each row, up to the last labelled one."""
    wanted = REAL & torch.tensor([True, False, True, True, True, False, False])
    return torch.randint(LABELS, (4, 5)), wanted[:, :5]


def hidden():
    wanted = torch.tensor([[True, True], [True, False], [True, False], [True, True]])
    return torch.zeros(4, 2, dtype=torch.long), wanted


def places():
    return torch.randn(4, 7, 2), REAL


def future():
    return torch.randn(4, 3, FEATURES), torch.ones(4, 3, dtype=torch.bool)


ASKED = {
    "classifier": Asked("tokens", classes, per_position=False),
    "tagger": Asked("tokens", tags),
    "crf_tagger": Asked("tokens", tags),
    "masked_language_model": Asked("tokens", hidden),
    "tracker": Asked("features", places),
    "forecaster": Asked(
        "features", future, {"window": 7, "horizon": 3, "apart": False, "head": "mean"}, per_position=False
    ),
}


def heads():
    """Every kind of model that has a stem and an encoder but no decoder."""
    found = {kind: registry.keywords(registry.factory("model", kind)) for kind in registry.kinds("model")}
    return [kind for kind, own in found.items() if {"stem", "encoder"} <= own.keys() and "decoder" not in own]


def test_every_kind_says_what_it_is_asked():
    missing = [kind for kind in heads() if kind not in ASKED]
    assert not missing, f"add to ASKED in {__file__}: what {', '.join(missing)} reads, and a target for it"


def specs(encoder):
    known = registry.keywords(registry.factory("encoder", encoder))
    sizes = {name: size for name, size in SIZES.items() if name in known}
    variants = {
        "recurrent": [{"cell": "lstm"}, {"cell": "gru", "direction": "forward"}],
        "transformer": [{"norm": "pre"}, {"norm": "post"}],
        "universal": [{}, {"halting": False}],
    }
    return [{"kind": encoder, **sizes, **variant} for variant in variants.get(encoder, [{}])]


CASES = [
    pytest.param((kind, spec), id="-".join([kind, *(str(v) for k, v in spec.items() if k not in SIZES)]))
    for kind in heads()
    if kind in ASKED
    for encoder in registry.kinds("encoder")
    for spec in specs(encoder)
]


@pytest.fixture(params=CASES)
def asked(request):
    return request.param


@pytest.fixture
def model(asked):
    """With no weight special, and none at its first value."""
    kind, encoder = asked
    torch.manual_seed(0)
    stem = {"kind": ASKED[kind].stem, "width": WIDTH, "dropout": 0.1}
    made = build_model({"kind": kind, "stem": stem, "encoder": encoder, **ASKED[kind].options}, **TOLD).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


@pytest.fixture
def batch(asked):
    torch.manual_seed(3)
    about = ASKED[asked[0]]
    if about.stem == "tokens":
        source = torch.randint(4, VOCABULARY, REAL.shape).masked_fill(~REAL, PAD)
    else:
        source = torch.randn(*REAL.shape, FEATURES).masked_fill(~REAL[..., None], 0.0)
    target, wanted = about.target()
    return Batch(source, REAL, target, wanted, int(wanted.sum()))


def answers(model, source, mask):
    """All that comes out."""
    found = model(source, mask)
    return list(found) if isinstance(found, tuple) else [found]


def rows(asked, found, row):
    """What came out for one example, where it is real."""
    return [one[row : row + 1, : LENGTHS[row]] if ASKED[asked[0]].per_position else one[row : row + 1] for one in found]


def close(some, others):
    assert len(some) == len(others)
    for one, other in zip(some, others):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)


@torch.no_grad()
def test_padding_and_neighbours_do_not_matter(asked, model, batch):
    together = answers(model, batch.source, batch.source_mask)
    where = batch.source_mask.reshape(*batch.source_mask.shape, *(1 for _ in batch.source.shape[2:]))
    garbage = torch.where(where, batch.source, torch.full_like(batch.source, 9))
    spoilt = answers(model, garbage, batch.source_mask)
    for row, length in enumerate(LENGTHS):
        one = slice(row, row + 1)
        alone = answers(model, batch.source[one, :length], batch.source_mask[one, :length])
        close(alone, rows(asked, together, row))
        close(rows(asked, spoilt, row), rows(asked, together, row))
    close([model.loss(replace(batch, source=garbage)).total], [model.loss(batch).total])


@torch.no_grad()
def test_what_is_read_matters(model, batch):
    before = answers(model, batch.source, batch.source_mask)
    changed = batch.source.clone()
    changed[0, 3] = changed[0, 3] + 1 if changed.is_floating_point() else 4 + (changed[0, 3] - 3) % 19
    after = answers(model, changed, batch.source_mask)
    assert any((a[0] - b[0]).abs().max() > 1e-4 for a, b in zip(before, after))


@torch.no_grad()
def test_in_use_it_is_the_same_every_time(model, batch):
    assert torch.equal(model.loss(batch).total, model.loss(batch).total)
    for one, other in zip(*(answers(model, batch.source, batch.source_mask) for _ in range(2))):
        assert torch.equal(one, other)


@torch.no_grad()
def test_halves_add_up_and_nothing_else_is_counted(model, batch):
    whole = model.loss(batch)
    halves = [model.loss(half) for half in batch.split()]
    close([sum(half.total for half in halves)], [whole.total])
    assert sum(half.units for half in halves) == whole.units == batch.units
    where = batch.target_mask.reshape(*batch.target_mask.shape, *(1 for _ in batch.target.shape[2:]))
    other = torch.where(where, batch.target, batch.target.flip(0))
    close([model.loss(replace(batch, target=other)).total], [whole.total])


def test_every_parameter_learns(model, batch):
    model.train()
    model.loss(batch).total.backward()
    silent = [
        name
        for name, p in model.named_parameters()
        if p.grad is None or not p.grad.isfinite().all() or not p.grad.any()
    ]
    assert not silent


@torch.no_grad()
def test_watched_equals_unwatched(asked, model, batch):
    plain = answers(model, batch.source, batch.source_mask)
    with capture(model) as seen:
        spelled = answers(model, batch.source, batch.source_mask)
    for row in range(len(LENGTHS)):
        close(rows(asked, spelled, row), rows(asked, plain, row))
    assert bool(seen) == any(isinstance(module, Observable) for module in model.modules())


@torch.no_grad()
def test_what_thinking_costs_is_paid_in_training_only(model, batch):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.encoder.register_forward_hook(
        lambda encoder, inputs, memory: replace(memory, ponder_cost=torch.full((4,), 100.0))
    )
    used = model.loss(batch).total
    model.train()
    torch.manual_seed(0)
    assert model.loss(batch).total - used > 300


def test_all_it_knows_is_in_its_weights(asked, model, batch):
    """A saved model is made on the meta device and then given its weights."""
    kind, encoder = asked
    tree = {"kind": kind, "stem": {"kind": ASKED[kind].stem, "width": WIDTH}, "encoder": encoder, **ASKED[kind].options}
    with torch.device("meta"):
        empty = build_model(tree, **TOLD)
    empty.load_state_dict(dict(model.named_parameters()), assign=True)
    with torch.no_grad():
        for one, other in zip(*(answers(m.eval(), batch.source, batch.source_mask) for m in (model, empty))):
            assert torch.equal(one, other)
