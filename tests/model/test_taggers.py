"""Taggers: loss and decisions at labelled positions only; the CRF's transitions."""

import itertools

import pytest
import torch

from regard.assemble import build_model
from regard.types import Batch

LABELS = 3
WANTED = torch.tensor([[True, False, True, False, True], [False, True, False, False, False]])


def built(kind):
    torch.manual_seed(0)
    tree = {"kind": kind, "width": 16, "layers": 1, "heads": 2, "dropout": 0.0, "head_dropout": 0.0}
    model = build_model(tree, vocabulary=20, labels=LABELS)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.eval()


@pytest.fixture
def batch():
    torch.manual_seed(1)
    source = torch.randint(4, 20, (2, 7))
    target = torch.randint(LABELS, (2, 5))
    return Batch(source, torch.ones(2, 7, dtype=torch.bool), target, WANTED, 4)


def test_each_tag_for_itself(batch):
    model = built("tagger")
    log_p = model(batch.source, batch.source_mask).log_softmax(-1)
    by_hand = -sum(log_p[b, t, batch.target[b, t]] for b, t in WANTED.nonzero().tolist())
    torch.testing.assert_close(model.loss(batch).total, by_hand)
    labels, sure = model.decide(log_p, torch.ones(2, 7, dtype=torch.bool))
    assert torch.equal(labels, log_p.argmax(-1))
    torch.testing.assert_close(sure, log_p.exp().amax(-1))


def test_smoothing_reaches_the_loss(batch):
    model = built("tagger")
    plain = model.loss(batch).total
    model.label_smoothing = 0.2
    log_p = model(batch.source, batch.source_mask).log_softmax(-1)
    even = -sum(log_p[b, t].mean() for b, t in WANTED.nonzero().tolist())
    torch.testing.assert_close(model.loss(batch).total, 0.8 * plain + 0.2 * even)


def test_all_tags_together(batch):
    """Over labelled positions, as if the others did not exist."""
    model = built("crf_tagger")
    logits = model(batch.source, batch.source_mask)
    chain, total = model.chain, 0.0
    wide = torch.zeros(2, 7, dtype=torch.bool)
    wide[:, :5] = WANTED
    labels, sure = model.decide(logits, wide)
    for row in range(2):
        places = WANTED[row].nonzero()[:, 0].tolist()

        def score(tags, row=row, places=places):
            steps = sum(chain.follows[a, b] for a, b in itertools.pairwise(tags))
            return (
                chain.start[tags[0]]
                + chain.end[tags[-1]]
                + steps
                + sum(logits[row, p, t] for p, t in zip(places, tags))
            )

        every = list(itertools.product(range(LABELS), repeat=len(places)))
        scores = torch.stack([score(tags) for tags in every])
        total += scores.logsumexp(0) - score(batch.target[row, places].tolist())
        assert tuple(labels[row, places].tolist()) == every[int(scores.argmax())]
        for n, place in enumerate(places):
            marginal = sum(p for p, tags in zip(scores.softmax(0), every) if tags[n] == labels[row, place])
            torch.testing.assert_close(sure[row, place], marginal)
    torch.testing.assert_close(model.loss(batch).total, total)


def test_a_chain_keeps_tags_in_order():
    model = built("crf_tagger")
    with torch.no_grad():
        model.chain.follows[0, 1] = -1e4
    logits = torch.randn(50, 9, LABELS)
    labels, _ = model.decide(logits, torch.ones(50, 9, dtype=torch.bool))
    assert not ((labels[:, :-1] == 0) & (labels[:, 1:] == 1)).any()
    assert ((logits.argmax(-1)[:, :-1] == 0) & (logits.argmax(-1)[:, 1:] == 1)).any()
