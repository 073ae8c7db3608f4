"""Marian with the same weights as in transformers: equal logits, loss, gradients and greedy output."""

import pytest
import torch

from regard.assemble import build_model
from regard.bench._marian import marian_like
from regard.decoding.greedy import greedy
from regard.types import BEGIN, END, PAD, Batch

VOCABULARY = 60


@pytest.fixture(scope="module")
def pair():
    torch.manual_seed(1)
    tree = {"width": 32, "heads": 4, "layers": 2, "feed_forward": 64, "dropout": 0.0, "activation": "gelu"}
    ours = build_model(tree, VOCABULARY).eval()
    return ours, marian_like(ours)


@pytest.fixture(scope="module")
def batch():
    torch.manual_seed(2)
    source, target = torch.randint(4, VOCABULARY, (4, 9)), torch.randint(4, VOCABULARY, (4, 8))
    source[:, -1] = END
    source[2, 5:] = PAD
    source[2, 4] = END
    target[:, 0] = BEGIN
    target[3, 6:] = PAD
    mask = (target != PAD) & (target != BEGIN)
    return Batch(source, source != PAD, target, mask, int(mask.sum()))


def test_logits_agree(pair, batch):
    ours, marian = pair
    with torch.no_grad():
        logits = ours(batch.source, batch.source_mask, batch.target)
        theirs = marian(
            input_ids=batch.source, attention_mask=batch.source_mask.long(), decoder_input_ids=batch.target
        ).logits
    torch.testing.assert_close(logits[batch.target_mask], theirs[batch.target_mask], atol=1e-4, rtol=1e-4)


def test_loss_and_gradient_agree(pair, batch):
    ours, marian = pair
    loss = ours.loss(batch)
    (loss.total / loss.units).backward()
    wanted = batch.target[:, 1:].masked_fill(~batch.target_mask[:, 1:], -100)
    output = marian(
        input_ids=batch.source,
        attention_mask=batch.source_mask.long(),
        decoder_input_ids=batch.target[:, :-1],
        labels=wanted,
    )
    output.loss.backward()
    torch.testing.assert_close(loss.total / loss.units, output.loss, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        ours.stem.embedding.table.weight.grad[4:], marian.model.shared.weight.grad[4:], atol=1e-4, rtol=1e-3
    )


def test_greedy_outputs_agree(pair, batch):
    ours, marian = pair
    with torch.no_grad():
        memory = ours.encode(batch.source, batch.source_mask)
        found = greedy(ours.decoder, memory, max_lengths=torch.full((4,), 12))
        theirs = marian.generate(
            input_ids=batch.source,
            attention_mask=batch.source_mask.long(),
            max_new_tokens=12,
            num_beams=1,
            do_sample=False,
        )
    for hypothesis, row in zip(found, theirs.tolist()):
        row = row[1:]
        row = row[: row.index(END)] if END in row else row
        assert hypothesis.ids == [i for i in row if i != PAD][:12]
