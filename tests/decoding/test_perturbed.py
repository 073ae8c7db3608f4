"""A perturbed decoder: its likeliest tokens are samples, and each sentence's noise is its own."""

from __future__ import annotations

import torch

from regard.decoding.perturbed import PerturbedDecoder
from regard.types import BEGIN

from .table import Table

BEAMS = 64


def first_tokens(seed: int, temperature: float, top_k: int, keys: list[int]) -> torch.Tensor:
    table = Table(7, 4)
    decoder = PerturbedDecoder(table, temperature, top_k, 1.0, seed)
    state = decoder.start(table.memory(keys), BEAMS, 2)
    logits, _ = decoder.step(torch.full((len(keys) * BEAMS, 1), BEGIN), state)
    return logits[:, 0].argmax(1)


def test_the_likeliest_token_is_a_sample() -> None:
    probabilities = torch.tensor(Table(7, 4).log_probs(3, [])).div(1.5).softmax(0)
    drawn = torch.cat([first_tokens(seed, 1.5, 0, [3]) for seed in range(60)])
    shares = torch.bincount(drawn, minlength=7) / len(drawn)
    assert float((shares - probabilities).abs().max()) < 0.03  # three standard deviations
    kept = probabilities.topk(2).indices.tolist()
    assert set(first_tokens(0, 1.5, 2, [3]).tolist()) == set(kept)


def test_a_sentence_has_the_same_noise_alone() -> None:
    together = first_tokens(5, 1.0, 0, [1, 3])
    assert torch.equal(together[BEAMS:], first_tokens(5, 1.0, 0, [3]))
    assert not torch.equal(together[BEAMS:], first_tokens(6, 1.0, 0, [3]))
