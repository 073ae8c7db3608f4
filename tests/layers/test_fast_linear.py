"""Packed and int8 linear layers against plain matrix products, and whole models before and after."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.assemble import build_model
from regard.decoding.beam import beam
from regard.decoding.greedy import greedy
from regard.errors import UserError
from regard.layers import fast_linear
from regard.layers.fast_linear import (
    FastLinear,
    Int8Linear,
    PackedLinear,
    int8_is_fast,
    packing_is_possible,
    ready_for_use,
)
from regard.layers.linear import Linear

CPU = torch.device("cpu")
needs_int8 = pytest.mark.skipif(not int8_is_fast(), reason="this CPU has no AVX-512 VNNI, or this torch no int8 kernel")
needs_packing = pytest.mark.skipif(not packing_is_possible(), reason="this torch was built without oneDNN")
both = pytest.mark.parametrize(
    "kind", [pytest.param(PackedLinear, marks=needs_packing), pytest.param(Int8Linear, marks=needs_int8)]
)


@pytest.fixture(autouse=True)
def prepared():
    torch.manual_seed(0)
    before = torch.backends.quantized.engine
    if "fbgemm" in torch.backends.quantized.supported_engines:
        torch.backends.quantized.engine = "fbgemm"
    with torch.inference_mode():
        yield
    torch.backends.quantized.engine = before


def weights(bias: bool = True):
    return torch.randn(48, 32) * torch.rand(48, 1), torch.randn(48) if bias else None


@needs_int8
@pytest.mark.parametrize("bias", [True, False])
def test_int8_is_a_product_of_whole_numbers_between_scales(bias):
    weight, added = weights(bias)
    x = torch.randn(6, 32) * torch.tensor([[0.001], [1.0], [2.0], [50.0], [1.0], [1.0]])
    x[4] = x[4].abs()
    x[5] = -x[5].abs()  # the largest is a negative one
    expected = torch.zeros(6, 48, dtype=torch.float64)
    for r, row in enumerate(x):
        step = row.abs().max()
        whole_x = (row / step * 127).round().long()
        for p, column in enumerate(weight):
            scale = column.abs().max() / 127
            whole_w = (column / scale).round().long()
            expected[r, p] = int((whole_x * whole_w).sum()) * float(scale) * float(step) / 127
            expected[r, p] += float(added[p]) if added is not None else 0.0
    found = Int8Linear(weight, added)(x)
    torch.testing.assert_close(found, expected.float(), atol=1e-5, rtol=1e-5)
    exact = F.linear(x, weight, added)
    assert 0 < (found - exact).norm() / exact.norm() < 0.02


@needs_int8
def test_in_int8_a_row_does_not_know_the_others():
    layer = Int8Linear(*weights())
    x = torch.randn(40, 32) * torch.logspace(-3, 3, 40)[:, None]
    together = layer(x)
    for number in (0, 7, 39):
        assert torch.equal(layer(x[number : number + 1])[0], together[number])
    assert torch.equal(layer(x.view(5, 8, 32)), together.view(5, 8, 48))


@both
def test_a_row_of_zeros_gives_the_bias(kind):
    weight, bias = weights()
    x = torch.randn(4, 32)
    x[1] = 0
    assert torch.equal(kind(weight, bias)(x)[1], bias)
    assert not kind(weight, None)(x)[1].any()


@pytest.mark.parametrize(
    "kind", [Linear, pytest.param(PackedLinear, marks=needs_packing), pytest.param(Int8Linear, marks=needs_int8)]
)
def test_a_part_is_some_rows_of_the_whole(kind):
    weight, bias = weights()
    if kind is Linear:
        layer = Linear(32, 48)
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    else:
        layer = kind(weight, bias)
    x = torch.randn(2, 5, 32)
    for start, stop in [(0, 16), (16, 48), (16, 48), (0, 48)]:
        torch.testing.assert_close(layer.part(x, start, stop), layer(x)[..., start:stop], atol=1e-5, rtol=1e-5)


@needs_packing
@pytest.mark.parametrize("shape", [(1,), (2,), (3,), (40,), (2, 1), (3, 5), (1, 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_packed_is_the_plain_product(shape, bias):
    weight, added = weights(bias)
    x = torch.randn(*shape, 32)
    layer = PackedLinear(weight, added)
    for _ in range(2):  # laid out, and used again
        torch.testing.assert_close(layer(x), F.linear(x, weight, added), atol=1e-5, rtol=1e-5)


SOURCE = torch.randint(4, 50, (4, 7), generator=torch.Generator().manual_seed(1))
SEEN = torch.arange(7) < torch.tensor([[7], [7], [4], [2]])
TARGET = torch.randint(4, 50, (4, 6), generator=torch.Generator().manual_seed(2))

T5 = {
    "norm": "pre",
    "norm_kind": "rms",
    "gated": True,
    "bias": False,
    "head_width": 20,
    "relative_position": "buckets",
    "position": "none",
    "decoder": {"output_bias": True},
}
VARIANTS = [{"decoder": {"tie": True}}, {"decoder": {"tie": False}}, {"decoder": {"kind": "ssru"}}, T5]


def tiny(larger=3, **more) -> nn.Module:
    """Weights of three times the usual size: fresh ones would answer every sentence alike."""
    model = build_model({"preset": "tiny", **more}, 50).eval()
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.mul_(larger)
    if getattr(model.decoder, "output_bias", None) is not None:
        model.decoder.output_bias.normal_()
    return model


def written(model: nn.Module, source=SOURCE, seen=SEEN) -> list[list[int]]:
    memory, limits = model.encode(source, seen), torch.full((len(source),), 8)
    one = [h.ids for h in greedy(model.decoder, memory, max_lengths=limits)]
    return one + [h.ids for hs in beam(model.decoder, memory, max_lengths=limits, width=3, n_best=2) for h in hs]


@needs_packing
@pytest.mark.parametrize("more", VARIANTS)
def test_a_transformer_in_float32_writes_the_same(more):
    model = tiny(**more)
    logits, ids = model(SOURCE, SEEN, TARGET), written(model)
    assert len({tuple(row) for row in ids}) > 4
    ready = ready_for_use(model, "float32", CPU)
    assert isinstance(ready.decoder.projection, PackedLinear)
    assert isinstance(ready.encoder.layers[0].attention.inward, PackedLinear)
    torch.testing.assert_close(ready(SOURCE, SEEN, TARGET), logits, atol=1e-4, rtol=1e-4)
    assert written(ready) == ids


@needs_int8
@pytest.mark.parametrize("more", VARIANTS)
def test_a_transformer_in_int8_is_close_and_no_sentence_changes_another(more):
    model = tiny(1 if more is T5 else 3, **more)  # gates multiply what is rounded
    logits = model(SOURCE, SEEN, TARGET)
    ready = ready_for_use(model, "int8", CPU)
    layers = [*ready.encoder.modules(), *ready.decoder.layers.modules(), ready.decoder.projection]
    assert {type(m) for m in layers if isinstance(m, (FastLinear, nn.Linear))} == {Int8Linear}
    found = ready(SOURCE, SEEN, TARGET)
    assert not torch.equal(found, logits)
    assert torch.corrcoef(torch.stack([found.flatten(), logits.flatten()]))[0, 1] > 0.99
    together = written(ready)
    for number, length in enumerate(SEEN.sum(1).tolist()):
        source, seen = SOURCE[number : number + 1, :length], SEEN[number : number + 1, :length]
        alone = written(ready, source, seen)
        assert alone == [together[number], *together[4 + 2 * number : 6 + 2 * number]]
        torch.testing.assert_close(ready(source, seen, TARGET[[number]])[0], found[number], atol=1e-4, rtol=1e-4)


@needs_packing
@pytest.mark.parametrize("decoder", ["recurrent", "attentional"])
def test_a_recurrent_model_passes_through(decoder):
    model = tiny(encoder="recurrent", decoder=decoder)
    logits, ids = model(SOURCE, SEEN, TARGET), written(model)
    parts = {name: id(module) for name, module in model.named_modules()}
    ready = ready_for_use(model, "float32", CPU)
    now = {name: id(module) for name, module in ready.named_modules()}
    assert now.pop("decoder.projection") and now == parts
    torch.testing.assert_close(ready(SOURCE, SEEN, TARGET), logits, atol=1e-4, rtol=1e-4)
    assert written(ready) == ids


def test_auto_takes_what_this_cpu_is_fast_at(monkeypatch):
    monkeypatch.setattr(fast_linear, "int8_is_fast", lambda: False)
    found = ready_for_use(tiny(), "auto", CPU).decoder.projection
    assert isinstance(found, PackedLinear) if packing_is_possible() else found is None


@pytest.mark.skipif(not int8_is_fast(), reason="needs a CPU with fast int8 products")
def test_auto_takes_int8_where_it_is_fast():
    assert isinstance(ready_for_use(tiny(), "auto", CPU).decoder.projection, Int8Linear)


def test_mistakes_get_one_line(monkeypatch):
    monkeypatch.setattr(fast_linear, "int8_is_fast", lambda: False)
    model = tiny()
    for precision, said in [
        ("int9", "precision 'int9' is not known; use auto, float32"),
        ("int8", "use --precision float32"),
    ]:
        with pytest.raises(UserError, match=said) as mistake:
            ready_for_use(model, precision, CPU)
        assert "\n" not in str(mistake.value)
    assert not any(isinstance(module, FastLinear) for module in model.modules())


def test_half_precision_is_for_gpus():
    with pytest.raises(UserError, match="bfloat16 is for GPUs"):
        ready_for_use(nn.Linear(2, 2), "bfloat16", torch.device("cpu"))
