"""Nearest-neighbour translation: the mixed distribution against its definition, one beam and one neighbour at a time."""

from __future__ import annotations

import math

import pytest
import torch

from regard.decoding.nearest_neighbours import (
    MOST,
    TEMPERATURE,
    Datastore,
    NearestNeighbourDecoder,
    mix,
    with_datastores,
)
from tests.task.translators import FAMILIES, TEXTS, translator_of


def test_the_mixture_is_its_definition() -> None:
    torch.manual_seed(0)
    sentences, beams, size, width, vocabulary, neighbours = 2, 3, 7, 5, 11, 4
    hidden = torch.randn(sentences * beams, width)
    keys = hidden.view(sentences, beams, width)[:, :1] + 0.25 * torch.randn(sentences, size, width)
    values = torch.randint(0, vocabulary, (sentences, size))
    values[1, 5:] = -1  # padding
    log_probs = torch.randn(sentences * beams, vocabulary).log_softmax(-1)
    found = mix(log_probs, hidden, keys, values, neighbours, TEMPERATURE).exp()
    shares = []
    for row in range(sentences * beams):
        sentence = row // beams
        state = hidden[row]
        near = sorted(
            (float(((state - key) ** 2).sum() / (state**2).sum()), int(value))
            for key, value in zip(keys[sentence], values[sentence])
            if value >= 0
        )[:neighbours]
        share = MOST * max(0.0, 1 - near[0][0] / TEMPERATURE)
        total = sum(math.exp(-far / TEMPERATURE) for far, _ in near)
        expected = (1 - share) * log_probs[row].exp()
        for far, value in near:
            expected[value] += share * math.exp(-far / TEMPERATURE) / total
        torch.testing.assert_close(found[row], expected, atol=1e-5, rtol=1e-4)
        shares.append(share)
    assert min(shares) == 0 and max(shares) > 0.3


@pytest.mark.parametrize("name", FAMILIES)
@torch.inference_mode()
def test_without_near_keys_a_step_is_the_models(name: str) -> None:
    model = translator_of(FAMILIES[name]).model
    ids = torch.randint(4, 9, (2, 5))
    memory = model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
    width = model.decoder.output_weight().shape[1]
    none = Datastore(torch.zeros(0, width), torch.zeros(0, dtype=torch.long))
    far = Datastore(torch.full((3, width), 50.0), torch.tensor([4, 5, 6]))
    plain, wrapped = model.decoder, NearestNeighbourDecoder(model.decoder)
    states = [plain.start(memory, 1, 8), wrapped.start(with_datastores(memory, [none, far]), 1, 8)]
    for token in (2, 5, 6):
        step = torch.full((2, 1), token)
        logits, states[0] = plain.step(step, states[0])
        mixed, states[1] = wrapped.step(step, states[1])
        torch.testing.assert_close(mixed, logits.log_softmax(-1), atol=1e-5, rtol=1e-5)


def test_a_sentence_alone_is_as_in_a_batch() -> None:
    from regard.translation_memory import TranslationMemory

    translator = translator_of(FAMILIES["bahdanau"])
    memory = TranslationMemory([("abc de", "fed abc"), ("ab ihg cdef", "cd"), ("fe", "a a")])
    together = translator.translate(TEXTS, memory=memory, beam=3, max_length=12)
    alone = [translator.translate(text, memory=memory, beam=3, max_length=12) for text in TEXTS]
    assert [one.text for one in alone] == [one.text for one in together]
