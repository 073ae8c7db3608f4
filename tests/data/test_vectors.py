"""Co-occurrence counts against a loop over windows, GloVe against torch's optimizer, and files of vectors."""

from __future__ import annotations

import gzip
import lzma
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.tokenizer.character import Character
from regard.data.tokenizer.subword import Subword
from regard.data.tokenizer.word import Word
from regard.data.vectors import counts, file
from regard.data.vectors.counts import CoOccurrence, co_occurrence, lower_words, numbered, words_and_marks
from regard.data.vectors.file import read_vectors, width_of, write_vectors
from regard.data.vectors.glove import GloVe, learn, weight
from regard.data.vectors.matching import match, word_of
from regard.data.vectors.near import Vectors, cosine, dot
from regard.errors import UserError

THREE = ["I like deep learning.", "I like NLP.", "I enjoy flying."]


# ---------------------------------------------------------------------------------------------------------- counting


def test_the_three_sentences():
    text = numbered(THREE, words_and_marks)
    assert text.words == [".", "I", "like", "NLP", "deep", "enjoy", "flying", "learning"]
    assert text.counts.tolist() == [3, 3, 2, 1, 1, 1, 1, 1] and len(text.ids) == 13
    found = co_occurrence(text, window=1)
    matrix, at = found.matrix(), {word: i for i, word in enumerate(found.words)}
    assert matrix[at["I"], at["like"]] == 2 and matrix[at["I"], at["enjoy"]] == 1 and matrix[at["I"], at["."]] == 0
    assert (matrix == matrix.T).all() and matrix.sum() == 20 and len(found) == 18


def by_hand(lines, window, by_distance, kept):
    found: Counter[tuple[str, str]] = Counter()
    for line in lines:
        words = line.split()
        for i, one in enumerate(words):
            for j, other in enumerate(words):
                if i != j and abs(i - j) <= window and one in kept and other in kept:
                    found[one, other] += 1 / abs(i - j) if by_distance else 1
    return found


@given(
    st.lists(st.lists(st.sampled_from("abcdefg"), max_size=12).map(" ".join), min_size=1, max_size=8),
    st.integers(1, 5),
    st.booleans(),
    st.integers(1, 3),
    st.integers(1, 9),
)
def test_counts_are_those_of_a_loop(lines, window, by_distance, min_count, part):
    """Also where a rare word keeps its place, and where the text is counted in several parts."""
    each = Counter(word for line in lines for word in line.split())
    kept = {word for word, count in each.items() if count >= min_count}
    if not kept:
        with pytest.raises(UserError, match="no word that occurs|empty"):
            numbered(lines, str.split, min_count=min_count)
        return
    usual, counts.PART = counts.PART, part
    try:
        found = co_occurrence(numbered(lines, str.split, min_count=min_count), window, by_distance)
    finally:
        counts.PART = usual
    made = {(found.words[i], found.words[j]): x for i, j, x in zip(found.rows, found.columns, found.values)}
    assert made == pytest.approx(dict(by_hand(lines, window, by_distance, kept)))


def test_words_are_lower_cased_unless_asked_otherwise():
    assert lower_words("Don't, SHE said!") == ["don't", ",", "she", "said", "!"]
    assert words_and_marks("It's  NLP.") == ["It", "'s", "NLP", "."]
    assert numbered(["b a", "a"], size=1).words == ["a"]


@pytest.mark.parametrize("wrong", [{"window": 0}, {"window": 1001}])
def test_impossible_windows_are_refused(wrong):
    with pytest.raises(UserError, match="a window has"):
        co_occurrence(numbered(THREE), **wrong)
    with pytest.raises(UserError, match="a vocabulary has"):
        numbered(THREE, size=0)


# ------------------------------------------------------------------------------------------------------------- GloVe


def test_the_weight_is_the_papers():
    x = torch.tensor([1.0, 50.0, 100.0, 1000.0])
    assert weight(x, 100).tolist() == pytest.approx([0.01**0.75, 0.5**0.75, 1, 1])


