"""The task modules of a worker: the same results as the task itself, and malicious files."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import socket
import struct
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from PIL import Image
from serving.calling import calling

import regard
from regard.config import apply_overrides, read_recipe, tiny_form
from regard.data.normalise import normalise
from regard.data.splitting import read_parts
from regard.decoding.cancellation import cancellation
from regard.errors import UserError
from regard.serving.catalogue import Catalogue, ServedModel
from regard.serving.http.app import app_with_middleware
from regard.serving.http.routes import tasks
from regard.serving.settings import Settings
from regard.serving.workers import translation_result as translated
from regard.serving.workers import worker
from regard.serving.workers.tasks import (
    caption,
    classify,
    fill,
    forecast,
    generate,
    module_of,
    tag,
    task_names,
    track,
    transcribe,
    translate,
)
from regard.serving.workers.translation_result import SearchOptions, TranslationResult, join, joined_attention_size
from regard.serving.workers.worker import _answer, _as_tree
from regard.serving.workers.worker_pool import WorkerPool
from regard.task.translate import Translation

FORMS: dict[str, tuple[str, int, int]] = {
    "translate": ("universal-multi30k", 30, 500),
    "text": ("sentiment-lstm", 4, 0),
    "series": ("activity-watch", 4, 0),
    "image": ("caption-attention", 20, 60),
    "clip": ("activity-clips", 4, 60),
    "tag": ("entities-bilstm", 4, 0),
    "fill": ("bert-english", 4, 0),
    "generate": ("char-rnn-shakespeare", 4, 0),
    "transcribe": ("speech-digits", 4, 60),
    "track": ("track-clips", 4, 60),
    "forecast": ("forecast-ett-linear", 4, 0),
}
"""What the models of these tests are tiny forms of, for how many steps they are trained and, unless that is quick
anyway, with how many examples. They have learnt next to nothing, so their answers are unsure."""


def form(name: str) -> Any:
    recipe, steps, count = FORMS[name]
    made = [f"data.format.count={count}"] if count else []
    times = [f"training.{key}={steps}" for key in ("steps", "validate_every", "save_every")]
    options = ["training.device=cpu", "data.valid_limit=4", *times, *made]
    return apply_overrides(tiny_form(read_recipe(recipe)), options)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models by name, trained on first use."""
    made: dict[str, Any] = {}
    here = tmp_path_factory.mktemp("models")

    def get(name: str) -> Any:
        if name not in made:
            regard.train(form(name), folder=here / name, quiet=True)
            made[name] = regard.load(here / name)
        return made[name]

    get.here = here
    return get


def examples(name: str, count: int = 3) -> list[Any]:
    return [example.input for example in read_parts(form(name).data).test[:count]]


def sent(content: bytes, **options: Any) -> dict[str, Any]:
    return {"content": base64.b64encode(content).decode(), **options}


def picture(pixels: np.ndarray, format: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0]).save(file, format)
    return file.getvalue()


def sound(name: str = "transcribe") -> bytes:
    (heard,) = examples(name, 1)
    file = io.BytesIO()
    soundfile.write(file, heard.samples, heard.rate, format="WAV", subtype="FLOAT")
    return file.getvalue()


def gif(frames: np.ndarray) -> bytes:
    first, *more = [Image.fromarray(frame[..., 0] if frame.shape[2] == 1 else frame) for frame in frames]
    file = io.BytesIO()
    first.save(file, "GIF", save_all=True, append_images=more, duration=40)
    return file.getvalue()


def fits(answering: Any, tree: dict[str, Any]) -> dict[str, Any]:
    """An answer after JSON serialization, validated against the documented schema."""
    arrived = json.loads(json.dumps(tree, allow_nan=False))
    answering.Answer.model_validate({"model": "m", **arrived}, extra="forbid")
    return arrived


# ------------------------------------------------------------------------------------------------------ results of the tasks


def test_texts_are_classified(models):
    task, texts = models("text"), ["a wonderful film", "boring boring the", "film"]
    found = fits(classify, classify.answer(task, {"text": texts}))["answers"]
    assert found == [asdict(one) for one in task.classify(texts)]
    assert list(found[0]["probabilities"]) == list(task.classify(texts)[0].probabilities), "the likeliest first"
    (one,) = classify.answer(task, {"text": texts[0], "top": 1})["answers"]
    assert one["probabilities"] == {one["label"]: one["probability"]}


