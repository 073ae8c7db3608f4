"""A small Universal Transformer learns to copy short strings; from random targets it learns nothing."""

import random

import torch

from regard.assemble import build_model
from regard.data.format.made_algorithm import MadeAlgorithm
from regard.decoding.greedy import greedy
from regard.layers.capture import capture
from regard.types import BEGIN, END, PAD, Batch

STEPS, BATCH = 200, 48
CHANCE = 0.1
"""Of ten digits one is right."""


def batch(pairs):
    sources = [[*(int(digit) + 4 for digit in source.split()), END] for source, _ in pairs]
    targets = [[BEGIN, *(int(digit) + 4 for digit in target.split()), END] for _, target in pairs]
    source, target = (
        torch.tensor([row + [PAD] * (max(map(len, rows)) - len(row)) for row in rows]) for rows in (sources, targets)
    )
    mask = (target != PAD) & (target != BEGIN)
    return Batch(source, source != PAD, target, mask, int(mask.sum()))


def trained(pairs):
    torch.manual_seed(1)
    sizes = {"kind": "universal", "width": 32, "heads": 4, "feed_forward": 64, "layers": 3, "dropout": 0.0}
    model = build_model({"stem": {"width": 32, "dropout": 0.0}, "encoder": sizes, "decoder": sizes}, 14)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(STEPS):
        loss = model.loss(batch(pairs[step * BATCH : (step + 1) * BATCH]))
        optimizer.zero_grad()
        (loss.total / loss.units).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * min(1, step / 20, (STEPS - step) / 80)
        optimizer.step()
    return model.eval()


def accuracy(model, pairs):
    """The share of digits that are what and where they should be, written by the model alone."""
    both = batch(pairs)
    found = greedy(model.decoder, model.encode(both.source, both.source_mask), max_lengths=torch.full((len(pairs),), 8))
    right = total = 0
    for hypothesis, (_, target) in zip(found, pairs):
        wanted = [int(digit) + 4 for digit in target.split()]
        right += sum(a == b for a, b in zip(hypothesis.ids, wanted))
        total += max(len(wanted), len(hypothesis.ids))
    return right / total


EXAMPLES = MadeAlgorithm("copy", STEPS * BATCH, longest=4).read([], "train")
FRESH = MadeAlgorithm("copy", 300, shortest=4, longest=4).read([], "test")


def test_it_learns_to_copy_and_to_stop_thinking():
    model = trained(EXAMPLES)
    assert accuracy(model, FRESH) > CHANCE + 0.8
    both = batch(FRESH)
    with torch.no_grad(), capture(model) as seen:
        model(both.source, both.source_mask, both.target[:, :-1])
    for part in ("encoder", "decoder"):
        (ponder,) = seen[f"{part}.halting.ponder"]
        assert 1 < ponder.mean() < 3  # of three steps, which would cost from 3 to 4


def test_it_learns_nothing_where_there_is_nothing_to_learn():
    targets = [target for _, target in EXAMPLES]
    random.Random(1).shuffle(targets)
    model = trained(list(zip([source for source, _ in EXAMPLES], targets)))
    assert accuracy(model, FRESH) < CHANCE + 0.1
