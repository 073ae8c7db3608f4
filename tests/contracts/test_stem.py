"""The laws of stems. Every file in stem is found and held to them, whatever kind of input it reads."""

import pytest
import torch

from regard import registry
from regard.spelling import CASINGS, COLUMNS

TOLD = {"vocabulary": 20, "channels": 3, "size": 16, "rate": 8000, "features": 5}
"""What the data would decide, by the name a stem's constructor gives it."""
ROWS = 3
WIDTH = 24
OTHERWISE = [
    ("patches", {"class_token": False, "position": "none"}),
    ("patches", {"distillation_token": True}),
    ("grid", {"stages": 2, "blocks": 2, "position": "sinusoidal"}),
    ("features", {"patch": 3}),
    ("frames", {"subsample": 1}),
    ("log_mel", {"seconds": 1.0, "mels": 20, "position": "learned"}),
]
"""A few that are made in another way; as they are made by default, all are found."""
STEMS = [*((kind, {}) for kind in registry.kinds("stem")), *OTHERWISE]


def built(made):
    kind, options = made
    return registry.build("stem", {"kind": kind, **options}, "model.stem", **TOLD, width=WIDTH).eval()


def padded(lengths, *shape, integers=False):
    """A batch of sequences, zero where they have ended, and where they have not."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    if integers:
        values = torch.randint(4, TOLD["vocabulary"], (*mask.shape, *shape))
    else:
        values = torch.randn(*mask.shape, *shape)
    return values * mask.reshape(*mask.shape, *(1 for _ in shape)), mask


def source_for(stem):
    """Three examples of its input, with the mask it comes with, and whether their lengths differ."""
    torch.manual_seed(1)
    reads = stem.reads
    if stem.spells:
        source, mask = padded([7, 3, 5], COLUMNS, integers=True)
        source[..., 1] %= len(CASINGS)
        return source, mask, True
    image = (TOLD["channels"], TOLD["size"], TOLD["size"])
    if reads == "image":
        return torch.randn(ROWS, *image), torch.ones(ROWS, 1, dtype=torch.bool), False
    sources = {
        "text": lambda: padded([7, 3, 5], integers=True),
        "sound": lambda: padded([4000, 1777, 2803]),
        "clip": lambda: padded([6, 2, 5], *image),
        "series": lambda: padded([9, 4, 7], TOLD["features"]),
    }
    return *sources[reads](), True


def garbage(source, mask):
    """The same batch with something else where there is nothing."""
    where = mask.reshape(*mask.shape, *(1 for _ in source.shape[2:]))
    return torch.where(where, source, torch.full_like(source, 9))


@pytest.fixture(params=STEMS, ids=lambda made: "-".join([made[0], *made[1]]))
def made(request):
    return request.param


@pytest.fixture
def stem(made):
    """With no weight special, and none large: what is close should be close."""
    torch.manual_seed(0)
    stem = built(made)
    for parameter in stem.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return stem


@pytest.fixture
def batch(stem):
    return source_for(stem)


def real(output):
    """The vectors of each row that are real."""
    vectors, mask = output
    return [row[here] for row, here in zip(vectors, mask)]


def all_close(some, others):
    assert len(some) == len(others)
    for one, other in zip(some, others):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_it_reads_a_kind_of_input(stem):
    assert stem.reads in registry.kinds("data/input")


@torch.no_grad()
def test_a_sequence_of_vectors_as_wide_as_it_says(stem, batch):
    vectors, mask = stem(*batch[:2])
    assert stem.width == WIDTH and vectors.shape == (ROWS, mask.shape[1], stem.width)
    assert mask.dtype == torch.bool and mask.any(1).all() and vectors.isfinite().all()
    assert (mask[:, 1:] <= mask[:, :-1]).all()  # real positions first, then padding


@torch.no_grad()
def test_alone_as_in_a_padded_batch(stem, batch):
    source, mask, varying = batch
    together = real(stem(source, mask))
    for row in range(ROWS):
        length = int(mask[row].sum())
        alone = source[row : row + 1, :length] if varying else source[row : row + 1]
        all_close(real(stem(alone, mask[row : row + 1, :length])), together[row : row + 1])


@torch.no_grad()
def test_what_stands_in_padding_and_how_much_of_it_cannot_matter(stem, batch):
    source, mask, varying = batch
    if not varying:
        return
    together = real(stem(source, mask))
    all_close(real(stem(garbage(source, mask), mask)), together)
    longer = torch.cat([source, source], 1), torch.cat([mask, torch.zeros_like(mask)], 1)
    all_close(real(stem(*longer)), together)


@torch.no_grad()
def test_the_order_of_rows_and_their_neighbours_do_not_matter(stem, batch):
    source, mask, _ = batch
    together = real(stem(source, mask))
    turned = real(stem(source.flip(0), mask.flip(0)))
    all_close(turned[::-1], together)
    other = source.clone()
    other[0] = source[0].flip(0)
    all_close(real(stem(other, mask))[1:], together[1:])


def other_ids(ids, spells):
    """Other tokens; where each is a row with its spelling, the casing stays."""
    other = 4 + (ids - 3) % 16
    if spells:
        other[..., 1] = ids[..., 1]
    return other


@torch.no_grad()
def test_every_part_of_the_input_matters(stem, batch):
    """A tenth of an example is changed, at its beginning, within it and at its end."""
    source, mask, varying = batch
    together = real(stem(source, mask))
    for row in range(ROWS):
        length = int(mask[row].sum()) if varying else source.shape[1]
        some = max(1, length // 10)
        for start in {0, length // 2, length - some}:
            changed = source.clone()
            part = changed[row, start : start + some]
            part.copy_(other_ids(part, stem.spells) if stem.reads == "text" else part.flip(-1) + 3)
            found = real(stem(changed, mask))
            assert not torch.allclose(found[row], together[row], atol=1e-3), f"from {start} of row {row}"
            for other in {*range(ROWS)} - {row}:
                torch.testing.assert_close(found[other], together[other], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_in_use_it_is_the_same_every_time(stem, batch):
    source, mask, _ = batch
    before = source.clone()
    assert torch.equal(stem(source, mask)[0], stem(source, mask)[0])
    assert torch.equal(source, before)  # and it does not write into what it is given


def test_every_parameter_learns(stem, batch):
    stem.train()
    total = sum((vectors * torch.randn_like(vectors)).sum() for vectors in real(stem(*batch[:2])))
    total.backward()
    idle = [
        name for name, p in stem.named_parameters() if p.grad is None or not p.grad.isfinite().all() or not p.grad.any()
    ]
    assert not idle


def test_all_it_knows_is_in_its_weights(made, stem, batch):
    """A saved model is made on the meta device and then given its weights: what is in none of them would be lost."""
    with torch.device("meta"):
        empty = built(made)
    empty.load_state_dict(dict(stem.named_parameters()), assign=True)
    source, mask, _ = batch
    with torch.no_grad():
        assert torch.equal(empty(source, mask)[0], stem(source, mask)[0])