def test_series_are_classified(models):
    task, (rows, *_) = models("series"), examples("series")
    found = fits(classify, classify.answer(task, {"series": rows.tolist()}))["answers"]
    assert found == [asdict(one) for one in task.classify([rows])]


def test_files_are_classified(models):
    task, (frames, *_) = models("clip"), examples("clip")
    found = fits(classify, classify.answer(task, sent(gif(frames), top=2)))
    (wanted,) = task.classify([frames])
    assert found["notes"] == [] and found["answers"][0]["label"] == wanted.label
    assert found["answers"][0]["probabilities"] == dict(list(wanted.probabilities.items())[:2])


def test_texts_are_tagged(models):
    task, texts = models("tag"), ["Yesterday, Harry Potter met Hermione Granger.", "Nobody was at home."]
    assert fits(tag, tag.answer(task, {"text": texts}))["answers"] == [asdict(one) for one in task.tag(texts)]
    cut = tag.answer(task, {"text": texts[0], "words": True})["answers"]
    assert cut == [asdict(one) for one in task.tag([texts[0].split()])] and cut[0]["words"] == texts[0].split()


def test_blanks_are_filled(models):
    task, texts = models("fill"), ["the _ of the _", "_ one"]
    assert fits(fill, fill.answer(task, {"text": texts, "top": 4}))["answers"] == [
        asdict(one) for one in task.fill(texts, 4)
    ]
    with pytest.raises(UserError, match="there is no blank"):
        fill.answer(task, {"text": "nothing to fill"})
    with pytest.raises(UserError, match="1,002 blanks exceed the limit of 1,000"):
        fill.answer(task, {"text": ["_ _ _"] * 334})


def test_a_text_is_gone_on_with(models):
    task = models("generate")
    how = {"length": 12, "temperature": 0.8, "top_k": 9, "top_p": 0.9}
    wanted = task.generate("ROMEO", seed=7, **how)
    asked = {"prompt": "ROMEO", "seed": 7, **how}
    assert fits(generate, generate.answer(task, asked)) == asdict(wanted)
    *pieces, last = generate.parts(task, asked)
    assert last == {"done": asdict(wanted)}
    assert [piece["token"] for piece in pieces] == wanted.tokens
    assert "".join(piece["text"] for piece in pieces) == wanted.text


def test_a_text_that_was_liked_can_be_had_again(models):
    task = models("generate")
    first, other = (generate.answer(task, {"length": 20}) for _ in range(2))
    assert first["seed"] != other["seed"] and first["text"] != other["text"]
    assert generate.answer(task, {"length": 20, "seed": first["seed"]}) == first


def test_a_picture_is_described(models):
    task, (pixels, *_) = models("image"), examples("image")
    wanted = task.caption(pixels, beam=3, n_best=2)
    found = fits(caption, caption.answer(task, sent(picture(pixels), beam="3", n_best="2")))
    assert found == {
        "text": wanted.text,
        "log_probability": wanted.log_probability,
        "finished": wanted.finished,
        "tokens": [{"token": t, "probability": p} for t, p in zip(wanted.tokens, wanted.token_probabilities)],
        "alternatives": [{"text": w.text, "log_probability": w.log_probability} for w in wanted.alternatives],
        "notes": [],
    }
    assert len(found["alternatives"]) == 1 and found["tokens"]


def test_a_recording_is_written_down(models):
    task, (heard, *_) = models("transcribe"), examples("transcribe")
    wanted = task.transcribe(heard, beam=2)
    found = fits(transcribe, transcribe.answer(task, sent(sound(), beam=2)))
    assert (found["text"], found["log_probability"]) == (wanted.text, wanted.log_probability)


def test_an_object_is_followed(models):
    task, (frames, *_) = models("track"), examples("track")
    (wanted,) = task.track([frames])
    found = fits(track, track.answer(task, sent(gif(frames))))
    assert found == {"places": [list(place) for place in wanted.places], "spreads": wanted.spreads, "notes": []}


