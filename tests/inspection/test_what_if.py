"""What if: a recorded translation without parts of the model; and the logit lens, whose last layer is the model itself."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import torch
from inspection.test_record_translation import SHAPES, made

from regard.data.batching import pad
from regard.errors import UserError
from regard.inspection.draw.what_if import changed_words
from regard.inspection.record.interventions import Intervention, intervene
from regard.inspection.record.logit_lens import FINAL, layer_logits
from regard.inspection.record.parts import Part, layer_parts, parts_of
from regard.inspection.trace.base import CROSS, Choice
from regard.types import BEGIN

TEXT, OTHER = "elle a lu ce livre .", "oui , bien sûr ce ?"


QUICK = ("transformer", "universal", "luong")
KINDS = [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in SHAPES]


@pytest.fixture(scope="module", params=KINDS)
def traced(request):
    translator = made(request.param)
    return translator, translator.inspect(TEXT)


@torch.inference_mode()
def test_the_other_translation_is_the_search_without_the_part(traced) -> None:
    translator, trace = traced
    part = layer_parts(translator.model)[-1]
    found = trace.what_if_of(Choice(without=[str(part)]))
    with intervene(translator.model, [Intervention(part)]):
        own = translator.translate(TEXT)
        ids, mask = pad([translator.source_row(translator.encode(TEXT))])
        rows = translator.model(ids, mask, torch.tensor([[BEGIN, *trace.ids[:-1]]]))[0].softmax(-1)
    assert found.after.target.text == own.text and found.after.score == pytest.approx(own.score, abs=1e-4)
    likely = rows.gather(1, torch.tensor(trace.ids)[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(found.probabilities), likely, atol=1e-4, rtol=1e-4)
    assert found.log_probability == pytest.approx(float(likely.log().sum()), abs=1e-3)
    assert translator.translate(TEXT).text == trace.target.text  # nothing is left behind
    for one, other in zip(trace.of_kind(CROSS), found.after.of_kind(CROSS)):
        assert one.path == other.path


def test_a_patch_from_the_same_sentence_changes_nothing(traced) -> None:
    translator, trace = traced
    parts = [Part(one.side, one.layer, "output") for one in parts_of(translator.model)]
    found = trace.what_if_of(Choice(patch=[str(part) for part in parts if part.side == "encoder"], other=TEXT))
    assert found.after.target == trace.target and found.other_translation == trace.target.text
    assert found.probabilities == trace.probabilities
    # A search also tries other tokens than those that the decoder's states belong to.
    assert trace.what_if_of(Choice(patch=list(map(str, parts)), other=TEXT)).probabilities == trace.probabilities


def test_a_patch_from_another_sentence_comes_from_the_position_that_is_named() -> None:
    """All positions of the last encoder layer, one by one: the decoder then reads the other sentence."""
    translator = made("transformer")
    trace, other = translator.inspect(TEXT), translator.inspect(OTHER)
    assert len(trace.source_ids) == len(other.source_ids)
    patches = [f"encoder.1.output@{place}={place}" for place in range(len(trace.source_ids))]
    found = trace.what_if_of(Choice(patch=patches, other=OTHER))
    assert found.after.target.tokens == other.target.tokens
    whole = trace.what_if_of(Choice(patch=["encoder.1.output"], other=OTHER))
    assert whole.probabilities == pytest.approx(found.probabilities)


def test_the_mean_is_that_of_the_sentence() -> None:
    translator = made("transformer")
    trace = translator.inspect(TEXT)
    found = []
    hook = translator.model.encoder.layers[0].around_feed_forward.dropout.register_forward_hook(
        lambda module, given, output: found.append(output[0])
    )
    ids, mask = pad([trace.source_ids])
    with torch.inference_mode():
        translator.model.encode(ids, mask)
        hook.remove()
        value = found[0].mean(0)
        with intervene(translator.model, [Intervention(Part.parse("encoder.0.feed_forward"), (value,))]):
            rows = translator.model(ids, mask, torch.tensor([[BEGIN, *trace.ids[:-1]]]))[0].softmax(-1)
    own = trace.what_if_of(Choice(without=["encoder.0.feed_forward"], mean=True))
    likely = rows.gather(1, torch.tensor(trace.ids)[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(own.probabilities), likely, atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_the_last_layer_of_the_lens_is_the_model(traced) -> None:
    translator, trace = traced
    ids, mask = pad([trace.source_ids])
    target = torch.tensor([[BEGIN, *trace.ids[:-1]]])
    found = layer_logits(translator.model, lambda: translator.model(ids, mask, target))
    depth = len([one for one in parts_of(translator.model) if one.side == "decoder"])
    names = [f"layer {number}" for number in range(depth)]
    if hasattr(translator.model.decoder, "norm"):
        names.insert(0, "embedding")
    if getattr(translator.model.decoder, "halting", None) is not None:
        names.append(FINAL)
    assert list(found) == names
    torch.testing.assert_close(found[names[-1]], translator.model(ids, mask, target)[0], atol=1e-4, rtol=1e-5)
    lens = trace.lens()
    assert lens.written == trace.target.tokens and lens.read == trace.read
    assert lens.layers[-1].probabilities == pytest.approx(trace.probabilities, abs=1e-5)


@torch.inference_mode()
def test_the_first_layer_of_the_lens_is_that_of_a_shorter_model() -> None:
    """A decoder whose second layer is missing."""
    translator = made("transformer")
    trace = translator.inspect(TEXT)
    decoder = translator.model.decoder
    decoder.layers = decoder.layers[:1]
    ids, mask = pad([trace.source_ids])
    logits = translator.model(ids, mask, torch.tensor([[BEGIN, *trace.ids[:-1]]]))
    shorter = logits[0].softmax(-1).gather(1, torch.tensor(trace.ids)[:, None])[:, 0]
    decoder.layers = made("transformer").model.decoder.layers
    assert trace.lens().layers[1].probabilities == pytest.approx(shorter.tolist(), abs=1e-5)


def test_words_that_changed() -> None:
    gone, fresh = changed_words(["I", "am", "a", "student"], ["I", "was", "a", "good", "student"])
    assert gone == [False, True, False, False] and fresh == [False, True, False, True, False]


def test_views_and_their_files(traced) -> None:
    translator, trace = traced
    part = str(layer_parts(translator.model)[-1])
    for name, choice in (("what-if", {"without": [part]}), ("logit-lens", {})):
        ElementTree.fromstring(trace.svg(name, **choice))
        assert "<!doctype html>" in trace.html(name, **choice)
    view = trace.view("what-if", without=[part])
    assert len(view.pictures) == (3 if trace.of_kind(CROSS) else 1)
    tree = json.loads(trace.json(("what_if", "logit_lens")))
    assert tree["what_if"]["without"] == [part] and len(tree["logit_lens"]["layers"]) == len(trace.lens().layers)
    assert json.loads(trace.json(()))["source"] and "what_if" not in json.loads(trace.json(()))


def test_mistakes_are_one_line() -> None:
    trace = made("transformer").inspect(TEXT)
    for choice, words in [
        ({}, "name what to switch off"),
        ({"without": ["encoder.9"]}, "layers 0 to 1"),
        ({"without": ["nonsense"]}, "is no part of a model"),
        ({"patch": ["encoder.0"]}, "the other sentence"),
        ({"patch": ["encoder.0=3"], "other": OTHER}, "is no patch"),
        ({"patch": ["encoder.0@1=99"], "other": OTHER}, "positions 0 to"),
        ({"without": ["encoder.embedding@99"]}, "no position 99"),
    ]:
        with pytest.raises(UserError, match=words):
            trace.view("what-if", **choice)
    with pytest.raises(UserError, match="no model"):
        replace(trace).what_if_of(Choice(without=["encoder.0"]))
