"""V4: the numbers that are spelled out are the model's own, for every attention that there is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard import registry
from regard.assemble import build_model, resolve_model
from regard.errors import UserError
from regard.inspection.record.arithmetic import calculation
from regard.inspection.record.arithmetic.attention import FAMILY
from regard.inspection.trace.arithmetic import Calculation
from regard.layers.attention._base import Attention
from regard.layers.capture import capture
from regard.layers.fast_linear import PackedLinear, packing_is_possible, replace_linears

WORDS, WRITTEN = 20, 5
SIZES = {"width": 16, "heads": 4, "feed_forward": 32, "layers": 2}
RECURRENT = {"kind": "recurrent", "direction": "both", "width": 16}
LOCAL = {"kind": "local", "window": 1}


def attentional(attention: Any, order: str = "before", **more: Any) -> dict[str, Any]:
    decoder = {"kind": "attentional", "attention": attention, "order": order, **more}
    return {"width": 16, "encoder": RECURRENT, "decoder": decoder}


MODELS: dict[str, dict[str, Any]] = {
    "post": {**SIZES, "norm": "post"},
    "pre": {**SIZES, "norm": "pre"},
    "learned": {**SIZES, "position": {"kind": "learned", "length": 12}, "stem": {"embedding_norm": True}},
    "shifted": {**SIZES, "position": "shifted", "norm": "pre"},
    "no positions": {**SIZES, "position": "none", "scale": False},
    "T5": {
        **SIZES,
        "norm": "pre",
        "norm_kind": "rms",
        "bias": False,
        "gated": True,
        "head_width": 6,
        "relative_position": {"kind": "buckets", "buckets": 8, "distance": 6},
        "position": "none",
    },
    "Llama": {
        **SIZES,
        "norm": "pre",
        "norm_kind": "rms",
        "bias": False,
        "gated": True,
        "activation": "silu",
        "relative_position": {"kind": "rotary", "factor": 4.0, "original": 3},
        "attention": {"kind": "multi_head", "kv_heads": 2},
        "position": "none",
    },
    "post, rms": {
        **SIZES,
        "norm": "post",
        "norm_kind": "rms",
        "norm_epsilon": 0.1,
        "decoder": {"embedding_norm": True},
    },
    "universal": {**SIZES, "layers": 3, "encoder": "universal", "decoder": "universal"},
    "universal, no halting": {
        **SIZES,
        "norm": "pre",
        "encoder": {"kind": "universal", "halting": False},
        "decoder": {"kind": "universal", "halting": False},
    },
    "bahdanau": attentional("additive"),
    "bahdanau, lstm, two layers": attentional("additive", cell="lstm", layers=2),
    "luong": attentional("multiplicative", "after"),
    "luong, nothing fed": attentional({"kind": "multiplicative", "score": "dot"}, "after", feed=False),
    "luong, concat": attentional({"kind": "multiplicative", "score": "concat"}, "after"),
    "dot": attentional({"kind": "dot", "scaled": True}, "after"),
    "dot, not scaled": attentional("dot"),
    "local": attentional(LOCAL, "after"),
    "local, monotonic": attentional({**LOCAL, "alignment": "monotonic"}, "after", feed=False),
    **{f"transformer, {kind}": {**SIZES, "attention": kind} for kind in ("additive", "dot", "local", "multiplicative")},
    "universal, additive": {**SIZES, "attention": "additive", "encoder": "universal", "decoder": "universal"},
    "heads of a recurrent decoder": attentional({"kind": "multi_head", "heads": 2}),
}


def made(name: str) -> tuple[nn.Module, Callable[[], Any]]:
    torch.manual_seed(5)
    model = build_model(resolve_model(MODELS[name]), WORDS).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))  # biases and norms too, which begin as nothing
    source, target = torch.randint(4, WORDS, (1, 6)), torch.randint(4, WORDS, (1, WRITTEN))
    return model, lambda: model(source, torch.ones_like(source, dtype=torch.bool), target)


def last(found: Calculation) -> np.ndarray:
    return found.stages[-1].rows[-1].values


def stage(found: Calculation, name: str) -> Any:
    return next(one for one in found.stages if one.name == name)


def every(model: nn.Module, forward: Callable[[], Any]) -> list[tuple[str, int, int]]:
    """(path, heads, times) of each attention, as many times as a watched pass tells of it."""
    with torch.inference_mode(), capture(model) as seen:
        forward()
    found = []
    for path, module in model.named_modules():
        if isinstance(module, Attention) and f"{path}.weights" in seen:
            found.append((path, module.heads, torch.cat(seen[f"{path}.weights"], 1).shape[1] // module.heads))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_V4_the_last_number_and_the_weights_are_the_models_own(name: str) -> None:
    model, forward = made(name)
    with torch.inference_mode(), capture(model) as seen:
        forward()
    assert every(model, forward)
    for path, heads, times in every(model, forward):
        weights = torch.cat(seen[f"{path}.weights"], 1)[0]
        for time in range(times):
            position, head = (time + 3) % weights.shape[1], (time + 1) % heads
            found = calculation(model, forward, path, head, position, time=time)
            assert found.difference < 1e-5, (path, time)
            np.testing.assert_allclose(found.weights, weights[time * heads + head, position], atol=1e-6)
            softmax = stage(found, "softmax")
            assert [float(row.values[0]) for row in softmax.rows] == found.weights.tolist()
            assert found.weights.sum() == pytest.approx(1, abs=1e-6)
            for one in found.stages:
                assert one.formula and one.sentence.endswith(".") and one.rows, one.name


def test_every_kind_of_attention_is_spelled_out() -> None:
    """Each by a file of its own name, besides what any attention with scores gets."""
    assert registry.kinds("layers/attention") == registry.kinds(FAMILY)


class Sharp(Attention):
    """An attention without a file of arithmetic: what is shown follows from its scores."""

    def __init__(self, values: bool) -> None:
        super().__init__()
        self.context = 4
        self.value = nn.Linear(4, 4) if values else nn.Identity()

    def project_memory(self, memory: Any) -> Any:
        return {"value": self.value(memory)}

    def scores(self, query: Any, projected: Any, mask: Any = None, positions: Any = None) -> Any:
        return 5 * torch.cdist(query, projected["value"]).neg()


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_an_attention_without_a_file_is_spelled_out_from_its_scores(values: bool, causal: bool) -> None:
    torch.manual_seed(0)
    model, x = nn.ModuleDict({"attention": Sharp(values)}), torch.rand(1, 5, 4)
    found = calculation(model, lambda: model["attention"].self_attend(x, causal=causal), "attention", 0, 2)
    assert found.difference < 1e-6 and found.weights.sum() == pytest.approx(1)
    names = [one.name for one in found.stages]
    hidden, own = ["mask"] if causal else [], ["values"] if values else []
    assert names == ["input", "attended vectors", *own, "scores", *hidden, "softmax", "weighted sum"]
    assert (found.weights[3:] == 0).all() == causal


def test_the_difference_would_be_seen() -> None:
    """What is compared is the module's own result: a projection that does something else is found out."""
    model, forward = made("pre")
    outward = model.encoder.layers[0].attention.outward
    hook = outward.register_forward_hook(lambda _m, _i, output: output + 0.25)
    found = calculation(model, forward, "encoder.layers.0.attention", 0, 0)
    hook.remove()
    assert found.difference == pytest.approx(0.25, abs=1e-5)