def test_what_comes_next_is_forecast(models):
    task, (past, *_) = models("forecast"), examples("forecast")
    rows, reach = past[-task.model.window :].astype(float).tolist(), task.model.horizon
    wanted = task.forecast(np.array(rows, np.float32), reach + 2)
    found = fits(forecast, forecast.answer(task, {"series": rows, "horizon": reach + 2}))
    assert found["columns"] == wanted.columns and "further ones follow from its own forecasts" in found["notes"][0]
    for place, column in enumerate(wanted.columns):
        for name, part in (("value", wanted.values), ("low", wanted.low), ("high", wanted.high)):
            given = [np.nan if value is None else value for value in found["forecasts"][column][name]]
            np.testing.assert_array_equal(np.array(given, np.float32), part[:, place])
    assert found["forecasts"][wanted.columns[0]]["low"][-1] is None, "beyond its horizon it was not measured"
    assert len(forecast.answer(task, {"series": rows})["forecasts"][wanted.columns[0]]["value"]) == reach


def test_mistakes_in_a_series_are_one_line(models, monkeypatch):
    task = models("forecast")
    width = len(task.columns)
    for series, said in (
        ([[1.0] * width] * 2, "too short: the model looks at the last"),
        ([[1.0] * (width + 1)] * 200, f"the model reads steps of {width} numbers"),
        ([[1.0] * width, [1.0] * (width - 1)], f"row 2 has {width - 1} numbers, but the first has {width}"),
    ):
        with pytest.raises(UserError, match=said):
            forecast.answer(task, {"series": series})
    with pytest.raises(UserError, match=f"{task.model.horizon} steps of {width} columns exceed the limit of 3 numbers"):
        monkeypatch.setattr(forecast, "MAX_NUMBERS", 3)
        forecast.answer(task, {"series": [[1.0] * width] * 200})


def test_a_translation_is_described_with_where_it_looked(models):
    """As sent by a worker: a row per word of the translation, a column per word of the text."""
    task, texts = models("translate"), ["4\u200b  9\u00a04", "1 8", ""]
    found = task.translate(texts, n_best=2, alignment=True)
    for text, one in zip(texts, found):
        tree = json.loads(json.dumps(_as_tree(one, True, True)))
        told = translate.answered(text, TranslationResult.from_tree(tree))
        fits(translate, {"answers": [told]})
        assert (told["text"], told["score"], told["tokens"]) == (one.text, one.score, one.tokens)
        assert [other["text"] for other in told["alternatives"]] == [other.text for other in one.alternatives]
        assert told["alignment"] == (one.alignment or [])
        looks = told["attention"]
        assert (looks["source"], looks["target"]) == (normalise(text).split(), one.text.split())
        wanted = [] if one.attention is None else one.attention.tolist()
        assert looks["weights"] == wanted and len(wanted) == len(looks["target"])
        assert all(len(row) == len(looks["source"]) for row in wanted)
    assert found[0].attention is not None and len(found[0].attention), "something was looked at"
    (unknown,) = task.translate(["words unheard of"], alignment=True)
    told = translate.answered("words unheard of", TranslationResult.from_tree(_as_tree(unknown, True, True)))
    assert told["attention"]["source"] == [], "no names for columns that a tokenizer did not keep apart"
    plain = translate.answered(texts[0], TranslationResult.from_tree(_as_tree(found[0], False, False)))
    assert "alignment" not in plain and "attention" not in plain


def test_a_long_text_translated_part_by_part_is_what_the_task_makes_of_it(models):
    task, how = models("translate"), SearchOptions(n_best=2, alignment=True, attention=True)
    text = " ".join(f"{number} 4 {number}." for number in range(40))
    whole = task.translate(text, n_best=2, alignment=True)
    parts = task.parts(text)
    assert len(parts) > 10
    trees = [_answer(one, True, True) for one in task.translate(parts, n_best=2, alignment=True)]
    found = join(parts, [TranslationResult.from_tree(json.loads(json.dumps(tree))) for tree in trees], how)
    assert asdict(found) == asdict(TranslationResult.from_tree(_as_tree(whole, True, True)))
    assert joined_attention_size([TranslationResult.from_tree(tree) for tree in trees]) == sum(
        one.attention.size for one in (whole, *whole.alternatives)
    )


