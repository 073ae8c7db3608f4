"""A translator computed by CTranslate2 gives what the one computed by torch gives, option by option."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from engines.conftest import make_folder, sentences, trained

import regard
from regard.engines.ctranslate2 import translator as module
from regard.engines.ctranslate2.repetition import AT_LEAST, find_loop, loops_allowed
from regard.engines.ctranslate2.translator import SHORT, CTranslate2Translator, batches_of_similar_length
from regard.hypothesis import penalty
from regard.layers.capture import capture
from regard.loading import load
from regard.types import BEGIN, END
from regard.word_alignment import word_matrix


@pytest.fixture
def fast(folder) -> CTranslate2Translator:
    found = regard.load(folder, device="cpu", engine="ctranslate2")
    assert isinstance(found, CTranslate2Translator)
    return found


@pytest.fixture(scope="module")
def slow(folder):
    return load(folder, device="cpu")


def ids_of(slow, tokens: list[str]) -> list[int]:
    pieces = slow.tokenizer.pieces(range(len(slow.tokenizer)))
    return [pieces.index(token) for token in tokens]


@torch.no_grad()
def forced(slow, source: list[int], target: list[int], finished: bool = True) -> float:
    """The log-probability of a target under teacher forcing, by torch."""
    ids = torch.tensor([[*source, END]])
    logits = slow.model(ids, torch.ones_like(ids, dtype=torch.bool), torch.tensor([[BEGIN, *target]]))[0]
    wanted = torch.tensor([*target, END])[:, None]
    return float(logits.log_softmax(-1).gather(1, wanted)[: len(target) + finished].sum())


def test_greedy_texts_are_those_of_torch(fast, slow):
    lines = sentences(30)
    ours, theirs = fast.translate(lines, beam=1), slow.translate(lines, beam=1)
    assert [one.text for one in ours] == [one.text for one in theirs]
    assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-3)
    assert [one.finished for one in ours] == [one.finished for one in theirs]
    assert [one.tokens for one in ours] == [one.tokens for one in theirs]
    assert len({one.text for one in ours}) > 10  # else it were easy to agree


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.5])
def test_scores_are_the_models_and_rank_by_our_length_penalty(alpha, fast, slow):
    for source, best in zip(sentences(6), fast.translate(sentences(6), beam=4, n_best=4, length_penalty=alpha)):
        found = [best, *best.alternatives]
        assert len({one.text for one in found}) == len(found) >= 2
        scores = [one.score for one in found]
        assert scores == sorted(scores, reverse=True)
        for one in found:
            ids = ids_of(slow, one.tokens)
            assert one.log_probability == pytest.approx(forced(slow, slow.encode(source), ids, one.finished), abs=2e-3)
            assert one.score == pytest.approx(one.log_probability / penalty(len(ids) + one.finished, alpha), rel=1e-6)


def test_a_wide_beam_finds_what_torch_finds(fast, slow):
    lines = sentences(12, longest=4, seed=5)
    options = {"beam": 16, "length_penalty": 1.0}
    ours, theirs = fast.translate(lines, **options), slow.translate(lines, **options)
    assert sum(one.text == other.text for one, other in zip(ours, theirs)) >= 10


def test_a_prefix_is_forced_and_does_not_count(fast, slow):
    source = slow.encode(sentences(1)[0])
    prefix = [7, 8, 9]
    for beam in (1, 4):
        (ours,), (theirs,) = (one.search([source], beam=beam, prefix=prefix) for one in (fast, slow))
        assert ours[0].ids[:3] == prefix == theirs[0].ids[:3]
        after = forced(slow, source, ours[0].ids, ours[0].finished) - forced(slow, source, prefix, False)
        assert ours[0].log_probability == pytest.approx(after, abs=2e-3)
    assert (
        fast.search([source], beam=1, prefix=prefix)[0][0].ids == slow.search([source], beam=1, prefix=prefix)[0][0].ids
    )


def test_length_limits_are_those_of_torch(fast, slow):
    lines = sentences(12)
    for limit in (1, 2, 5, 9):
        for beam in (1, 4):
            ours, theirs = (one.translate(lines, beam=beam, max_length=limit) for one in (fast, slow))
            assert max(len(one.tokens) for one in ours) <= limit
            assert beam > 1 or [one.text for one in ours] == [one.text for one in theirs]
            assert any(not one.finished for one in ours)
    assert all(not one.finished and len(one.tokens) == 1 for one in fast.translate(lines, beam=1, max_length=1))


def test_limits_by_the_length_of_the_source(tmp_path, monkeypatch):
    """A short sentence in a batch with a long one keeps its own limit."""
    folder = make_folder(tmp_path / "model")
    fast, slow = regard.load(folder, device="cpu", engine="ctranslate2"), load(folder, device="cpu")
    for one in (fast, slow):
        one.recipe = regard.config.apply_overrides(
            one.recipe, ["decoding.length_extra=0", "decoding.length_factor=1.0"]
        )
    lines = sentences(20, seed=6)
    ours, theirs = fast.translate(lines, beam=1), slow.translate(lines, beam=1)
    assert [one.text for one in ours] == [one.text for one in theirs]
    assert any(not one.finished for one in ours)


def test_alone_is_as_in_a_batch_to_the_last_bit(folder):
    """R16, also with scores, alignments and sources on both sides of SHORT. (In float32 a matrix product depends on the
    number of its rows, and only texts are the same: below.)"""
    fast = regard.load(folder, device="cpu", precision="int8", engine="ctranslate2")
    lines = sentences(40, longest=SHORT, seed=1)
    together = fast.translate(lines, beam=4, n_best=3, alignment=True, batch_tokens=4096)
    alone = [fast.translate(line, beam=4, n_best=3, alignment=True) for line in lines]
    assert together == alone
    assert len({one.text for one in together}) > 20


def test_texts_in_float32_are_the_same_alone_and_in_a_batch(fast):
    lines = sentences(40, longest=SHORT, seed=1)
    together = fast.translate(lines, beam=4)
    alone = [fast.translate(line, beam=4) for line in lines]
    assert [one.text for one in together] == [one.text for one in alone]
    assert [one.score for one in together] == pytest.approx([one.score for one in alone], abs=1e-4)


def test_short_sources_are_never_padded_to_long_ones():
    lengths = [3, 40, 15, 16, 17, 15, 2, 30]
    batches = list(batches_of_similar_length(lengths, 10_000, 1))
    assert sorted(index for batch in batches for index in batch) == list(range(8))
    assert all(len({lengths[index] < SHORT for index in batch}) == 1 for batch in batches)
    for batch in batches_of_similar_length([5] * 100, 64, 2):
        assert 5 * len(batch) <= 64
    assert len(list(batches_of_similar_length([20] * 8, 10_000, 2))) == 2  # work for two cores


def looping(place: Path) -> Path:
    """A model that writes one token for ever: nothing but it is likely."""
    output = torch.zeros_like(trained()["decoder.output.weight"])
    output -= 0.001 * torch.arange(len(output))[:, None]  # no ties
    output[10], output[11] = 0.5, 0.3
    width = len(trained()["decoder.norm.weight"])
    return make_folder(
        place / "loop",
        decoder_output_weight=output,
        decoder_norm_weight=torch.zeros(width),
        decoder_norm_bias=torch.ones(width),
    )


def test_no_endless_loops(tmp_path):
    fast, slow = (
        regard.load(looping(tmp_path), device="cpu", engine="ctranslate2"),
        load(tmp_path / "loop", device="cpu"),
    )
    for line in ("le train est parti", "la " * 7):
        allowed = loops_allowed(slow.encode(line))
        ours, theirs = (one.translate(line, beam=1, max_length=24) for one in (fast, slow))
        assert ours.tokens == theirs.tokens
        assert ours.score == pytest.approx(theirs.score, abs=1e-3)
        assert find_loop(ids_of(slow, ours.tokens), allowed) is None
        wide = fast.translate(line, beam=4, n_best=4, max_length=24)
        assert all(find_loop(ids_of(slow, one.tokens), allowed) is None for one in (wide, *wide.alternatives))
    assert loops_allowed(slow.encode("la " * 7)) > AT_LEAST


def test_loops_are_those_of_the_rule():
    """Against decoding/rules.py, for random lists of few different tokens."""
    from regard.decoding.rules import NoLoops
    from regard.decoding.rules import loops_allowed as by_tensors

    draw = random.Random(1)
    for _ in range(300):
        ids = [draw.randint(4, 5) for _ in range(draw.randint(2, 24))]
        assert loops_allowed(ids) == int(by_tensors(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool))[0])
        allowed = draw.randint(1, 4)
        rule, first = NoLoops(torch.tensor([allowed]), 1), None
        for at, token in enumerate(ids):
            log_probs = torch.zeros(1, 8)
            rule(torch.tensor(ids[:at], dtype=torch.long).reshape(1, -1), log_probs)
            if log_probs[0, token] == -torch.inf:
                first = at
                break
        completed = next((at for at in range(len(ids)) if find_loop(ids[: at + 1], allowed)), None)
        assert completed == first
    assert AT_LEAST == 3


def test_pad_begin_and_unknown_are_never_written(tmp_path):
    output = trained()["decoder.output.weight"].clone()
    output[:3] = output[[40, 41, 42]] * 1.5
    folder = make_folder(tmp_path / "odd", decoder_output_weight=output)
    fast, slow = regard.load(folder, device="cpu", engine="ctranslate2"), load(folder, device="cpu")
    lines = sentences(20)
    ours, theirs = fast.translate(lines, beam=1), slow.translate(lines, beam=1)
    assert [one.tokens for one in ours] == [one.tokens for one in theirs]
    for one in [*ours, *fast.translate(lines, beam=4)]:
        assert not {"<pad>", "<unk>", "<s>"} & {*one.tokens}


def test_alignment_is_the_mean_over_layers_and_heads(fast, slow):
    """By torch, teacher-forced on the same texts, together and alone: what CTranslate2's own beam search returns for a
    batch would fail here."""
    lines = sentences(24)
    found = fast.translate(lines, alignment=True, beam=3)
    for line, one in zip(lines, found):
        source, target = slow.encode(line), ids_of(slow, one.tokens)
        (expected,) = slow.attention([(source, target)])
        word = slow.tokenizer.word_index
        np.testing.assert_allclose(one.attention, word_matrix(expected.numpy(), word(target), word(source)), atol=2e-3)
        assert one.alignment
    assert fast.translate(sentences(1), alignment=False)[0].alignment is None
    assert fast.translate("", alignment=True).alignment == slow.translate("", alignment=True).alignment


def test_splitting_warnings_progress_and_empty_lines_are_those_of_torch(fast, slow):
    long = " ".join(["la mer calme"] * 60)
    lines = ["", "la gare", "  ", long, "Oui. Le train. La mer."]
    said: list[list[str]] = [[], []]
    done = []
    ours = fast.translate(lines, beam=1, warn=said[0].append, progress=done.append)
    theirs = slow.translate(lines, beam=1, warn=said[1].append)
    assert [one.text for one in ours] == [one.text for one in theirs]
    assert said[0] == said[1] and len(said[0]) == 1
    assert sum(done) == sum(len(fast.parts(line)) for line in lines)
    assert fast.parts(long) == slow.parts(long)


def test_cancelled_sentences_are_dropped_between_batches(fast, monkeypatch):
    started: list[int] = []
    begin = CTranslate2Translator._start

    def counted(self, sources, query, limit, forbidden=(), **options):
        if not forbidden:
            started.append(len(sources))
        return begin(self, sources, query, limit, forbidden, **options)

    monkeypatch.setattr(CTranslate2Translator, "_start", counted)
    lines = sentences(30)
    found = fast.translate(lines, batch_tokens=1, cancelled=lambda: range(5, 30) if len(started) >= 3 else ())
    assert sum(started) < 15
    assert [one.text for one in found[:2]] == [one.text for one in fast.translate(lines[:2])] or sum(started) >= 3
    assert all(not one.finished for one in found if not one.tokens)

    class Everybody(Exception):
        pass

    def gone() -> tuple:
        raise Everybody

    with pytest.raises(Everybody):
        fast.translate(lines, cancelled=gone)


def test_whoever_asks_for_the_model_gets_torch_from_then_on(folder):
    fast = regard.load(folder, device="cpu", engine="ctranslate2")
    line = sentences(1)[0]
    assert fast.inspect(line).target.words == load(folder, device="cpu").inspect(line).target.words
    assert fast.engine == "ctranslate2"
    with capture(fast.model.decoder) as seen:
        captured = fast.translate(line, alignment=True)
    assert fast.engine == "torch" and seen
    assert captured.text == load(folder, device="cpu").translate(line, alignment=True).text
    assert {"translate", "inspect", "model", "recipe"} <= {*dir(fast)}


def test_int8_at_rest_is_computed_in_either_precision(tmp_path):
    small = regard.export(make_folder(tmp_path / "model"), tmp_path / "small", precision="int8")
    exact = regard.load(small, device="cpu", engine="ctranslate2")
    slow = load(small, device="cpu")
    lines = sentences(20)
    assert [one.text for one in exact.translate(lines, beam=1)] == [one.text for one in slow.translate(lines, beam=1)]
    rounded = regard.load(small, device="cpu", precision="int8", engine="ctranslate2")
    near = [one.score for one in rounded.translate(lines, beam=1)]
    assert near != [one.score for one in exact.translate(lines, beam=1)]
    assert sum(abs(one - other.score) < 1.0 for one, other in zip(near, exact.translate(lines, beam=1))) >= 15


def test_bfloat16_at_rest(tmp_path):
    small = regard.export(make_folder(tmp_path / "model"), tmp_path / "small", precision="bfloat16")
    ours, theirs = (one.translate(sentences(20), beam=1) for one in (regard.load(small, device="cpu", engine="ctranslate2"), load(small, device="cpu")))  # fmt: skip
    assert [one.text for one in ours] == [one.text for one in theirs]


def test_bounded_retries(tmp_path, monkeypatch):
    """A model that only loops ends, too."""
    monkeypatch.setattr(module, "RETRIES", 2)
    fast = regard.load(looping(tmp_path), device="cpu", engine="ctranslate2")
    assert fast.translate("la mer", beam=4, max_length=40).text


def test_torch_keeps_its_threads(folder: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        regard.load(folder, device="cpu", engine="ctranslate2").translate("a b c")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
