"""R20: where a model looked at a picture is what it did, place by place, for the answer that it gave."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from task.seers import DECODERS, NAMES, PATCH, SIZE, by_hand, captioner, classifier, picture, png, transcriber

import regard
from regard.data.input.sound import Sound
from regard.errors import UserError
from regard.inspection.record import scene as module
from regard.inspection.trace.base import CROSS, SOURCE
from regard.layers.capture import capture
from regard.types import BEGIN, END


@pytest.mark.parametrize("class_token", [True, False])
def test_R20_weights_and_classes_are_those_of_a_pass_by_hand(class_token):
    task, pixels = classifier(class_token=class_token), picture()
    seen = task.inspect(pixels)
    wanted, probabilities = by_hand(task, pixels)
    assert len(seen.attention) == len(wanted) == 3
    for layer, weights in zip(seen.of_kind(SOURCE), wanted, strict=True):
        np.testing.assert_allclose(layer.weights, weights, atol=1e-5)
        np.testing.assert_allclose(layer.weights.sum(-1), 1, atol=1e-5)
    assert [seen.probabilities[name] for name in NAMES] == pytest.approx(probabilities.tolist(), abs=1e-5)
    assert seen.label == NAMES[probabilities.argmax()] == str(task.classify([pixels])[0])
    assert seen.scene.tokens == ["class"][: int(class_token)] + [f"r{r} c{c}" for r in range(3) for c in range(3)]
    assert np.array_equal(seen.scene.pixels, pixels)


@pytest.mark.parametrize("row, column", [(0, 2), (2, 0), (1, 2)])
def test_R20_the_place_that_is_looked_at_is_where_it_is_in_the_picture(row, column):
    """Every query is the same by hand, and a key is great where a patch is bright: one place is, and not its mirror."""
    task = classifier()
    model = task.model
    with torch.no_grad():
        for weight in (model.stem.project.weight, model.stem.project.bias, model.stem.placing.position.table.weight):
            weight.zero_()
        model.stem.project.weight[0] = 1.0  # the first number of a vector is how bright its patch is
        attention = model.encoder.layers[0].attention
        attention.inward.weight.zero_()
        attention.inward.bias.zero_()
        width = attention.width
        attention.inward.bias[:width] = 3.0
        attention.inward.weight[width : 2 * width, 0] = 1.0
    pixels = np.zeros((SIZE, SIZE, 1), np.uint8)
    pixels[row * PATCH : (row + 1) * PATCH, column * PATCH : (column + 1) * PATCH] = 255
    seen = task.inspect(pixels)
    for head in seen.scene.of_places(seen.attention[0].weights[:, 0]):
        assert head.argmax() == row * 3 + column and head[row, column] > 0.9
    assert seen.scene.places[row * 3 + column] == f"r{row} c{column}"


def test_rollout_follows_the_attention_through_the_layers():
    seen = classifier().inspect(picture())
    so_far = np.eye(10)
    for layer, found in zip(seen.attention, seen.rollout(), strict=True):
        mixed = 0.5 * layer.weights.astype(np.float64).mean(0) + 0.5 * np.eye(10)
        so_far = mixed @ so_far
        np.testing.assert_allclose(found, so_far, atol=1e-5)
        np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(seen.tree()["rollout"], seen.rollout(), rtol=1e-7)


@pytest.mark.parametrize("decoder", list(DECODERS))
def test_R20_a_caption_is_the_one_that_is_written_and_its_looks_are_those_of_the_model(decoder):
    task, pixels = captioner(decoder), picture(16, 16, 3)
    seen = task.inspect(pixels, n_best=2)
    written = task.caption(pixels, n_best=2)
    assert (seen.target.text, seen.log_probability) == (written.text, pytest.approx(written.log_probability, abs=1e-5))
    assert [one.text for one in seen.candidates] == [written.text, *(one.text for one in written.alternatives)]
    ended = [*written.ids, END] if written.finished else written.ids
    assert len(seen.target.tokens) == len(seen.read) == len(seen.probabilities) == len(ended)
    assert seen.probabilities[: len(written.ids)] == pytest.approx(written.token_probabilities, abs=1e-4)
    assert seen.search and seen.search[0].open
    assert (decoder != "transformer") == bool(seen.gates)
    if decoder == "recurrent":
        assert not seen.of_kind(CROSS)
        return
    matrix = seen.token_matrix()
    np.testing.assert_allclose(matrix.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(matrix[: len(written.ids)], task.attention(pixels, written.ids), atol=1e-5)
    assert len(seen.word_matrix()) == len(written.text.split())
    np.testing.assert_allclose(seen.word_matrix(), matrix[: len(written.ids)], atol=1e-6)  # its words are its tokens


def test_R20_looks_are_those_of_the_steps_that_wrote():
    """The decoder step by step, as a search runs it, sees what the one pass over the finished text sees."""
    task, pixels = captioner(), picture(16, 16, 3)
    seen = task.inspect(pixels, beam=1)
    _, source, mask = next(task.batches([pixels]))
    with torch.inference_mode():
        memory = task.model.encode(source, mask)
        state = task.model.decoder.start(memory, beams=1, capacity=20)
        rows = []
        fed = [BEGIN, *task.tokenizer.encode(seen.target.text)]
        for token in fed[: len(seen.target.tokens)]:
            with capture(task.model.decoder) as told:
                _, state = task.model.decoder.step(torch.tensor([[token]]), state)
            (weights,) = next(calls for name, calls in told.items() if name.endswith("cross_attention.weights"))
            rows.append(weights[0, 0, 0].numpy())
    np.testing.assert_allclose(seen.of_kind(CROSS)[0].weights[0], np.array(rows), atol=1e-5)


@pytest.mark.parametrize(
    "content, note",
    [
        (png(picture(30, 50)), "50 x 30"),
        (png(picture(40, 40, 3)), ""),
        (png(picture(40, 40, 3), "RGBA"), ""),
        (png(picture(12, 12), "LA"), ""),
        (png(picture(12, 12), "1"), ""),
        (png(picture(24, 24, 3), kind="JPEG"), ""),
    ],
)
@pytest.mark.parametrize("task", [classifier(), captioner()])
def test_a_picture_of_any_size_and_colour_is_shown_as_the_model_sees_it(task, content, note, tmp_path):
    file = tmp_path / "some picture.png"
    file.write_bytes(content)
    for given in (content, file, str(file)):
        seen = task.inspect(given)
        size, channels = task.pair.input.size, task.pair.input.channels
        assert seen.scene.pixels.shape == (size, size, channels)
        encoded = task.pair.input.encode(task.pair.input.read(str(file)))
        mean, spread = (np.array(part)[:, None, None] for part in (task.pair.input.mean, task.pair.input.spread))
        np.testing.assert_allclose(seen.scene.pixels.transpose(2, 0, 1) / 255, encoded * spread + mean, atol=1e-6)
        assert all(note in one for one in seen.scene.notes) and bool(seen.scene.notes) == bool(note)
    assert seen.scene.name == "some picture.png"


@pytest.mark.parametrize("content", [b"", b"not a picture", png(picture())[:60], b"GIF89a" + bytes(40)])
def test_what_is_no_picture_is_refused_in_one_line(content, tmp_path):
    file = tmp_path / "broken.png"
    file.write_bytes(content)
    for given in (content, file):
        with pytest.raises(UserError) as refused:
            classifier().inspect(given)
        assert "\n" not in str(refused.value)
    with pytest.raises(UserError, match="does not exist"):
        captioner().inspect(tmp_path / "nowhere.png")


def test_too_many_pixels_or_places_are_refused_before_they_are_read(monkeypatch):
    from regard.data import picture as pictures

    monkeypatch.setattr(pictures, "MOST_PIXELS", 100)
    with pytest.raises(UserError, match="million pixels"):
        classifier().inspect(png(picture()))
    monkeypatch.setattr(module, "MOST_PLACES", 8)
    with pytest.raises(UserError, match="9 places; at most 8"):
        classifier().inspect(picture())


def test_R20_numbers_in_a_file_are_those_of_the_pass(tmp_path):
    task = classifier()
    seen = regard.inspect(task, picture())
    tree = json.loads(seen.json())
    for layer, told in zip(seen.attention, tree["attention"], strict=True):
        assert np.array_equal(np.array(told["weights"], np.float32), layer.weights)
    assert tree["scene"]["pixels"].startswith("data:image/png;base64,") and tree["label"] == seen.label
    caption = json.loads(captioner().inspect(picture(16, 16, 3)).json())
    assert np.array(caption["word_matrix"]).shape[1] == 16


def test_a_recording_is_shown_as_its_spectrogram():
    """A tone of 1,000 Hz from the second half on: bright there, in one row, above the bottom."""
    task = transcriber()
    time = np.arange(8000) / 8000
    samples = np.where(time > 0.5, np.sin(2 * np.pi * 1000 * time), 0).astype(np.float32)
    seen = task.inspect(Sound(samples, 8000))
    stem, pixels = task.model.stem, seen.scene.pixels
    np.testing.assert_allclose(seen.token_matrix().sum(-1), 1, atol=1e-5)
    assert seen.scene.rows == 1 and seen.token_matrix().shape[1] == seen.scene.columns == len(seen.scene.places)
    assert pixels.shape == (stem.mels, 4 * seen.scene.columns, 1) and seen.scene.places[1] == "0.04 s"
    half = pixels.shape[1] // 2
    assert pixels[:, half + 4 :].max() == 255 and pixels[:, : half - 6].max() < 30
    top = 2595 * np.log10(1 + 4000 / 700)
    band = 2595 * np.log10(1 + 1000 / 700) / top * (stem.mels + 1) - 1  # whose middle is 1,000 Hz
    assert abs(int(pixels[::-1, half + 4 :].astype(int).sum((1, 2)).argmax()) - band) < 1
    assert "<svg" in seen.svg()


def test_numbers_of_a_head_are_followed_to_its_weights():
    seen = classifier().inspect(picture())
    found = seen.view("numbers", layer=1, head=1, position=4) and seen.calculations[0]
    assert found.kind == SOURCE and "<svg" in seen.svg("numbers", layer=1)
    assert "<svg" in captioner().inspect(picture(16, 16, 3)).svg("numbers", position=1)