def test_doubt_is_described_and_joined(models):
    task, parts = models("translate"), ["4 9 4.", "1 8 2019."]
    found = task.translate(parts, n_best=2, doubt=True)
    trees = [json.loads(json.dumps(_answer(one, False, False, True))) for one in found]
    results = [TranslationResult.from_tree(tree) for tree in trees]
    for text, one, result in zip(parts, found, results):
        told = translate.answered(text, result)
        fits(translate, {"answers": [told]})
        assert [(w["start"], w["end"]) for w in told["words"]] == [(w.start, w.end) for w in one.words]
        assert told["confidence"] == round(one.confidence, 4) and "words" in told["alternatives"][0]
        assert [(w["check"], w["message"]) for w in told["warnings"]] == [tuple(w) for w in one.warnings]
    whole = join(parts, results, SearchOptions(doubt=True))
    shown = [whole.text[word.start : word.end] for word in whole.words]
    assert shown == [r.text[w.start : w.end] for r in results for w in r.words]
    assert whole.confidence == min(one.confidence for one in found)
    assert "words" not in translate.answered("4", TranslationResult.from_tree(_as_tree(found[0], False, False)))


def test_attention_that_is_too_much_is_refused_by_the_worker_before_it_is_made_into_numbers(models, monkeypatch):
    found = models("translate").translate("4 9 4", n_best=3, alignment=True)
    weights = sum(one.attention.size for one in (found, *found.alternatives))
    monkeypatch.setattr(translated, "MAX_ATTENTION_WEIGHTS", weights)
    assert _answer(found, True, True)["text"] == found.text
    monkeypatch.setattr(translated, "MAX_ATTENTION_WEIGHTS", weights - 1)
    monkeypatch.setattr("regard.serving.workers.worker._as_tree", None)
    refused = _answer(found, True, True)
    assert refused["kind"] == "refused" and f"{weights} weights exceed the limit of {weights - 1}" in refused["error"]


class Echo:
    """A task that returns a text of the requested length, and a model whose translation of `long` is very long."""

    def answer(self, model: Any, request: dict[str, Any]) -> dict[str, Any]:
        return {"text": "x" * request["length"]}

    def parts(self, model: Any, request: dict[str, Any]) -> Any:
        yield from ({"text": "x" * length} for length in (1, request["length"], 1))

    def translate(self, texts: list[str], **how: Any) -> list[Translation]:
        return [Translation(text, text * (1000 if text == "long" else 1)) for text in texts]


class Listed(worker.JobReader):
    """Jobs that nobody cancels."""

    def __init__(self, asked: list[dict[str, Any]]):
        self._asked = asked

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield from ({"id": number, **job} for number, job in enumerate(self._asked))

    def cancelled(self) -> tuple[int, ...]:
        return ()

    raise_if_cancelled = cancelled


def test_a_worker_answers_nothing_that_is_longer_than_a_message_may_be(monkeypatch):
    monkeypatch.setattr(worker, "MAX_MESSAGE_BYTES", 2000)
    monkeypatch.setattr(worker, "_module", lambda job: Echo())
    out = io.BytesIO()
    search = {**asdict(SearchOptions()), "n_best": [1, 1, 1]}
    asked = [
        {"action": "run", "family": "tasks", "task": "echo", "model": "m", "request": {"length": 10}},
        {"action": "run", "family": "tasks", "task": "echo", "model": "m", "request": {"length": 3000}},
        {"action": "stream", "family": "tasks", "task": "echo", "model": "m", "request": {"length": 3000}},
        {"action": "translate", "model": "m", "texts": ["a", "long", "b"], "search": search},
    ]
    worker.Worker({"m": Echo()}, Listed(asked), worker.MessageWriter(out)).run()
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 2000
    small, large, first, stream, batch = map(json.loads, lines)
    assert small["answer"] == {"text": "x" * 10} and first["part"] == {"text": "x"}
    for refused in (large, stream, batch["answer"][1]):
        assert refused["kind"] == "refused" and refused["error"].startswith("The answer is longer than")
    assert (large["id"], stream["id"]) == (1, 2)
    assert [batch["answer"][item]["text"] for item in (0, 2)] == ["a", "b"]


