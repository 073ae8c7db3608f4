"""Texts between BEGIN and END, and a mask token of its own: what is counted, cut and saved."""

from __future__ import annotations

import json

import pytest

from regard.assemble import build_model
from regard.data.input.text import Text
from regard.data.target.masked import Masked
from regard.data.tokenizer.word import Word
from regard.errors import UserError
from regard.types import BEGIN, END, UNKNOWN

TOKENIZER = Word.train(["a b c d"], seed=1, min_count=1)
A, B, C = TOKENIZER.encode("a b c")


def test_begin_and_end_enclose_a_text_and_are_not_counted() -> None:
    reader = Text(TOKENIZER, enclosed=True)
    ids = reader.encode("a b c")
    assert ids.tolist() == [BEGIN, A, B, C, END]
    assert reader.bare(ids).tolist() == [A, B, C]
    assert reader.cut(ids, 3).tolist() == ids.tolist()
    assert reader.cut(ids, 2).tolist() == [BEGIN, A, B, END]
    assert reader.word_positions(["a", "b c", "d"]).tolist() == [1, 2, 4]
    assert reader.encode("").tolist() == [BEGIN, UNKNOWN, END]


def test_other_texts_stay_as_they_were() -> None:
    reader = Text(TOKENIZER)
    ids = reader.encode("a b c")
    assert ids.tolist() == reader.bare(ids).tolist() == [A, B, C] and reader.cut(ids, 2).tolist() == [A, B]
    assert reader.files() == TOKENIZER.files() and reader.word_positions(["a", "b"]).tolist() == [0, 1]


def test_it_is_saved() -> None:
    saved = Text(TOKENIZER, enclosed=True).files()
    assert Text.from_files(saved).encode("a").tolist() == [BEGIN, A, END]
    assert Masked.from_files(Masked(mask=7).files()).mask == 7
    assert Masked.from_files(Masked().files()).mask == UNKNOWN and b"mask" not in Masked().files()["target.json"]


@pytest.mark.parametrize("damaged", [b"", b"[]", b"{}", b'{"kind": "image"}', b'{"kind": "text", "enclosed": 1}'])
def test_damaged_files_are_refused(damaged: bytes) -> None:
    with pytest.raises(UserError, match=r"input\.json: does not describe texts"):
        Text.from_files({**TOKENIZER.files(), "input.json": damaged})


@pytest.mark.parametrize("mask", [-1, 2**40, "7", None, True])
def test_a_mask_that_is_no_token_is_refused(mask: object) -> None:
    with pytest.raises(UserError, match=r"target\.json: does not describe masked tokens"):
        Masked.from_files({"target.json": json.dumps({"share": 0.15, "mask": mask}).encode()})


def test_a_mask_beyond_the_vocabulary_is_refused() -> None:
    with pytest.raises(UserError, match="the mask token has the id 9, but there are 9 tokens"):
        build_model({"kind": "masked_language_model", "width": 8, "heads": 2}, 9, mask=9)