@pytest.mark.parametrize("batch", [1, 7])
def test_a_step_is_adagrad_on_the_papers_loss(batch):
    """J spelled out, differentiated by autograd and minimised by torch's AdaGrad, batch after batch."""
    torch.manual_seed(2)
    made = GloVe(6, 4, rate=0.05, x_max=10, seed=3, device=torch.device("cpu"))
    made.words, made.contexts = made.words.double(), made.contexts.double()
    made.word_squares, made.context_squares = made.word_squares.double(), made.context_squares.double()
    rows, columns, x = torch.randint(6, (21,)), torch.randint(6, (21,)), torch.rand(21).double() * 20 + 0.1
    w, b, c, d = (
        part.clone().requires_grad_()
        for part in (made.words[:, :-1], made.words[:, -1], made.contexts[:, :-1], made.contexts[:, -1])
    )
    optimiser = torch.optim.Adagrad([w, b, c, d], lr=0.05, initial_accumulator_value=1, eps=0)
    for begin in range(0, 21, batch):
        i, j, n = (side[begin : begin + batch] for side in (rows, columns, x))
        loss = (torch.clamp(n / 10, max=1) ** 0.75 * ((w[i] * c[j]).sum(1) + b[i] + d[j] - n.log()) ** 2).sum() / 2
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        assert float(made.step(i, j, n)) == pytest.approx(float(loss.detach()), rel=1e-12)
    torch.testing.assert_close(made.words, torch.cat([w, b[:, None]], 1).detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(made.contexts, torch.cat([c, d[:, None]], 1).detach(), rtol=1e-12, atol=1e-12)


def made_counts() -> CoOccurrence:
    lines = ["hot sun day light", "cold moon night dark"] * 30 + ["warm sun day light", "cool moon night dark"] * 30
    return co_occurrence(numbered(lines), 3)


def test_it_learns_the_counts_and_the_same_seed_gives_the_same():
    losses: list[float] = []
    first = learn(made_counts(), width=8, epochs=60, losses=losses)
    assert len(losses) == 60 and losses[-1] < losses[0] / 50
    assert [first.near(word, 1)[0][0] for word in ("hot", "cool")] == ["warm", "cold"]
    assert np.array_equal(first.values, learn(made_counts(), width=8, epochs=60).values)
    assert not np.array_equal(first.values, learn(made_counts(), width=8, epochs=60, seed=2).values)


def test_what_cannot_be_learnt_is_one_line():
    with pytest.raises(UserError, match="no two words"):
        learn(co_occurrence(numbered(["alone"]), 2))
    with pytest.raises(UserError, match="1 to 4,096 wide"):
        learn(made_counts(), width=0)
    with pytest.raises(UserError, match="without bound in epoch .* smaller rate than 1e\\+30"):
        learn(made_counts(), width=4, epochs=5, rate=1e30)


# -------------------------------------------------------------------------------------------------------------- near


def test_dot_and_cosine_by_hand():
    a, b = np.array([3.0, 4.0]), np.array([4.0, -3.0])
    assert dot(a, b) == 0 and cosine(a, b) == 0 and dot(a, a) == 25 and cosine(a, a) == 1
    assert cosine(a, -2 * a) == -1 and cosine(a, np.zeros(2)) == 0
    assert cosine(np.array([1.0, 1.0]), np.array([1.0, 0.0])) == pytest.approx(2**-0.5)


def test_near_and_analogy():
    words = {"man": (1, 0, 0), "woman": (1, 1, 0), "king": (1, 0, 1), "queen": (1, 1, 1), "none": (0, 0, 0)}
    vectors = Vectors(list(words), np.array(list(words.values()), dtype=np.float32))
    assert vectors.near("queen", 2)[1] == ("king", pytest.approx(cosine(vectors["queen"], vectors["king"])))
    assert [word for word, _ in vectors.near("man", 10)] == ["woman", "king", "queen", "none"]
    assert vectors.analogy("man", "king", "woman", 1)[0][0] == "queen"
    assert "king" in vectors and "kign" not in vectors and len(vectors) == 5 and vectors.width == 3
    with pytest.raises(UserError, match="no vector for 'quen' among 5 words; did you mean 'queen'?"):
        vectors.near("quen")
    with pytest.raises(UserError, match="no vector for 'zzz' among 5 words$"):
        vectors.analogy("man", "king", "zzz")


# ------------------------------------------------------------------------------------------------------------- files


def test_vectors_come_back(tmp_path):
    made = Vectors(["a", "né", ".", "日"], np.random.default_rng(1).standard_normal((4, 5)).astype(np.float32))
    write_vectors(tmp_path / "v.txt", made)
    again = read_vectors(tmp_path / "v.txt")
    assert again.words == made.words and np.allclose(again.values, made.values, rtol=1e-5)
    assert width_of(tmp_path / "v.txt") == 5 and [p.name for p in tmp_path.iterdir()] == ["v.txt"]
    assert read_vectors(tmp_path / "v.txt", wanted={"né", "other"}).words == ["né"]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gz", "xz"])
def test_packed_files_are_read(pack, tmp_path):
    path = tmp_path / f"v.txt.{'gz' if pack is gzip.compress else 'xz'}"
    path.write_bytes(pack(b"a 1 2\nb 3 4\n"))
    assert read_vectors(path).values.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("text", "words", "rows"),
    [
        ("a 1 2\nb 3 4", ["a", "b"], [[1, 2], [3, 4]]),
        ("2 2\na 1 2\nb 3 4\n", ["a", "b"], [[1, 2], [3, 4]]),  # word2vec's first line
        ("a 1 2\r\nb 3 4 \n", ["a", "b"], [[1, 2], [3, 4]]),
        ("\ufeffa 1 2\n", ["a"], [[1, 2]]),
        ("a 1 2\n. . 3 4\n", ["a", ". ."], [[1, 2], [3, 4]]),  # a word with a space, as in glove.840B
        ("a 1 2\n5 3 4\n", ["a", "5"], [[1, 2], [3, 4]]),
        ("a 1 2\na 3 4\n", ["a"], [[1, 2]]),
        ("a -1e-3 .5\n", ["a"], [[-1e-3, 0.5]]),
    ],
)
def test_what_is_read_of_a_file(text, words, rows, tmp_path):
    (tmp_path / "v.txt").write_bytes(text.encode())
    found = read_vectors(tmp_path / "v.txt")
    assert found.words == words and np.allclose(found.values, rows)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no vectors"),
        (b"3 4\n", "holds no vectors"),
        (b"word\n", "line 1: a word and 1 to 4,096 numbers are wanted"),
        (b"a 1 2\nb 3\n", "line 2: has 1 numbers after a word, where 2 are wanted"),
        (b"a 1 2\n\nb 3 4\n", "line 2: has 0 numbers"),
        (b"a 1 2\nb 3 x\n", "line 2: 'x' is no number"),
        (b"a 1 2\nb 3 nan\n", "line 2: the vector of 'b' is not finite"),
        (b"a 1 2\nb 3 1e60\n", "line 2: the vector of 'b' is not finite"),
        (b"a 1 2\n\xff 3 4\n", "line 2: byte 1 is not valid UTF-8"),
        (b"a 1 2\n" + b"b" * 200_000 + b" 1 2\n", "line 2: has more than 131,072 bytes"),
        (b"a" + b" 1" * 5000 + b"\n", "line 1: a word and 1 to 4,096 numbers"),
    ],
)
def test_a_malformed_line_is_named(content, message, tmp_path):
    (tmp_path / "v.txt").write_bytes(content)
    with pytest.raises(UserError, match=message) as raised:
        read_vectors(tmp_path / "v.txt")
    assert "\n" not in str(raised.value)