@pytest.mark.parametrize("engine, calls", [("ctranslate2", [(3, 3)]), ("torch", [(1, 2), (3, 1)])])
def test_each_text_of_a_batch_gets_as_many_translations_as_it_asked_for(engine, calls):
    """CTranslate2 takes all at once; torch does not search for more than a text needs."""
    seen = []

    class Several:
        def translate(self, texts: list[str], n_best: int, **how: Any) -> list[Translation]:
            seen.append((n_best, len(texts)))
            others = [Translation("", f"other {rank}") for rank in range(1, n_best)]
            return [Translation(text, text, alternatives=list(others)) for text in texts]

    model, out = Several(), io.BytesIO()
    model.engine = engine
    job = {"action": "translate", "model": "m", "texts": ["a", "b", "c"]}
    job["search"] = {**asdict(SearchOptions()), "n_best": [1, 3, 1]}
    worker.Worker({"m": model}, Listed([job]), worker.MessageWriter(out)).run()
    answers = json.loads(out.getvalue())["answer"]
    assert [one["text"] for one in answers] == ["a", "b", "c"]
    assert [[other["text"] for other in one["alternatives"]] for one in answers] == [[], ["other 1", "other 2"], []]
    assert seen == calls


def test_a_model_that_reads_something_else_says_what(models):
    for asked, said in (
        (sent(picture(np.zeros((8, 8, 3), np.uint8))), "this model reads texts"),
        ({"series": [[1.0]]}, "this model reads texts"),
        ({}, "give either a text or a series"),
        ({"text": "a", "series": [[1.0]]}, "give either a text or a series"),
        ({"text": " "}, "the text is empty"),
    ):
        with pytest.raises(UserError, match=said):
            classify.answer(models("text"), asked)
    with pytest.raises(UserError, match="this model reads clips; send an animated GIF as the body"):
        classify.answer(models("clip"), {"text": "a"})


def test_what_was_changed_in_a_file_is_said(models):
    assert caption.answer(models("image"), sent(picture(np.zeros((20, 30, 3), np.uint8))))["notes"] == [
        "body: is 30 x 20 pixels; only the square in the middle is used"
    ]
    file = io.BytesIO()
    soundfile.write(file, np.zeros((4800, 2), np.float32), 48_000, format="FLAC")
    assert transcribe.answer(models("transcribe"), sent(file.getvalue()))["notes"] == [
        "body: 2 channels, mixed into one",
        "body: 48,000 Hz, resampled to the model's 8,000 Hz",
    ]


def test_R14_what_nobody_waits_for_is_not_finished(models):
    class Unwanted(Exception):
        pass

    def gone() -> tuple[int, ...]:
        raise Unwanted

    (rows, *_) = examples("series")
    for answering, name, asked in (
        (classify, "text", {"text": ["a film"] * 3}),
        (classify, "series", {"series": rows.tolist()}),
        (tag, "tag", {"text": "a text"}),
        (fill, "fill", {"text": "a _"}),
        (generate, "generate", {"length": 10_000}),
        (caption, "image", sent(picture(examples("image")[0]))),
        (transcribe, "transcribe", sent(sound())),
    ):
        with cancellation(gone), pytest.raises(Unwanted):
            answering.answer(models(name), asked)


# ---------------------------------------------------------------------------------------------------- malicious files