def test_V4_a_transformers_numbers_are_those_of_the_formulas() -> None:
    """By torch's own functions, from the embedding on: the first layer of a pre-norm encoder, head 2, token 3."""
    model, forward = made("pre")
    ids = {}
    model.stem.register_forward_pre_hook(lambda _m, given: ids.update(source=given[0]))
    found = calculation(model, forward, "encoder.layers.0.attention", 2, 3, keys=list("abcdef"), queries=list("abcdef"))
    assert found.query == "d" and found.keys == list("abcdef")
    layer, embedding = model.encoder.layers[0], model.stem.embedding
    with torch.inference_mode():
        e = embedding.table.weight[ids["source"][0]] * math.sqrt(16)
        x = e + embedding.position(torch.arange(6))
        normed = layer.around_attention.norm(x)
        w_q, w_k, w_v = layer.attention.inward.weight.chunk(3)
        b_q, b_k, b_v = layer.attention.inward.bias.chunk(3)
        q = F.linear(normed, w_q, b_q)[3, 8:12]
        k, v = (F.linear(normed, w, b)[:, 8:12] for w, b in ((w_k, b_k), (w_v, b_v)))
        weights = F.softmax(k @ q / 2, -1)
        whole = F.multi_head_attention_forward(
            *[normed[:, None]] * 3, 16, 4, layer.attention.inward.weight, layer.attention.inward.bias,
            None, None, False, 0.0, layer.attention.outward.weight, layer.attention.outward.bias,
        )[0][:, 0]  # fmt: skip
    expected = {
        "embedding": e[3], "position": x[3], "layer norm": normed[3], "query": q, "weighted sum": weights @ v,
        "output": whole[3], "residual": x[3] + whole[3],
    }  # fmt: skip
    for name, values in expected.items():
        np.testing.assert_allclose(stage(found, name).rows[-1].values, values.numpy(), atol=1e-5, err_msg=name)
    columns = {"dot products": k @ q, "scaling": k @ q / 2, "mask": k @ q / 2, "softmax": weights}
    for name, values in columns.items():
        rows = stage(found, name).rows
        np.testing.assert_allclose([row.values[0] for row in rows], values.numpy(), atol=1e-5, err_msg=name)
        assert [row.label for row in rows] == list("abcdef")
    np.testing.assert_allclose([row.values for row in stage(found, "keys").rows], k.numpy(), atol=1e-5)
    assert [row.label for row in stage(found, "all heads").rows][2] == "head 2 ←"