def test_a_file_that_unpacks_to_one_endless_line_is_refused_early(tmp_path):
    (tmp_path / "v.txt.gz").write_bytes(gzip.compress(b"a" * 50_000_000))
    with pytest.raises(UserError, match="line 1: has more than"):
        read_vectors(tmp_path / "v.txt.gz")


def test_files_have_bounds(tmp_path, monkeypatch):
    (tmp_path / "v.txt").write_text("a 1 2\nb 3 4\nc 5 6\n")
    monkeypatch.setattr(file, "MOST_NUMBERS", 5)
    with pytest.raises(UserError, match="line 3: more than 5 numbers"):
        read_vectors(tmp_path / "v.txt")
    assert len(read_vectors(tmp_path / "v.txt", wanted={"c"})) == 1
    monkeypatch.setattr(file, "MOST_LINES", 2)
    with pytest.raises(UserError, match="line 3: more than 2 words"):
        read_vectors(tmp_path / "v.txt", wanted={"c"})
    with pytest.raises(UserError, match="none.txt does not exist"):
        read_vectors(tmp_path / "none.txt")


# ---------------------------------------------------------------------------------------------------------- matching


def test_words_find_their_vectors_and_pieces_of_words_find_none(tmp_path):
    (tmp_path / "v.txt").write_text("like 1 0\ni 2 0\nnlp 3 0\nNLP 4 0\n. 5 0\ning 6 0\n")
    words = Word.train(THREE, seed=1)
    found = match(tmp_path / "v.txt", words)
    named = {words.surfaces([int(i)])[0].strip(): row[0] for i, row in zip(found.ids, found.values)}
    assert named == {"like": 1, "I": 2, "NLP": 4, ".": 5} and found.words == 8
    subwords = Subword.train([*THREE, *["sing ring king bring wing"] * 20], size=300, seed=1)
    of = {piece: word_of(subwords, i) for i, piece in enumerate(subwords.pieces(range(len(subwords))))}
    assert of["▁like"] == "like" and of["."] == "." and of["</s>"] == ""
    assert all(word == "" for piece, word in of.items() if piece.isalpha()), "ing, in the middle of a word, is no word"


def test_characters_can_have_vectors_too(tmp_path):
    (tmp_path / "v.txt").write_text("! 1 0\n")
    characters = Character.train(["a!"], seed=1)
    assert match(tmp_path / "v.txt", characters).values.tolist() == [[1, 0]] * len(
        [i for i in range(len(characters)) if word_of(characters, i) == "!"]
    )