def png(width: int, height: int, *chunks: tuple[bytes, bytes], colours: int = 2) -> bytes:
    """A PNG that declares this size with hardly any data, followed by more chunks."""
    data = zlib.compress(b"\0" * (height * (1 + width * 3) if width * height < 10_000 else 100))
    header = struct.pack(">IIBBBBB", width, height, 8, colours, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", data), *chunks, (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )


def exif_bomb(numbers: int) -> bytes:
    """An EXIF orientation that is not one number but millions of fractions, each an object in a decoder."""
    entry = struct.pack("<HHII", 0x0112, 5, numbers, 26)
    return b"II*\0" + struct.pack("<IH", 8, 1) + entry + struct.pack("<I", 0) + struct.pack("<II", 7, 3) * numbers


def jpeg(exif: bytes, before: bytes = b"") -> bytes:
    """A small JPEG with this data in as many segments as needed; decoders join them."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "JPEG")
    parts = [b"Exif\0\0" + exif[at : at + 65_000] for at in range(0, len(exif), 65_000)]
    segments = [before + b"\xff\xe1" + struct.pack(">H", len(part) + 2) + part for part in parts]
    return b"\xff\xd8" + b"".join(segments) + file.getvalue()[2:]


def animated(format: str) -> bytes:
    first, *more = [Image.new("RGB", (8, 8), (shade, 0, 0)) for shade in (0, 100, 200)]
    file = io.BytesIO()
    first.save(file, format, save_all=True, append_images=more)
    return file.getvalue()


WHOLE = picture(np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3))
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script><image href="http://127.0.0.1:9/a.png"/></svg>'
MANY = 2_000_000
PICTURES = {
    "one byte": (WHOLE[:1], "is no picture"),
    "truncated": (WHOLE[: len(WHOLE) // 2], "damaged or cut off"),
    "header only": (WHOLE[:33], "is no picture"),
    "50,000 x 50,000": (png(50_000, 50_000), "more than 25 million pixels"),
    "2^31 x 2^31": (png(2**31 - 1, 2**31 - 1), "more than 25 million pixels"),
    "no pixels": (png(0, 0), "is no picture"),
    "an animated GIF": (animated("GIF"), "is an animation; give a still picture"),
    "an animated PNG": (animated("PNG"), "is an animation; give a still picture"),
    "an animated WebP": (animated("WEBP"), "is an animation; give a still picture"),
    "an SVG with a script": (SVG, "is no picture"),
    "an SVG that says it is XML": (b'<?xml version="1.0"?>' + SVG, "is no picture"),
    "HTML": (b"<html><script>alert(1)</script>", "is no picture"),
    "a sound": (sound(), "is no picture"),
    "an address": (b"http://127.0.0.1:9/a.png", "is no picture"),
    "a path": (b"/etc/passwd", "is no picture"),
    "PDF": (b"%PDF-1.7\n", "is no picture"),
    "PostScript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is no picture"),
    "TIFF": (exif_bomb(2), "is no picture"),
    "an EXIF bomb in a JPEG": (lambda: jpeg(exif_bomb(MANY)), "damaged or cut off"),
    "one behind filling": (lambda: jpeg(exif_bomb(MANY), before=b"\xff\xff\0junk"), "damaged or cut off"),
    "an EXIF bomb in a PNG": (lambda: png(4, 4, (b"eXIf", exif_bomb(MANY))), "damaged or cut off"),
    "a text bomb": (lambda: png(4, 4, (b"zTXt", b"a\0\0" + zlib.compress(b"\0" * 50_000_000))), "damaged or cut off"),
    "more bytes than any picture": (lambda: WHOLE + b"\0" * 20_000_000, "20 MB are the most"),
}


@pytest.mark.parametrize("case", PICTURES)
def test_S8_a_picture_made_to_harm_is_refused(models, case):
    content, said = PICTURES[case]
    task, asked = models("image"), sent(content() if callable(content) else content)
    tracemalloc.start()
    begun = time.monotonic()
    try:
        with pytest.raises(UserError, match=said) as refused:
            caption.answer(task, asked)
        took, (_, most) = time.monotonic() - begun, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(refused.value).startswith("body: ") and "\n" not in str(refused.value)
    assert "/" not in str(refused.value) and "0x" not in str(refused.value)
    assert took < 3 and most < 150_000_000, f"{took:.1f} s, {most / 1e6:.0f} MB"


def test_S8_a_format_is_told_by_content_alone(models):
    """Whatever the client's file name: only bytes arrive here."""
    pixels = examples("image")[0]
    texts = {caption.answer(models("image"), sent(picture(pixels, form)))["text"] for form in ("PNG", "BMP", "WEBP")}
    assert len(texts) == 1


def test_S8_ordinary_exif_is_read(models):
    """A photograph held sideways is rotated; EXIF of the size that cameras write is accepted."""
    task = models("image")
    wide = Image.fromarray(np.arange(8 * 4 * 3, dtype=np.uint8).reshape(4, 8, 3) * 2)
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x927C] = b"\0" * 60_000  # what a maker notes
    file = io.BytesIO()
    wide.save(file, "JPEG", exif=exif)
    seen = task.pair.input.decode(file.getvalue(), "body")
    assert seen.shape == (8, 4, 3)