def test_relative_positions_and_rms_norms_are_stages_of_their_own() -> None:
    model, forward = made("T5")
    path = "decoder.layers.1.attention"
    names = [one.name for one in calculation(model, forward, path, 1, 3).stages]
    assert names[:2] == ["input", "rms norm"] and "layer norm" not in names
    assert names[names.index("scaling") :][:3] == ["scaling", "relative position", "mask"]
    found = calculation(model, forward, path, 1, 3)
    added = [
        float(after.values[0] - before.values[0])
        for before, after in zip(stage(found, "scaling").rows, stage(found, "relative position").rows)
    ]
    table = model.decoder.relative_position.table.weight[
        :, 1
    ].tolist()  # 8 buckets: 0 to 3 alone, all beyond in 4 or more
    np.testing.assert_allclose(added[:4], [table[3], table[2], table[1], table[0]], atol=1e-5)
    assert stage(found, "query").formula == "q = W_Q x̂" and len(stage(found, "query").rows[0].values) == 6
    cross = calculation(model, forward, "decoder.layers.1.cross_attention", 1, 3)
    assert "relative position" not in [one.name for one in cross.stages]


def test_later_tokens_are_masked_and_marked_so() -> None:
    model, forward = made("post")
    found = calculation(model, forward, "decoder.layers.0.attention", 1, 2)
    mask = stage(found, "mask")
    assert [row.note for row in mask.rows] == ["", "", "", "masked", "masked"]
    assert all(np.isneginf(row.values[0]) for row in mask.rows[3:]) and mask.note == "2 of 5 masked"
    assert found.weights[3:].tolist() == [0, 0] and found.stages[-1].name == "layer norm"


