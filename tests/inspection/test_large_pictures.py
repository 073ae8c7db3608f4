"""What keeps the pictures of a large ViT quick: nothing is computed or compressed that was not asked for."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from task.seers import classifier, picture, png

from regard.inspection.draw import canvas, patches
from regard.inspection.draw.views import image
from regard.inspection.record.attribution import _subject
from regard.inspection.record.attribution._progress import on_progress
from regard.inspection.trace.base import number, plain
from regard.studio.questions import attribute, inspect_image


def test_attribution_is_computed_only_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    task = classifier()
    calls: list[int] = []
    forward = task.model.forward
    monkeypatch.setattr(task.model, "forward", lambda *given: calls.append(len(given[0])) or forward(*given))
    request = {"model": "test", "picture": base64.b64encode(png(picture())).decode()}
    answer = inspect_image.answer(task, request)
    assert {"patches", "why", "numbers"} <= set(answer["views"]) and calls == [1]
    inspect_image.answer(task, request | {"view": "why"})
    assert sum(calls) > 9, "each patch is left out once"


def test_a_picture_is_compressed_once_however_often_it_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    trace: Any = classifier().inspect(picture())
    calls: list[int] = []
    compress = canvas.png_url
    monkeypatch.setattr(canvas, "png_url", lambda pixels: calls.append(1) or compress(pixels))
    svg = trace.svg("patches")
    assert svg.count("<use ") > 9 and len(calls) == svg.count("<image ") == 1


def test_attribution_says_how_far_it_is_and_may_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with many positions gets fewer copies of its input at once, with the same result."""
    whole: Any = classifier().inspect(picture()).view("why").pictures[0].svg()
    monkeypatch.setattr(_subject, "POSITIONS", 40)
    heard: list[tuple[int, int]] = []
    with on_progress(lambda done, most: heard.append((done, most))):
        parts: Any = classifier().inspect(picture()).view("why").pictures[0].svg()
    assert heard == [(4, 9), (8, 9), (9, 9)] and len(parts) == len(whole)

    def stop(done: int, most: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError), on_progress(stop):
        classifier().inspect(picture()).view("why")


def test_arrays_are_written_number_by_number_as_before() -> None:
    values = np.random.default_rng(0).random((3, 50), np.float32) ** 9
    assert plain(values) == [[number(one) for one in row] for row in values]
    assert plain(np.array([np.nan, 1], np.float32)) == [None, 1.0]


def test_many_places_are_drawn_without_a_mark_for_each_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    trace: Any = classifier().inspect(picture())
    assert [one.kind for one in trace.view("heads").pictures] == ["", "source"]
    exact = trace.view("positions").pictures[-1].svg()
    monkeypatch.setattr(image, "MOST_LINES", 8)
    monkeypatch.setattr(patches, "MOST", 80)
    assert [one.kind for one in trace.view("heads").pictures] == [""]
    grouped = trace.view("positions").pictures[-1].svg()
    assert grouped.count("<rect") + grouped.count("<path") < exact.count("<rect") + exact.count("<path")


def test_many_places_are_explained_by_a_quick_method(monkeypatch: pytest.MonkeyPatch) -> None:
    task, request = classifier(), {"model": "test", "picture": base64.b64encode(png(picture())).decode()}
    assert attribute.answer(task, request)["method"] == "occlusion"
    monkeypatch.setattr(inspect_image, "MOST_OCCLUDED", 8)
    assert attribute.answer(task, request)["method"] == "input_x_gradient"
    assert attribute.answer(task, request | {"method": "occlusion"})["method"] == "occlusion"
    assert "Input x gradient" in inspect_image.answer(task, request | {"view": "why"})["about"]