def test_S8_a_photograph_with_another_for_depth_does_not_move(models):
    """As phones write it: a JPEG followed by a second one."""
    first, second = (Image.new("RGB", (16, 16), colour) for colour in ("red", "blue"))
    file = io.BytesIO()
    first.save(file, "MPO", save_all=True, append_images=[second])
    seen = models("image").pair.input.decode(file.getvalue(), "body")
    assert seen[..., 0].min() > 200 and seen[..., 2].max() < 50, "the first one is looked at"


def riff(seconds: int, rate: int = 8000, channels: int = 1) -> bytes:
    """The header of a WAV that declares this length."""
    block, size = 2 * channels, min(2**32 - 100, seconds * rate * 2 * channels)
    form = struct.pack("<HHIIHH", 1, channels, rate, min(2**32 - 1, rate * block), block, 16)
    return b"RIFF" + struct.pack("<I", size + 36) + b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", size)  # fmt: skip


def flac(seconds: int) -> bytes:
    """Silence, which compresses to almost nothing."""
    file = io.BytesIO()
    soundfile.write(file, np.zeros(seconds * 8000, np.float32), 8000, format="FLAC")
    return file.getvalue()


SOUNDS = {
    "one byte": (b"R", "is no recording"),
    "half a header": (riff(1)[:30], "not a sound file that can be read"),
    "an empty WAV": (riff(0), "holds no samples"),
    "a rate of 4 GHz": (riff(1, rate=2**32 - 1) + b"\0" * 99, "samples a second|not a sound file"),
    "ten minutes of silence": (flac(600), "is 600 seconds long; 60 are the most"),
    "a picture": (WHOLE, "is no recording"),
    "a rarer format": (b".snd" + struct.pack(">IIIII", 24, 4, 3, 8000, 1) + b"\0" * 99, "is no recording"),
    "an address": (b"http://127.0.0.1:9/a.wav", "is no recording"),
}


@pytest.mark.parametrize("case", SOUNDS)
def test_S8_a_sound_made_to_harm_is_refused(models, case):
    content, said = SOUNDS[case]
    with pytest.raises(UserError, match=said) as refused:
        transcribe.answer(models("transcribe"), sent(content))
    assert str(refused.value).startswith("body: ") and "0x" not in str(refused.value) and "\n" not in str(refused.value)


def tiny_gif(frames: int, width: int = 1, height: int = 1) -> bytes:
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02\x44\x01\x00"
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff" + frame * frames + b";"


CLIPS = {
    "one byte": (b"G", "is no GIF"),
    "a PNG": (WHOLE, "is no GIF"),
    "truncated": (animated("GIF")[:20], "is no GIF"),
    "3,000 x 3,000": (tiny_gif(2, 3000, 3000), "9.0 million pixels a frame"),
    "65,535 x 65,535": (tiny_gif(2, 65_535, 65_535), "damaged or cut off"),
    "too many frames": (tiny_gif(501), "501 frames; 500 are the most"),
    "too many pixels in all": (tiny_gif(400, 1000, 1000), "400 million pixels in all"),
}


@pytest.mark.parametrize("case", CLIPS)
def test_S8_a_clip_made_to_harm_is_refused(models, case):
    content, said = CLIPS[case]
    with pytest.raises(UserError, match=said) as refused:
        track.answer(models("track"), sent(content))
    assert str(refused.value).startswith("body: ") and "\n" not in str(refused.value)