def test_where_the_vector_comes_from() -> None:
    model, forward = made("post")
    names = {
        "encoder.layers.0.attention": ["embedding", "position", "query"],
        "encoder.layers.1.attention": ["input", "query"],
        "decoder.layers.0.attention": ["embedding", "position", "query"],
        "decoder.layers.0.cross_attention": ["input", "query"],
    }
    for path, begin in names.items():
        found = calculation(model, forward, path, 0, 0)
        assert [one.name for one in found.stages][: len(begin)] == begin, path
    assert "layer 0" in calculation(model, forward, "encoder.layers.1.attention", 0, 0).stages[0].sentence
    model, forward = made("universal, no halting")
    for time, begin in enumerate((["embedding", "position and step", "layer norm"], ["position and step"])):
        found = calculation(model, forward, "decoder.layer.attention", 0, 1, time=time)
        assert [one.name for one in found.stages][: len(begin)] == begin
        assert found.difference < 1e-5


@pytest.mark.parametrize(("tree", "sizes"), [
    ({"kind": "language_model", **SIZES}, {"vocabulary": WORDS}),
    ({"kind": "classifier", "stem": "patches", **SIZES}, {"channels": 1, "size": 8, "labels": 3}),
])  # fmt: skip
def test_V4_other_models_by_the_same_function(tree: dict[str, Any], sizes: dict[str, int]) -> None:
    torch.manual_seed(1)
    model = build_model(resolve_model(tree), **sizes).eval()
    if "vocabulary" in sizes:
        path, given = "decoder.layers.1.attention", (torch.randint(4, WORDS, (1, 5)),)
    else:
        path, given = "encoder.layers.0.attention", (torch.rand(1, 1, 8, 8), torch.ones(1, 1, dtype=torch.bool))
    found = calculation(model, lambda: model(*given), path, 3, 2)
    assert found.difference < 1e-5 and found.weights.sum() == pytest.approx(1)


@pytest.mark.skipif(not packing_is_possible(), reason="this PyTorch packs no weights")
def test_weights_laid_out_for_speed_are_read_as_they_were() -> None:
    model, forward = made("pre")
    plain = calculation(model, forward, "encoder.layers.1.attention", 1, 1)
    replace_linears(model, PackedLinear)
    packed = calculation(model, forward, "encoder.layers.1.attention", 1, 1)
    np.testing.assert_allclose(last(packed), last(plain), atol=1e-6)
    assert isinstance(model.encoder.layers[0].attention.inward, PackedLinear)


def test_it_leaves_the_model_as_it_was() -> None:
    model, forward = made("bahdanau")
    before = forward()
    calculation(model, forward, "decoder.cross_attention", 0, 0)
    assert torch.equal(forward(), before)
    assert not {"attend", "project_memory", "advance"} & (
        vars(model.decoder).keys() | vars(model.decoder.cross_attention).keys()
    )
    assert not any(module._forward_hooks for module in model.modules())


class Uniform(Attention):
    """An attention that nobody has spelled out."""

    def __init__(self) -> None:
        super().__init__()
        self.context = 4

    def project_memory(self, memory: Any) -> Any:
        return {"value": memory}

    def attend(self, query: Any, projected: Any, mask: Any = None, positions: Any = None) -> Any:
        return projected["value"].mean(1, keepdim=True).expand_as(query)


def test_what_cannot_be_followed_is_refused_in_a_line() -> None:
    model, forward = made("post")
    path = "encoder.layers.0.attention"
    for asked, said in (
        (("encoder.layers.7.attention", 0, 0), "no attention 'encoder.layers.7"),
        ((path, 4, 0), "heads 0 to 3"),
        ((path, 0, 6), "the positions are 0 to 5"),
    ):
        with pytest.raises(UserError, match=said):
            calculation(model, forward, *asked)
    with pytest.raises(UserError, match="applied 1 times"):
        calculation(model, forward, path, 0, 0, time=1)
    strange = nn.ModuleDict({"attention": Uniform()})
    given = torch.rand(1, 3, 4)
    with pytest.raises(UserError, match="the arithmetic of Uniform is not available"):
        calculation(strange, lambda: strange["attention"](given, given), "attention", 0, 0)
