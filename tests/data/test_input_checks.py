"""A recipe is checked against the kind of input its model reads: keys of `[input]`, and the examples themselves."""

from __future__ import annotations

import numpy as np
import pytest

import regard
from regard import registry
from regard.config import Recipe, apply_overrides
from regard.data.input._checks import check_keys, check_kind
from regard.data.input.sound import Sound
from regard.errors import UserError


@pytest.mark.parametrize(
    ("kind", "known", "wrong", "message"),
    [
        ("image", ["size", "channels"], "sise", "input: no key 'sise'; did you mean 'size'?"),
        ("clip", ["size", "channels"], "chanels", "input: no key 'chanels'; did you mean 'channels'?"),
        ("sound", ["rate"], "rat", "input: no key 'rat'; did you mean 'rate'?"),
        ("series", ["columns"], "colums", "input: no key 'colums'; did you mean 'columns'?"),
        ("text", [], "size", "input: this model reads text, which has no key 'size'; leave it out"),
    ],
)
def test_an_unknown_key_is_refused_and_a_known_one_suggested(kind, known, wrong, message) -> None:
    check_keys(known, kind)
    with pytest.raises(UserError) as refused:
        check_keys([*known, wrong], kind)
    assert str(refused.value) == message


def test_examples_of_another_kind_name_the_stem_that_reads_them() -> None:
    raws = {
        "text": ["a text", ["two", "words"]],
        "image": [np.zeros((4, 4, 1), np.uint8)],
        "clip": [np.zeros((2, 4, 4, 1), np.uint8)],
        "series": [np.zeros((5, 2), np.float32)],
        "sound": [Sound(np.zeros(8, np.float32), 8000)],
    }
    assert set(raws) == set(registry.kinds("data/input"))
    for kind, several in raws.items():
        for raw in several:
            check_kind(raw, kind)
            other = "text" if kind != "text" else "image"
            with pytest.raises(
                UserError, match=f"the model reads {other}, but the examples are of the kind {kind}; use model.stem="
            ):
                check_kind(raw, other)
    with pytest.raises(UserError, match="use model.stem=grid or model.stem=patches"):
        check_kind(raws["image"][0], "text")


@pytest.mark.parametrize(
    ("task", "format", "message"),
    [
        ("classify", "made_names", "needs a label, which made_names does not give"),
        ("tag", "made_reviews", "needs a tag for every word, which made_reviews does not give"),
        ("track", "made_clips", "needs a position for every frame, which made_clips does not give"),
        ("track", "made_names", "model.stem: the model reads clip, but the examples are of the kind text"),
        ("forecast", "made_text", "model.stem: the model reads series, but the examples are of the kind text"),
        ("generate", "made_shapes", "needs a text, which made_shapes does not give"),
        ("fill", "made_shapes", "model.stem: the model reads text, but the examples are of the kind image"),
        ("translate", "made_names", "a translator needs pairs of texts, not what made_names gives"),
    ],
)
def test_examples_that_do_not_fit_the_task_are_refused_in_one_line(task, format, message, tmp_path) -> None:
    recipe = apply_overrides(Recipe(), [f"task={task}", f"data.format={{kind='{format}', count=30}}"])
    with pytest.raises(UserError) as refused:
        regard.train(recipe, folder=tmp_path / "run", quiet=True)
    assert message in str(refused.value) and "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()
