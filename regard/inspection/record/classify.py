"""Record a classifier: the label of a text, or of an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.data.input._plain_text import PlainText
from regard.errors import UserError
from regard.inspection.record import _text
from regard.inspection.record.arithmetic.selection import calculator
from regard.inspection.record.attribution import Axis, LabelCandidates, attributor
from regard.inspection.record.layers import layers_of
from regard.inspection.record.scene import copied, places_axis, scene_of
from regard.inspection.record.translate import words_of
from regard.inspection.trace.base import SOURCE, TARGET, Side
from regard.inspection.trace.image import ImageTrace
from regard.inspection.trace.next_token import Guess, Option
from regard.inspection.trace.text import TextTrace
from regard.layers.capture import capture

if TYPE_CHECKING:
    from regard.model.classifier import Classifier as Model
    from regard.task.classify import Classifier


def record_classification(classifier: Classifier, given: Any, name: str = "") -> TextTrace | ImageTrace:
    """The trace of one classified text, or image: a file name, a file's bytes, or pixels (H, W, 1 or 3)."""
    kind = classifier.pair.input.kind
    if kind == "image":
        return _record_image(classifier, given, name)
    if kind == "text":
        return _record_text(classifier, PlainText().accept(given), name)
    raise UserError(f"this model reads {kind}, which cannot be inspected yet")


@torch.inference_mode()
def _record_text(classifier: Classifier, text: str, name: str) -> TextTrace:
    ids = _text.token_ids(classifier, text)
    reader = _text.text_input(classifier)
    tokenizer = reader.tokenizer
    words, word_of = words_of(tokenizer, text, reader.bare(ids))
    _, captured = _text.forward(classifier, ids)
    (answer,) = classifier.classify([text])
    label = classifier.labels.names.index(answer.label)
    options = [Option(label, probability) for label, probability in answer.probabilities.items()]

    def log_probabilities(source: Tensor) -> Tensor:
        return _text.logits_of(classifier, source).log_softmax(-1)[:, None]

    return _text.text_trace(
        classifier,
        name,
        Side(text, tokenizer.pieces(ids), words, _text.with_enclosing(reader, word_of)),
        ids,
        captured,
        [Guess("", answer.label, answer.probability, options)],
        answer.label,
        log_probabilities,
        [label],
        LabelCandidates(classifier.labels.names),
        [pooled_positions(classifier.model, len(ids))],
    )


@torch.inference_mode()
def _record_image(classifier: Classifier, given: Any, name: str) -> ImageTrace:
    scene, source, mask, _ = scene_of(classifier, given)
    model = classifier.model
    with capture(model) as captured:
        logits = model(source, mask)
    row = logits[0].float().softmax(-1).tolist()
    ranked = sorted(zip(classifier.labels.names, row), key=lambda pair: -pair[1])
    trace = ImageTrace(
        model=name,
        scene=scene,
        label=ranked[0][0],
        probabilities=dict(ranked),
        **layers_of(classifier, captured, {SOURCE: len(scene.tokens), TARGET: 0}),
    )
    trace.compute_calculation = calculator(model, lambda: model(source, mask))

    def log_probabilities(copies: int, outputs: int) -> Tensor:
        return model(*copied(source, mask, copies)).float().log_softmax(-1)[:, None]

    trace.compute_attribution = attributor(
        model,
        log_probabilities,
        [classifier.labels.names.index(trace.label)],
        {SOURCE: places_axis(scene)},
        Axis([trace.label]),
        LabelCandidates(classifier.labels.names),
        [pooled_positions(model, len(scene.tokens))],
    )
    return trace


def pooled_positions(model: Model, count: int) -> list[int]:
    """The positions of the encoder that the label is read off."""
    return {"first": [0], "first_two": [0, 1], "last": [count - 1]}.get(model.pooling.kind, list(range(count)))