def test_S8_no_address_is_ever_fetched(models, monkeypatch):
    """Neither in a body nor in a field: there is no field for one."""
    calls: list[Any] = []
    monkeypatch.setattr(socket.socket, "connect", lambda *given: calls.append(given))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **_: calls.append(given))
    for content in (b"http://127.0.0.1:9/a.png", b"file:///etc/passwd", SVG):
        for answering, name in ((caption, "image"), (transcribe, "transcribe"), (track, "track"), (classify, "clip")):
            with pytest.raises(UserError):
                answering.answer(models(name), sent(content))
    assert not calls
    for task in task_names():
        module = module_of(task)
        for form in tasks._request_types(module):
            assert not [name for name in form.model_fields if name.lower() in ("url", "uri", "link", "path", "file")]


# ------------------------------------------------------------------------------------------------------- through a worker


def test_every_task_through_a_worker_and_its_route(models):
    """End to end: from the body of a request to the JSON response, computed in a worker process."""
    for name in FORMS:
        models(name)
    kinds = {"text": "classify", "series": "classify", "clip": "classify", "image": "caption"}
    served = [
        ServedModel(
            name,
            Path(models.here) / name / "model",
            kinds.get(name, name),
            *(("de", "en") if name == "translate" else ()),
        )
        for name in FORMS
    ]
    catalogue, settings = Catalogue(served), Settings(workers=1)
    past = examples("forecast")[0][-models("forecast").model.window :].astype(float).tolist()
    frames = gif(examples("track")[0])
    asked: dict[str, tuple[str, Any]] = {
        "translate": ("translate", {"text": ["4 9 4", ""], "attention": True, "model": {"source": "DE", "target": "en"}}),
        "text": ("classify", {"text": "a wonderful film", "model": "text"}),
        "series": ("classify", {"series": examples("series")[0].tolist(), "model": "series"}),
        "clip": ("classify", gif(examples("clip")[0])),
        "tag": ("tag", {"text": "Harry met Sally."}),
        "fill": ("fill", {"text": "the _"}),
        "generate": ("generate", {"prompt": "A", "length": 5, "seed": 3}),
        "image": ("caption", WHOLE),
        "transcribe": ("transcribe", sound()),
        "track": ("track", frames),
        "forecast": ("forecast", {"series": past}),
    }  # fmt: skip

    async def ask() -> dict[str, Any]:
        pool = WorkerPool(settings, catalogue)
        app = app_with_middleware(
            settings, catalogue, pool, [tasks.router(settings, catalogue, pool)], log_requests=False
        )
        await pool.start()
        found: dict[str, Any] = {}
        try:
            for name, (task, what) in asked.items():
                body = what if isinstance(what, bytes) else json.dumps(what).encode()
                kind = "application/octet-stream" if isinstance(what, bytes) else "application/json"
                query = f"model={name}" if isinstance(what, bytes) else ""
                reply = await calling(
                    app, "POST", f"/api/{task}", body=body, query=query, headers={"Content-Type": kind}
                )
                assert reply.status == 200, (name, reply.body)
                found[name] = reply.json()
            streamed = {"prompt": "A", "length": 5, "seed": 3, "stream": True}
            found["stream"] = await calling(app, "POST", "/api/generate", **streamed)
            found["bad"] = await calling(app, "POST", "/api/caption", body=b"P", headers={"Content-Type": "image/png"})
        finally:
            await pool.close()
        return found

    found = asyncio.run(ask())
    for name, (task, _) in asked.items():
        assert found[name].pop("model") == name
        fits(module_of(task), found[name])
    assert found["text"] == json.loads(json.dumps(classify.answer(models("text"), {"text": "a wonderful film"})))
    wanted = generate.answer(models("generate"), {"prompt": "A", "length": 5, "seed": 3})
    assert found["generate"] == {**wanted, "log_probability": pytest.approx(wanted["log_probability"], abs=0.1), "probabilities": pytest.approx(wanted["probabilities"], abs=0.01)}  # fmt: skip
    assert [one["text"] for one in found["translate"]["answers"]] == [
        one.text for one in models("translate").translate(["4 9 4", ""])
    ]
    *pieces, last = found["stream"].body.decode().removesuffix("\n\n").split("\n\n")
    assert len(pieces) == len(found["generate"]["tokens"])
    assert json.loads(last.removeprefix("event: done\ndata: ")) == {"model": "generate", **found["generate"]}
    assert found["bad"].status == 400 and found["bad"].json()["error"].startswith("body: is no picture")
