"""Ablation and patching: nothing switched off changes nothing, and each part agrees with a computation of its own."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from inspection.test_record_translation import SHAPES, made

from regard.data.batching import pad
from regard.decoder.recurrent import RecurrentDecoder
from regard.encoder.transformer import TransformerEncoder
from regard.errors import UserError
from regard.inspection.record.interventions import Intervention, intervene, record_activations, with_means
from regard.inspection.record.parts import Part, head_parts, layer_parts, parts_of
from regard.layers.attention.multi_head import MultiHead
from regard.layers.cell.gru import GRU
from regard.layers.cell.lstm import LSTM
from regard.layers.recurrence import Recurrence
from regard.types import BEGIN

TEXT, OTHER = "elle a lu ce livre .", "oui , bien sûr ce ?"
NAMES = [
    "encoder.embedding",
    "decoder.embedding@3",
    "encoder.2",
    "encoder.2@0",
    "encoder.2.self",
    "decoder.0.cross.head.3@12",
    "decoder.1.feed_forward",
    "decoder.1.recurrence",
    "encoder.2.output@4",
    "encoder.0.gate.forget",
    "encoder.0.gate.forget.5@2",
    "encoder.0.unit.5",
]


def off(*names: str) -> list[Intervention]:
    return [Intervention(Part.parse(name)) for name in names]


LLAMA = {"kind": "transformer", "relative_position": "rotary", "attention": {"kind": "multi_head", "kv_heads": 2}}
OWN = {
    **SHAPES,
    "pre-norm": {**SHAPES["transformer"], "norm": "pre"},
    "rotary": {**SHAPES["transformer"], "encoder": LLAMA, "decoder": LLAMA},
}


def own(shape: str):
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(SHAPES, shape, OWN[shape])
        return made(shape)


@pytest.fixture(scope="module", params=[*SHAPES, "rotary"])
def model(request):
    return own(request.param)


def inputs(translator, text: str = TEXT):
    ids, mask = pad([translator.source_row(translator.encode(text))])
    return ids, mask, torch.tensor([[BEGIN, 5, 6, 7, 8]])


@torch.inference_mode()
def logits(translator, interventions=(), given=None, module=None):
    model, given = module or translator.model, given or inputs(translator)
    with intervene(model, list(interventions)):
        return model(*given)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_what_it_names(name) -> None:
    assert str(Part.parse(name)) == name


@pytest.mark.parametrize("name", ["", "encoder", "head.3", "encoder.0.self.3", "encoder.embedding.3", "encoder.0.gate", "x.0", "encoder.0.unit", "encoder.0.output.3"])  # fmt: skip
def test_other_names_are_refused(name) -> None:
    with pytest.raises(UserError, match="is no part of a model"):
        Part.parse(name)


@torch.inference_mode()
def test_nothing_switched_off_changes_nothing(model) -> None:
    assert torch.equal(logits(model), model.model(*inputs(model)))
    with intervene(model.model, off(*map(str, layer_parts(model.model)))):
        pass
    before = model.translate(TEXT)
    assert model.translate(TEXT) == before  # nothing is left behind
    assert not any("advance" in vars(one) or getattr(one, "editor", None) for one in model.model.modules())


def test_every_part_of_a_model_can_be_switched_off(model) -> None:
    plain = logits(model)
    for one in [*head_parts(model.model), *layer_parts(model.model)]:
        changed = logits(model, [Intervention(one)])
        assert changed.isfinite().all() and changed.shape == plain.shape
    everything = [Intervention(one) for one in layer_parts(model.model)]
    assert not torch.allclose(logits(model, everything), plain)


@pytest.mark.parametrize("shape", ["rotary", "ssru"])
def test_a_head_that_is_off_is_one_whose_columns_of_the_output_projection_are_zero(shape) -> None:
    translator = own(shape)
    for part in head_parts(translator.model)[1::3]:
        copy = deepcopy(translator.model)
        name = {"self": "attention", "cross": "cross_attention"}[part.kind]
        attention = getattr(getattr(copy, part.side).layers[part.layer], name)
        wide = attention.head_width
        with torch.no_grad():
            attention.outward.weight[:, part.unit * wide : (part.unit + 1) * wide] = 0
        torch.testing.assert_close(logits(translator, [Intervention(part)]), logits(translator, module=copy))


@pytest.mark.parametrize("shape", ["transformer", "pre-norm"])
def test_a_layer_that_is_off_adds_nothing(shape) -> None:
    """The same as sublayers whose output projections are zero, in both orders of norm and sublayer."""
    translator = own(shape)
    for side in ("encoder", "decoder"):
        copy = deepcopy(translator.model)
        layer = getattr(copy, side).layers[1]
        with torch.no_grad():
            for sublayer in (layer.attention, getattr(layer, "cross_attention", layer.attention), layer.feed_forward):
                sublayer.outward.weight.zero_()
                sublayer.outward.bias.zero_()
        torch.testing.assert_close(logits(translator, off(f"{side}.1")), logits(translator, module=copy))
        kinds = ["self", "feed_forward", *(["cross"] if side == "decoder" else [])]
        by_kind = logits(translator, off(*(f"{side}.1.{kind}" for kind in kinds)))
        assert torch.equal(by_kind, logits(translator, off(f"{side}.1")))


def test_one_application_of_a_universal_layer() -> None:
    """All of them together are the layer with zero columns; one of them is not."""
    translator = made("universal")
    copy = deepcopy(translator.model)
    copy.encoder.layer.attention.outward.weight.data[:, :4] = 0
    every = [f"encoder.{step}.self.head.0" for step in range(3)]
    torch.testing.assert_close(logits(translator, off(*every)), logits(translator, module=copy))
    assert not torch.allclose(logits(translator, off(every[0])), logits(translator, module=copy))


@torch.inference_mode()
def test_a_position_of_the_source(model) -> None:
    ids, mask, target = inputs(model)
    vectors, seen = model.model.stem(ids, mask)
    vectors = vectors.clone()
    vectors[:, 2] = 0
    memory = model.model.encoder(vectors, seen)
    own, _ = model.model.decoder.step(target, model.model.decoder.start(memory, 1, 0))
    assert torch.equal(logits(model, off("encoder.embedding@2")), own)
    with pytest.raises(UserError, match="no position 99"):
        logits(model, off("encoder.embedding@99"))


@torch.inference_mode()
@pytest.mark.parametrize("beams", [1, 3])
def test_step_by_step_equals_all_at_once(model, beams) -> None:
    """Positions are counted alike, for every beam; parts with a position are changed at that step alone."""
    last = parts_of(model.model)[-1].layer
    names = ["decoder.embedding@1", f"decoder.{last}@2", "decoder.0.output@1", "decoder.0.cross.head.0@2"]
    if isinstance(model.model.decoder, RecurrentDecoder):
        names.pop()
    ids, mask, target = inputs(model)
    whole = logits(model, off(*names), (ids, mask, target))
    decoder = model.model.decoder
    with intervene(model.model, off(*names)):
        state = decoder.start(model.model.encode(ids, mask), beams=beams, capacity=8)
        for t, token in enumerate(target[0]):
            row, state = decoder.step(token.expand(beams, 1), state)
            torch.testing.assert_close(row[:, 0], whole[:, t].expand(beams, -1), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(whole[:, 2:], logits(model, (), (ids, mask, target))[:, 2:])


@torch.inference_mode()
def test_gates_agree_with_the_equations() -> None:
    """An LSTM whose forget gate is 0, and one with a unit of its input gate off, by hand."""
    torch.manual_seed(1)
    cell, x = LSTM(3, 4), torch.randn(1, 5, 3)
    holder = torch.nn.Module()
    holder.encoder = Stack(cell)

    def by_hand(forget: float, unit: int | None) -> torch.Tensor:
        h, c, outputs = torch.zeros(1, 4), torch.zeros(1, 4), []
        for t in range(5):
            i, f, g, o = (x[:, t] @ cell.inward.T + h @ cell.recurrent.T + cell.bias).chunk(4, -1)
            i = i.sigmoid()
            if unit is not None:
                i[:, unit] = 0
            c = forget * f.sigmoid() * c + i * g.tanh()
            h = o.sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs, 1)

    for names, forget, unit in [
        ([], 1.0, None),
        (["encoder.0.gate.forget"], 0.0, None),
        (["encoder.0.gate.input.2"], 1.0, 2),
    ]:
        with intervene(holder, off(*names)):
            torch.testing.assert_close(holder.encoder(x), by_hand(forget, unit))


class Stack(torch.nn.Module):
    """An encoder of one recurrent layer with one direction, or two."""

    def __init__(self, *cells):
        super().__init__()
        self.recurrence = Recurrence(3, 4 * len(cells), 1, direction="both" if len(cells) > 1 else "forward")
        self.recurrence.cells = torch.nn.ModuleList(cells)

    def forward(self, x):
        return self.recurrence(x)[0]


@torch.inference_mode()
def test_a_state_at_a_position_and_both_directions() -> None:
    torch.manual_seed(1)
    x, holder = torch.randn(1, 4, 3), torch.nn.Module()
    forward, backward = GRU(3, 4), GRU(3, 4)
    holder.encoder = Stack(forward, backward)
    after, _ = forward.spelled_out(x[:, 2:], None, (torch.zeros(1, 4),))
    before, _ = backward.spelled_out(x[:, :1], None, (torch.zeros(1, 4),))
    with intervene(holder, off("encoder.0.output@1")):
        found = holder.encoder(x)
    assert torch.equal(found[:, 1], torch.zeros(1, 8))
    torch.testing.assert_close(found[:, 2:, :4], after)  # it goes on from a state of zeros
    torch.testing.assert_close(found[:, :1, 4:], before)
    with intervene(holder, off("encoder.0.unit.6@3")):
        (unit,) = (holder.encoder(x)[0, 3] == 0).nonzero()
    assert unit == 6


def parts_to_patch(model) -> list[Part]:
    found = [Part("encoder"), Part("decoder"), *layer_parts(model.model), *head_parts(model.model)]
    found += [Part(one.side, one.layer, "output") for one in parts_of(model.model)]
    return found + [
        Part(one.side, one.layer, f"gate {gate}") for one in parts_of(model.model) for gate in one.gates
    ]  # fmt: skip


@torch.inference_mode()
def test_patching_a_sentence_into_itself_changes_nothing(model) -> None:
    given, parts = inputs(model), parts_to_patch(model)
    observed = {}

    def forward():
        observed["logits"] = model.model(*given)

    recorded = record_activations(model.model, parts, forward)
    patched = logits(model, [Intervention(part, values) for part, values in recorded.items()], given)
    assert torch.equal(patched, observed["logits"])


@torch.inference_mode()
def test_patching_the_last_encoder_layer_gives_the_other_sentences_memory(model) -> None:
    ids, mask, target = inputs(model)
    others, other_mask, _ = inputs(model, OTHER)
    assert ids.shape == others.shape and not torch.equal(ids, others)
    encoder = model.model.encoder
    depth = max(one.layer for one in parts_of(model.model) if one.side == "encoder")
    part = Part("encoder", depth, "output")
    recorded = record_activations(model.model, [part], lambda: model.model(others, other_mask, target))
    patched = logits(model, [Intervention(part, recorded[part])], (ids, mask, target))
    if isinstance(encoder, TransformerEncoder):  # of others the decoder also gets a mean over steps, or a cell state
        torch.testing.assert_close(patched, logits(model, (), (others, other_mask, target)), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(patched, logits(model, (), (ids, mask, target)))


@torch.inference_mode()
def test_one_position_is_patched_from_another() -> None:
    translator = made("transformer")
    given = inputs(translator)
    part = Part.parse("encoder.0.output")
    ((own,),) = record_activations(translator.model, [part], lambda: translator.model(*given)).values()
    with intervene(translator.model, [Intervention(Part.parse("encoder.0.output@1"), (own[3],))]):
        ((now,),) = record_activations(translator.model, [part], lambda: translator.model(*given)).values()
    assert torch.equal(now[1], own[3]) and torch.equal(now[[0, 2, 3]], own[[0, 2, 3]])
    with (
        pytest.raises(UserError, match="does not fit"),
        intervene(translator.model, [Intervention(part, (own[:, :3],))]),
    ):
        translator.model(*given)


@torch.inference_mode()
def test_the_mean_is_over_all_positions_of_all_passes() -> None:
    translator = made("transformer")
    one, two = inputs(translator), inputs(translator, "où est ?")
    part = Part.parse("encoder.1.self.head.2")
    found = []
    attention = translator.model.encoder.layers[1].attention
    hook = attention.outward.register_forward_pre_hook(lambda _, given: found.append(given[0][0, :, 8:12]))
    translator.model(*one), translator.model(*two)
    hook.remove()
    (made_,) = with_means(translator.model, [part], [lambda: translator.model(*one), lambda: translator.model(*two)])
    torch.testing.assert_close(made_.value[0], torch.cat(found).mean(0))
    assert with_means(translator.model, [part], [], mean=False) == [Intervention(part)]


def test_mistakes_are_one_line() -> None:
    translator = made("transformer")
    for name, words in [
        ("encoder.7", "layers 0 to 1"),
        ("encoder.0.cross", "has no cross"),
        ("encoder.0.self.head.9", "heads 0 to 3"),
        ("encoder.0.feed_forward.head.0", "has no heads"),
        ("encoder.0.gate.forget", "has no gate forget"),
    ]:
        with pytest.raises(UserError, match=words), intervene(translator.model, off(name)):
            pass
    bahdanau = made("bahdanau")
    for name, words in [
        ("decoder.0.gate.resett", "reset"),
        ("decoder.0.unit.99", "units 0 to 15"),
        ("decoder.0.self", "no self"),
    ]:
        with pytest.raises(UserError, match=words), intervene(bahdanau.model, off(name)):
            pass


def test_a_search_uses_what_is_left() -> None:
    translator = made("transformer")
    copy = deepcopy(translator)
    for module in copy.model.decoder.modules():
        if isinstance(module, MultiHead):
            module.outward.weight.data[:, 4:8] = 0
    heads = [f"decoder.{layer}.{kind}.head.1" for layer in range(2) for kind in ("self", "cross")]
    with intervene(translator.model, off(*heads)):
        assert translator.translate(TEXT, beam=4).text == copy.translate(TEXT, beam=4).text
