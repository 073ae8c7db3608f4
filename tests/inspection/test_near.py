"""What is near: the index agrees with a search by brute force over states computed one sentence at a time."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from inspection.test_record_translation import LINES, made

from regard.data.batching import pad
from regard.errors import UserError
from regard.inspection.record.near import COUNT
from regard.inspection.trace.base import SOURCE, TARGET, Choice
from regard.inspection.word_index import (
    WordIndex,
    build_index,
    default_path,
    quantised,
    read_index,
    weights_hash,
    word_states,
    write_index,
)
from regard.layers.fast_linear import packing_is_possible, ready_for_use
from regard.types import BEGIN, END
from regard.weights import load_tensors, save_tensors

SOURCES = [*LINES, "je suis gare .", "où est ce livre ?"]
TARGETS = ["je suis ce livre", "la gare ?", "elle a lu", "oui .", "je est", "où ce livre"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


@torch.inference_mode()
def states_one_by_one(translator, source: str, target: str) -> dict[str, np.ndarray]:
    """The states of a sentence alone; the tokens are words here."""
    read, written = translator.encode(source), translator.tokenizer.encode(target)
    ids, mask = pad([translator.source_row(read)])
    memory = translator.model.encode(ids, mask)
    state, hidden = translator.model.decoder.start(memory, 1, 8), []
    for token in [BEGIN, *written, END][:-1]:
        one, state = translator.model.decoder.advance(torch.tensor([[token]]), state)
        hidden.append(one[0, 0].numpy())
    return {SOURCE: memory.states[0, : len(read)].numpy(), TARGET: np.stack(hidden[: len(written)])}


@pytest.mark.parametrize("shape", ["transformer", "ssru", "bahdanau", "none"])
def test_neighbours_are_those_of_brute_force(shape) -> None:
    translator = made(shape)
    index = build_index(translator, SOURCES, TARGETS)
    assert index.sources == [one.split() for one in SOURCES] and index.targets == [one.split() for one in TARGETS]
    alone = [states_one_by_one(translator, *pair) for pair in zip(SOURCES, TARGETS)]
    wanted = states_one_by_one(translator, "elle est là ?", "elle a lu ce")
    for side in (SOURCE, TARGET):
        assert len(index.sides[side].vectors) == sum(len(one[side]) for one in alone)
        for vector in wanted[side]:
            exact = {
                (number, word): float(state @ vector / np.linalg.norm(state) / np.linalg.norm(vector))
                for number, one in enumerate(alone)
                for word, state in enumerate(one[side])
            }
            found = index.nearest(side, vector, 5)
            best = sorted(exact.values(), reverse=True)[:5]
            assert [similarity for similarity, _, _ in found] == pytest.approx(best, abs=0.02)  # int8
            for similarity, number, word in found:
                assert similarity == pytest.approx(exact[number, word], abs=0.02)


def test_the_word_itself_is_its_own_nearest(tmp_path) -> None:
    translator = made("transformer")
    write_index(build_index(translator, SOURCES, TARGETS), default_path(translator.model))
    trace = translator.inspect(SOURCES[2])
    for position, word in enumerate(trace.source.words):
        near = trace.near_of(Choice(attention=SOURCE, position=position))
        first = near.neighbours[0]
        assert near.word == word and first.source == SOURCES[2].split() and first.word == position
        assert first.similarity > 0.999 and len(near.neighbours) == COUNT and near.sentences == len(SOURCES)
    if trace.target.words:
        assert trace.near_of(Choice()).position == len(trace.target.words) - 1
    ElementTree.fromstring(trace.svg("near", attention=SOURCE, position=1))
    with pytest.raises(UserError, match="words 0 to"):
        trace.near_of(Choice(attention=SOURCE, position=99))


def test_a_file_reads_back_and_belongs_to_its_model(tmp_path) -> None:
    translator, file = made("luong"), tmp_path / "index"
    index = build_index(translator, SOURCES, TARGETS)
    write_index(index, file)
    again = read_index(file, translator.model)
    assert (again.sources, again.targets, again.model) == (index.sources, index.targets, index.model)
    for side, own in index.sides.items():
        assert np.array_equal(own.vectors, again.sides[side].vectors)
        assert np.array_equal(own.sentence, again.sides[side].sentence) and np.array_equal(
            own.word, again.sides[side].word
        )
    with pytest.raises(UserError, match="another model"):
        read_index(file, made("luong", seed=4).model)
    trace = made("luong", seed=4).inspect("oui")
    with pytest.raises(UserError, match="another model"):
        trace.near_of(Choice(index=str(file), attention=SOURCE))
    with pytest.raises(UserError, match="regard index MODEL --source"):
        trace.near_of(Choice(attention=SOURCE))


@pytest.mark.parametrize("damage", ["missing", "sentence", "word", "text", "kind", "format"])
def test_a_damaged_file_is_refused_in_one_line(tmp_path, damage) -> None:
    translator, file = made("none"), tmp_path / "index"
    write_index(build_index(translator, SOURCES, TARGETS), file)
    tensors, notes = load_tensors(file), {"format": 1, "model": weights_hash(translator.model)}
    if damage == "missing":
        del tensors["source.vectors"]
    elif damage == "format":
        notes["format"] = 99
    elif damage == "text":
        tensors["target.text"] = torch.tensor([255, 254], dtype=torch.uint8)
    elif damage == "kind":
        tensors["source.vectors"] = tensors["source.vectors"].float()
    else:
        tensors[f"source.{damage}"][0] = 1000
    file.write_bytes(save_tensors(tensors, notes))
    with pytest.raises(UserError, match="damaged|no index of this version"):
        read_index(file, translator.model)
    file.write_bytes(b"nonsense")
    with pytest.raises(UserError, match="not a usable"):
        read_index(file, translator.model)


@pytest.mark.skipif(not packing_is_possible(), reason="this PyTorch does not pack weights")
def test_the_hash_is_that_of_the_weights_however_they_are_packed() -> None:
    one, other = made("transformer").model, made("transformer").model
    assert weights_hash(one) == weights_hash(ready_for_use(other, "float32", torch.device("cpu")))
    third = made("transformer").model
    third.encoder.layers[0].attention.outward.weight.data[0, 0] += 1e-3
    assert weights_hash(third) != weights_hash(one)


def test_words_are_means_of_their_tokens_and_what_does_not_fit_is_left_out() -> None:
    states = np.array([[1.0, 0], [3, 2], [5, 5]], np.float32)
    assert np.array_equal(np.stack(word_states(states, [0, 0, 2], 4)), [[2, 1], [0, 0], [5, 5], [0, 0]])
    assert np.array_equal(quantised(np.array([[2.0, -4], [0, 0]])), [[64, -127], [0, 0]])
    translator = made("transformer")
    index = build_index(translator, ["oui .", " ", "je " * 2000, "oui ."], ["oui", "x", "je", "oui"])
    assert index.sources == [["oui", "."]]
    with pytest.raises(UserError, match="no pairs"):
        build_index(translator, [""], [""])
    empty = replace(index, sides={**index.sides})
    assert isinstance(empty, WordIndex) and len(index.nearest(SOURCE, np.ones(16, np.float32), 9)) == 2
