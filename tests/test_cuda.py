"""What only a GPU can show; skipped elsewhere."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import regard
from regard.assemble import build_model
from regard.decoding import cuda_graph
from regard.decoding.beam import beam
from regard.decoding.rules import Forbid
from regard.decoding.stream import stream_together
from regard.layers import compiling
from regard.layers.compile_layers import compile_layers
from regard.layers.cross_entropy import projected_loss, token_loss
from regard.training.cuda_graph import CudaGraphs
from regard.types import BEGIN, PAD

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
    assert cuda_graph._graphs[translator.model.decoder]
    monkeypatch.setattr(cuda_graph, "_cuda_graphable", lambda decoder: False)
    for texts, found in zip((1, 5, 5, 3), recorded, strict=True):
        for one, other in zip(found, translator.translate(TEXTS[:texts] * 3, beam=beam), strict=True):
            assert one.text == other.text
            assert one.score == pytest.approx(other.score, abs=1e-3)


T5 = {"norm": "pre", "norm_kind": "rms", "gated": True, "bias": False, "relative_position": "buckets", "head_width": 24}


@pytest.mark.parametrize("more", [{}, {"decoder": "ssru"}, T5])
def test_compiled_layers_and_loss_train_as_others_do(more, monkeypatch):
    torch.manual_seed(0)
    shape = {"preset": "tiny", "dropout": 0.0, **more}
    model = build_model(shape, 501, label_smoothing=0.1).cuda().train()
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
    compile_layers(model)
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


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [1, 4])
def test_relative_positions_are_the_same_in_recorded_steps(dtype, width, monkeypatch):
    torch.manual_seed(0)
    model = build_model({"preset": "tiny", **T5, "decoder": {"output_bias": True}}, 60).cuda().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    source = torch.randint(4, 60, (12, 9), device="cuda")
    mask = torch.arange(9, device="cuda") < torch.randint(2, 10, (12, 1), device="cuda")
    limits = torch.full((12,), 20, device="cuda")

    def written(model):
        return [
            one for of in beam(model.decoder, model.encode(source, mask), max_lengths=limits, width=width) for one in of
        ]

    recorded = written(model.to(dtype))
    assert cuda_graph._graphs[model.decoder]
    for one in recorded:
        assert math.isfinite(one.log_probability)
    monkeypatch.setattr(cuda_graph, "_cuda_graphable", lambda decoder: False)
    for one, other in zip(recorded, written(model), strict=True):
        assert one.ids == other.ids and one.log_probability == pytest.approx(other.log_probability, abs=1e-2)
    if dtype == torch.float32:
        source, mask, limits = source.cpu(), mask.cpu(), limits.cpu()
        for one, other in zip(recorded, written(model.cpu()), strict=True):
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-2)


LLAMA = {
    "kind": "language_model", "width": 48, "layers": 3, "heads": 6, "feed_forward": 64, "dropout": 0.0, "norm": "pre",
    "norm_kind": "rms", "activation": "silu", "gated": True, "bias": False, "position": "none", "scale": False,
    "relative_position": "rotary", "attention": {"kind": "multi_head", "kv_heads": 2}, "head_width": 16,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("seeds", [1, 3, 12])
def test_language_models_write_the_same_in_recorded_steps(seeds, dtype, monkeypatch):
    """Rotary positions and shared heads, past the window, sampling and greedy; 12 texts use the kernel for few queries."""
    torch.manual_seed(0)
    model = build_model(LLAMA, 90).cuda().eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.15)
    prompt = torch.randint(4, 90, (40,)).tolist()
    rules = [Forbid((0, 1, 2, 3))]

    def written(model, device):
        decoder, made = model.decoder, []
        for how in ({"top_k": 1}, {"top_k": 1, "repetition_penalty": 1.3}, {"temperature": 0.3}):
            options = {"window": 96, "length": 110, "rules": rules, "device": device, **how}
            made += stream_together(decoder, prompt=prompt, seeds=range(seeds), **options)
        return made

    recorded = written(model.to(dtype), "cuda")
    assert len(recorded) == 330 and cuda_graph._graphs[model.decoder] and model.decoder not in cuda_graph._failed
    again = written(model, "cuda")
    monkeypatch.setattr(cuda_graph, "_cuda_graphable", lambda decoder: False)
    plain = written(model, "cuda")
    assert recorded == again
    for one, other in zip(recorded, plain, strict=True):
        assert [drawn.id for drawn in one] == [drawn.id for drawn in other]
        assert [d.log_probability for d in one] == pytest.approx([d.log_probability for d in other], abs=1e-2)
    if dtype == torch.float32:
        with torch.inference_mode():
            ids = torch.tensor([[BEGIN, *prompt, *(step[0].id for step in recorded[:50])]])
            found = model.cpu()(ids)[0, len(prompt) : -1].log_softmax(-1)
        for step, log_probs in zip(recorded[:50], found):
            assert step[0].log_probability == pytest.approx(float(log_probs[step[0].id]), abs=1e-2)


@pytest.mark.parametrize(
    ("queries", "keys", "causal"), [(32, 32, True), (17, 40, False), (100, 90, False), (140, 9, False)]
)
def test_attention_kernels_compute_the_formula_both_ways(queries, keys, causal):
    from regard.layers.attention_kernels import short_attention

    torch.manual_seed(0)
    given = [torch.randn(5, length, 2, 64, device="cuda", dtype=torch.bfloat16) for length in (queries, keys, keys)]
    cost = torch.zeros(5, keys, device="cuda", dtype=torch.bfloat16)
    cost[2, keys // 2 :] = -torch.inf
    cost = None if causal else cost
    change = torch.randn(5, queries, 2, 64, device="cuda", dtype=torch.bfloat16)
    exact = [tensor.double().requires_grad_() for tensor in given]
    expected = scaled_dot_product_attention(
        *(tensor.transpose(1, 2) for tensor in exact),
        None if cost is None else cost.double()[:, None, None],
        is_causal=causal,
    ).transpose(1, 2)
    expected = [expected, *torch.autograd.grad(expected, exact, change.double())]
    for packed in [False, True] if queries == keys else [False]:
        inputs = [torch.stack(given, 2)] if packed else given
        inputs = [tensor.clone().requires_grad_() for tensor in inputs]
        found = short_attention(inputs, cost, causal)
        gradients = torch.autograd.grad(found, inputs, change)
        for one, other in zip([found, *(gradients[0].unbind(2) if packed else gradients)], expected, strict=True):
            assert (one.double() - other).norm() < 1e-2 * other.norm()


@pytest.mark.parametrize(("queries", "keys"), [(1, 20), (4, 300)])
def test_few_queries_find_what_the_formula_finds(queries, keys):
    from regard.layers.attention_kernels import few_queries

    query, *both = (torch.randn(9, n, 2, 64, device="cuda", dtype=torch.bfloat16) for n in (queries, keys, keys))
    cost = torch.zeros(9, queries, keys, device="cuda", dtype=torch.bfloat16)
    cost[:, :, keys // 3 : keys // 2] = -torch.inf
    exact = (tensor.double().transpose(1, 2) for tensor in (query, *both))
    expected = scaled_dot_product_attention(*exact, cost.double()[:, None]).transpose(1, 2)
    assert (few_queries(query, *both, cost).double() - expected).norm() < 1e-2 * expected.norm()


@pytest.mark.parametrize("more", [{}, {"decoder": "ssru"}, T5])
def test_recorded_steps_leave_the_gradients_that_others_leave(more):
    torch.manual_seed(0)
    shape = {"preset": "tiny", "dropout": 0.0, **more}
    model = build_model(shape, 500, label_smoothing=0.1).cuda().train()

    def compute(batch):
        with torch.autocast("cuda", torch.bfloat16):
            total = model.loss(batch).total
        total.backward()
        return total.detach()

    notes = []
    graphs = CudaGraphs(compute, notes.append)
    for rows, length in [(40, 12), (40, 12), (40, 12), (38, 11), (39, 12)]:
        source, target = torch.randint(4, 500, (2, rows, length), device="cuda")
        target[0, length - 3 :] = PAD
        mask = torch.ones_like(source, dtype=torch.bool)
        batch = regard.types.Batch(source, mask, target, target != PAD, rows * (length - 1))
        results = []
        for way in (compute, graphs):
            model.zero_grad(set_to_none=False)
            results.append([way(batch).clone(), *(p.grad.clone() for p in model.parameters())])
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)
    assert not notes and len(graphs._graphs) == 1


def test_the_norms_of_layers_make_up_the_norm_of_the_gradient(tmp_path):
    """Also where steps are recorded and their numbers are read late."""
    words = [f"{a} {b} {c}" for a in "abcdefg" for b in "hijklmn" for c in "opqrstu"]
    for side in ("source", "target"):
        (tmp_path / side).write_text("\n".join(words if side == "source" else [w[::-1] for w in words]) + "\n")
    values = "tokenizer.kind=character data.hold_out_valid=20 model.preset=tiny model.dropout=0.0 training.warmup=5 "
    values += "training.steps=40 training.batch_tokens=500 training.log_every=1 training.validate_every=40"
    regard.train(None, *values.split(), source=tmp_path / "source", target=tmp_path / "target", folder=tmp_path / "run")
    logs = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    logs = [log for log in logs if "norm" in log]
    assert len(logs) == 40
    for log in logs:
        assert math.hypot(*log["layers"].values()) == pytest.approx(log["norm"], rel=1e-3), log["step"]
