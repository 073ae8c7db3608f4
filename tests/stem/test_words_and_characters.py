"""Words with their spelling: the numbers an input writes, and what the stem computes of them."""

import numpy as np
import pytest
import torch

from regard.data.input.text import Text
from regard.data.tokenizer.word import Word
from regard.data.vectors.file import write_vectors
from regard.data.vectors.near import Vectors
from regard.errors import UserError
from regard.spelling import CASINGS, COLUMNS, LONGEST, casing, spelled
from regard.stem.words_and_characters import WordsAndCharacters

WORDS = ["Paris", "is", "NASA's", "iPhone", "2017", "...", "Zoë", "x" * 30]


def test_casing_and_characters():
    assert [CASINGS[casing(word)] for word in ["is", "Paris", "NASA", "iPhone", "U2", "3.5", "...", "I", "#wow"]] == [
        "lower", "first", "upper", "mixed", "digits", "digits", "other", "first", "lower",
    ]  # fmt: skip
    assert spelled("Zoë!")[1:6] == [ord("Z") - 30, ord("o") - 30, 1, ord("!") - 30, 0]
    assert len(spelled("x" * 30)) == COLUMNS - 1 == LONGEST + 1


def test_a_text_input_writes_a_row_for_each_token():
    reader = Text.fit([WORDS], seed=1, kind="word", lowercase=True, spelled=True)
    rows = reader.encode(WORDS)
    ids = [id for some in reader.words(WORDS) for id in some]
    assert rows[:, 0].tolist() == ids and rows.shape == (len(ids), COLUMNS)
    positions = reader.word_positions(WORDS)
    for word, position in zip(WORDS, positions):
        assert rows[position, 1:].tolist() == spelled(word)
    assert (rows[positions[2] : positions[3], 1:] == spelled("NASA's")).all()  # three tokens of one word
    assert np.array_equal(reader.encode("Paris is"), rows[:2])
    again = Text.from_files(reader.files())
    assert again.spelled and np.array_equal(again.encode(WORDS), rows)
    with pytest.raises(UserError, match="damaged"):
        Text.from_files({**reader.files(), "input.json": b'{"kind": "text", "enclosed": true, "spelled": true}'})


@torch.no_grad()
def test_the_stem_is_the_sum_written_out():
    torch.manual_seed(0)
    stem = WordsAndCharacters(50, width=6, filters=4, character_width=3).eval()
    source = torch.tensor([[[7, *spelled("Zoë")], [9, *spelled("is")]]])
    found, _ = stem(source, torch.ones(1, 2, dtype=torch.bool))
    for place, row in enumerate(source[0]):
        vectors = torch.zeros(LONGEST + 2, 3)  # a convolution of three, padded with one zero on either side
        for at, character in enumerate(row[2:].tolist()):
            vectors[at + 1] = stem.characters.weight[character] if character else 0
        weight, bias = stem.convolution.weight, stem.convolution.bias
        values = [
            [(weight[f] * vectors[at : at + 3].T).sum() + bias[f] for at in range(LONGEST)]
            for f in range(4)
        ]  # fmt: skip
        highest = torch.tensor([max(each) for each in values])
        spelling = torch.cat([highest, stem.casing.weight[row[1]]])
        wanted = stem.embedding.table.weight[row[0]] * 6**0.5 + stem.project(spelling)
        torch.testing.assert_close(found[0, place], wanted)


def test_plain_tokens_are_refused_in_one_line():
    with pytest.raises(UserError, match="is for tag and classify; use tokens"):
        WordsAndCharacters(50)(torch.ones(1, 2, dtype=torch.long), torch.ones(1, 2, dtype=torch.bool))


def test_words_of_a_file_of_vectors_join_the_vocabulary(tmp_path):
    file = tmp_path / "vectors.txt"
    write_vectors(file, Vectors(["the", "paris", "rome", "oslo"], np.ones((4, 2), np.float32)))
    made = Word.train(["Paris is big"], seed=1, size=4 + 5, lowercase=True, words_of=str(file))
    assert [piece.strip("\u2581") for piece in made.pieces(range(4, len(made)))] == [
        "big",
        "is",
        "paris",
        "the",
        "rome",
    ]
