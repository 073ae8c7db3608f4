"""What only a GPU can show; elsewhere it is skipped."""

from __future__ import annotations

import pytest
import torch

import regard
from regard.assemble import build_model
from regard.decoding import recording
from regard.layers import compiling
from regard.layers.cross_entropy import projected_loss, token_loss
from regard.types import PAD

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

TEXTS = [
    "Je suis étudiant.",
    "Où est la gare, s'il vous plaît ?",
    "Elle a lu ce livre deux fois parce qu'il est court.",
    "Non.",
    "Nous devons parler de ce problème avant la fin de la semaine prochaine, sinon il sera trop tard pour agir.",
]


@pytest.mark.parametrize("beam", [1, 4])
def test_recorded_steps_translate_as_others_do(beam, monkeypatch):
    translator = regard.load("fr-en", device="cuda")
    translator.model.float()
    recorded = [translator.translate(TEXTS[:n] * 3, beam=beam) for n in (1, 5, 5, 3)]
    assert recording._recordings[translator.model.decoder]
    monkeypatch.setattr(recording, "_recordable", lambda decoder: False)
    for texts, found in zip((1, 5, 5, 3), recorded, strict=True):
        for one, other in zip(found, translator.translate(TEXTS[:texts] * 3, beam=beam), strict=True):
            assert one.text == other.text
            assert one.score == pytest.approx(other.score, abs=1e-3)


def test_compiled_layers_and_loss_train_as_others_do(monkeypatch):
    torch.manual_seed(0)
    model = build_model({"preset": "tiny", "dropout": 0.0}, 501, label_smoothing=0.1).cuda().train()
    source, target = torch.randint(4, 501, (2, 9, 12), device="cuda")
    target[2, 7:] = PAD
    mask = torch.ones_like(source, dtype=torch.bool)

    def gradients():
        batch = regard.types.Batch(source, mask, target, target != PAD, 99)
        model.zero_grad()
        loss = model.loss(batch).total
        loss.backward()
        return [loss, *(p.grad.clone() for p in model.parameters())]

    plain = gradients()
    compiling.compile_layers(model)
    for one, other in zip(plain, gradients(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
    monkeypatch.setattr(compiling, "active", True)
    hidden, weight = torch.randn(700, 7, 64, device="cuda"), torch.randn(501, 64, device="cuda")
    hidden.requires_grad_(), weight.requires_grad_()
    wanted = torch.randint(0, 501, (700, 7), device="cuda")
    ours = torch.autograd.grad(projected_loss(hidden, weight, wanted, 0.1), (hidden, weight))
    theirs = torch.autograd.grad(token_loss(hidden @ weight.T, wanted, 0.1), (hidden, weight))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
