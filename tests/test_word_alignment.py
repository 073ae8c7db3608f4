"""Merging of tokens and links between words, against plain loops and an example by eye."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.word_alignment import average, links, pharaoh, word_matrix


def test_average_over_layers_and_heads() -> None:
    layers = [torch.rand(2, 4, 3, 5).softmax(-1) for _ in range(3)]
    everything = average(layers)
    assert everything.shape == (2, 3, 5)
    by_hand = sum(layer[1, head, 2, 4].item() for layer in layers for head in range(4)) / 12
    assert abs(everything[1, 2, 4].item() - by_hand) < 1e-6
    torch.testing.assert_close(everything.sum(-1), torch.ones(2, 3))
    some = average(layers[:1], heads=[1, 3])
    torch.testing.assert_close(some, (layers[0][:, 1] + layers[0][:, 3]) / 2)


def test_words_by_hand() -> None:
    # Source: "un" "chi|en" END; target: "a" "do|g" END.
    weights = np.array([[0.6, 0.1, 0.1, 0.2], [0.0, 0.5, 0.25, 0.25], [0.25, 0.5, 0.25, 0.0], [0.0, 0.0, 0.0, 1.0]])
    merged = word_matrix(weights, target_words=[0, 1, 1], source_words=[0, 1, 1])
    np.testing.assert_allclose(merged, [[0.6, 0.2], [0.125, 0.75]], rtol=1e-6)
    assert pharaoh(links(merged)) == "0-0 1-1"


def slow_words(weights: np.ndarray, target: list[int], source: list[int]) -> list[list[float]]:
    merged = []
    for t in range(max(target, default=-1) + 1):
        rows = [row for row, word in enumerate(target) if word == t]
        merged.append(
            [
                sum(weights[row, column].item() for row in rows for column, word in enumerate(source) if word == s)
                / max(len(rows), 1)
                for s in range(max(source, default=-1) + 1)
            ]
        )
    return merged


word_lists = st.lists(st.integers(0, 5), max_size=7).map(sorted)


@settings(max_examples=60, deadline=None)
@given(word_lists, word_lists, st.integers(0, 3), st.integers(0, 2**31))
def test_words_equal_the_loops(target: list[int], source: list[int], padding: int, seed: int) -> None:
    """Also where lists are empty, words have no token of their own, and END and padding follow."""
    weights = np.random.default_rng(seed).random((len(target) + padding, len(source) + padding), np.float32)
    merged = word_matrix(weights, target, source)
    expected = slow_words(weights, target, source)
    assert merged.shape == (len(expected), max(source, default=-1) + 1)
    np.testing.assert_allclose(merged, np.array(expected).reshape(merged.shape), rtol=1e-5, atol=1e-6)


def test_one_word_a_token_only_drops_the_end() -> None:
    weights = np.random.default_rng(0).random((4, 6), np.float32)
    np.testing.assert_array_equal(word_matrix(weights, range(3), range(5)), weights[:3, :5])


def test_links() -> None:
    matrix = np.array(
        [
            [0.90, 0.05, 0.05, 0.00],  # one clear link
            [0.10, 0.45, 0.40, 0.05],  # two: the second reaches the threshold
            [0.20, 0.20, 0.25, 0.10],  # none reaches it: the greatest alone
            [0.01, 0.02, 0.01, 0.00],  # looked at END: alone
        ]
    )
    assert sorted(links(matrix)) == [(0, 0), (1, 1), (2, 1), (2, 2)]
    assert pharaoh(links(matrix)) == "0-0 1-1 2-1 2-2"
    assert sorted(links(matrix, threshold=2.0)) == [(0, 0), (1, 1), (2, 2)]
    assert (1, 3) in links(matrix, least=0.0)


def test_a_tie_goes_to_the_first_word() -> None:
    assert links(np.full((2, 3), 0.2)) == [(0, 0), (0, 1)]


def test_pharaoh_is_source_first() -> None:
    """Target word 0 looks at source word 2 and so on: numbers are source-target, sorted by source."""
    reversed_order = np.eye(3)[:, ::-1]
    assert pharaoh(links(reversed_order)) == "0-2 1-1 2-0"
    one_to_many = np.array([[0.0, 1.0], [0.0, 1.0]])
    assert pharaoh(links(one_to_many)) == "1-0 1-1"
    assert pharaoh([(2, 0), (0, 10), (0, 9)]) == "0-9 0-10 2-0"


def test_nothing_to_align() -> None:
    assert links(np.zeros((0, 3))) == [] and links(np.zeros((3, 0))) == [] and pharaoh([]) == ""
    assert word_matrix(np.ones((1, 1)), [], []).shape == (0, 0)
