"""Text targets: tags on the first token of each word, and the share of tokens to mask."""

import numpy as np
import pytest

from regard.data.format._base import Example
from regard.data.input.series import Series
from regard.data.input.text import Text
from regard.data.target.masked import Masked
from regard.data.target.tags import Tags
from regard.data.tokenizer.character import Character
from regard.data.tokenizer.word import Word
from regard.errors import UserError
from regard.special_tokens import UNKNOWN

EXAMPLES = [Example(["Ann", "met", "Bo"], ["B-p", "O", "B-p"]), Example(["x"], ["I-p"])]


def test_a_tag_stands_at_the_first_token_of_its_word():
    reader, target = Text(Character.train(["AnnmetBo"], seed=0)), Tags.fit(EXAMPLES, seed=0)
    assert target.labels.names == ["B-p", "I-p", "O"] and target.sizes() == {"labels": 3}
    values, wanted = target.encode(EXAMPLES[0], reader)
    assert values.tolist() == [0, 0, 0, 2, 0, 0, 0] and wanted.tolist() == [True, False, False] * 2 + [True]
    assert values.dtype == np.int64 and wanted.dtype == bool
    assert len(values) <= len(reader.encode(EXAMPLES[0].input))
    again = Tags.from_files(target.files())
    assert again.labels.names == target.labels.names and again.files() == target.files()


def test_a_word_without_tokens_keeps_its_tag():
    reader, target = Text(Word.train(["Ann met"], seed=0)), Tags.fit(EXAMPLES, seed=0)
    values, wanted = target.encode(Example(["Ann", "\u200b", "Bo"], ["B-p", "I-p", "O"]), reader)
    assert values.tolist() == [0, 1, 2] and wanted.all()


def test_tags_that_are_wrong():
    reader, target = Text(Word.train(["Ann met"], seed=0)), Tags.fit(EXAMPLES, seed=0)
    with pytest.raises(UserError, match="label 'B-q' was never seen in training; did you mean 'B-p'"):
        target.encode(Example(["Ann"], ["B-q"]), reader)
    with pytest.raises(UserError, match="has 2 words but 1 tags"):
        target.encode(Example(["Ann", "met"], ["O"]), reader)
    with pytest.raises(UserError, match="1 different tags; a tagger needs 2"):
        Tags.fit(EXAMPLES[1:], seed=0)
    with pytest.raises(UserError, match="tags are for words, but the stem reads series"):
        target.encode(EXAMPLES[0], Series.fit([np.zeros((3, 2), np.float32), np.ones((3, 2), np.float32)], seed=0))


def test_fifteen_of_a_hundred_are_hidden_and_at_least_one():
    target = Masked.fit([], seed=0)
    for tokens, hidden in ((100, 15), (40, 6), (10, 2), (3, 1), (1, 1), (0, 0)):
        values, wanted = target.of(np.full(tokens, 7))
        assert len(values) == len(wanted) == hidden and wanted.all()
    assert len(target.of(np.array([1, 1, 1, 2, 3, 0]))[0]) == 0  # of what is unknown or special, nothing can be guessed
    reader = Text(Word.train(["a b c"], seed=0))
    assert len(target.encode(Example("a b c a b c a b c a b c a", None), reader)[0]) == 2
    assert Masked.from_files(Masked(0.4).files()).share == 0.4 and target.sizes() == {"mask": UNKNOWN}
