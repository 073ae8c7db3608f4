"""Searches with CUDA graphs find what others find. Graphs exist on GPUs only: here a stand-in runs the captured step
again over the same tensors."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from regard.assemble import build_model
from regard.decoding import cuda_graph
from regard.decoding.beam import beam
from regard.decoding.greedy import greedy
from regard.decoding.rules import Forbid, NoLoops
from regard.decoding.sampling import sample
from regard.decoding.search import bucket
from regard.decoding.stream import stream, stream_together

VOCABULARY = 23
KINDS = [
    {"preset": "tiny", "layers": 1},
    {"preset": "tiny", "layers": 1, "encoder": "recurrent", "decoder": {"kind": "attentional"}},
    {"preset": "tiny", "layers": 1, "encoder": "recurrent", "decoder": {"kind": "recurrent"}},
]


class Again:
    """A graph, as far as a search can tell."""

    made = 0

    def __init__(self, step):
        Again.made += 1
        self.replay = step


@pytest.fixture
def graphed(monkeypatch):
    def on():
        monkeypatch.setattr("regard.decoding.search.uses_cuda_graphs", lambda device: True)
        monkeypatch.setattr("regard.decoding.beam.uses_cuda_graphs", lambda device: True)
        monkeypatch.setattr("regard.decoding.walk.uses_cuda_graphs", lambda device: True)
        monkeypatch.setattr("regard.decoding.stream.uses_cuda_graphs", lambda device: True)
        monkeypatch.setattr(cuda_graph, "_graph", Again)
        Again.made = 0

    return on


def searches(model, sentences):
    """Greedy, sampled and by beam, with rules, of sentences whose outputs differ in length."""
    torch.manual_seed(sentences)
    source = torch.randint(4, VOCABULARY, (sentences, 9))
    mask = torch.arange(9) < torch.randint(2, 10, (sentences, 1))
    limits = torch.randint(3, 70, (sentences,))
    with torch.inference_mode():
        memory = model.encode(source, mask)

    def rules(beams):
        return [Forbid(), NoLoops(torch.randint(2, 4, (sentences,), generator=torch.Generator().manual_seed(1)), beams)]

    prefix = torch.randint(4, VOCABULARY, (sentences, 2))
    return [
        greedy(model.decoder, memory, max_lengths=limits, rules=rules(1)),
        greedy(model.decoder, memory, max_lengths=limits, rules=rules(1), prefix=prefix),
        sample(model.decoder, memory, max_lengths=limits, rules=rules(1), top_k=5, seed=3),
        beam(model.decoder, memory, max_lengths=limits, width=3, n_best=2, rules=rules(3)),
        beam(model.decoder, memory, max_lengths=limits, width=3, n_best=2, rules=rules(3), prefix=prefix),
    ]


def summary(found):
    hypotheses = [h for sentence in found for h in (sentence if isinstance(sentence, list) else [sentence])]
    return [(h.ids, h.finished, pytest.approx(h.log_probability, abs=1e-3)) for h in hypotheses]


@pytest.mark.parametrize("tree", KINDS, ids=lambda tree: str(tree.get("decoder", "transformer")))
def test_graphs_find_what_plain_steps_find(tree, graphed):
    torch.manual_seed(0)
    model = build_model(tree, VOCABULARY).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)  # sure of itself: no near ties that rounding could turn
    plain = [searches(model, sentences) for sentences in (1, 5, 5)]
    graphed()
    again = [searches(model, sentences) for sentences in (1, 5, 5)]
    for before, after in zip(plain, again, strict=True):
        for one, other in zip(before, after, strict=True):
            assert [(h[0], h[1]) for h in summary(one)] == [(h[0], h[1]) for h in summary(other)]
            assert summary(one) == summary(other)
    assert Again.made > 0
    made = Again.made
    searches(model, 5)
    assert Again.made == made, "the same shapes were captured again"


def test_moved_weights_and_observers_are_noticed(graphed):
    torch.manual_seed(0)
    model = build_model({"preset": "tiny", "layers": 1}, VOCABULARY).eval()
    graphed()
    searches(model, 2)
    made = Again.made
    parameter = next(model.decoder.parameters())
    parameter.data = parameter.data.clone()
    searches(model, 2)
    assert Again.made > made
    made = Again.made
    model.decoder.layers[0].attention.observer = lambda what, value: None
    searches(model, 2)
    assert Again.made == made


def test_a_step_that_cannot_be_captured_is_taken_all_the_same(graphed, monkeypatch, caplog):
    torch.manual_seed(0)
    model = build_model({"preset": "tiny", "layers": 1}, VOCABULARY).eval()
    wanted = searches(model, 3)
    graphed()

    def refuse(step):
        raise RuntimeError("no graphs here\nat all")

    monkeypatch.setattr(cuda_graph, "_graph", refuse)
    assert [summary(found) for found in searches(model, 3)] == [summary(found) for found in wanted]
    assert [r.getMessage() for r in caplog.records] == ["regard: decoding runs without CUDA graphs: no graphs here"]


LLAMA = {
    "kind": "language_model", "preset": "tiny", "width": 24, "heads": 4, "layers": 2, "dropout": 0.0, "norm": "pre",
    "norm_kind": "rms", "gated": True, "bias": False, "position": "none", "relative_position": "rotary",
    "attention": {"kind": "multi_head", "kv_heads": 2}, "scale": False,
}  # fmt: skip


@pytest.mark.parametrize("tree", [LLAMA, {"kind": "language_model", "preset": "tiny", "decoder": "recurrent"}])
def test_streams_are_the_same_in_turns_and_past_their_window(tree, graphed):
    torch.manual_seed(1)
    model = build_model(tree, VOCABULARY).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    options = {"window": 100, "length": 180, "rules": [Forbid((0, 1, 2, 3))], "repetition_penalty": 1.2}

    def streams():
        return [stream(model.decoder, prompt=[5, 7, 9], seed=seed, **how, **options) for seed, how in enumerate(HOW)]

    def together(**more):
        return [*stream_together(model.decoder, prompt=[5, 7, 9], seeds=range(3), **options, **more)]

    alone, plain = [list(one) for one in streams()], together()
    graphed()
    in_turns = [list(one) for one in zip(*zip(*streams(), strict=True), strict=True)]
    assert [[d.id for d in one] for one in in_turns] == [[d.id for d in one] for one in alone]
    assert {len(one) for one in alone} == {180} and Again.made >= 3
    for before, after in zip(plain, together(), strict=True):
        for one, other in zip(before, after, strict=True):
            assert one.id == other.id and one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
    assert [d.id for d, *_ in plain] == [d.id for d in alone[0]]
    made = Again.made
    list(streams()[0]), together()
    assert Again.made == made, "the same shapes were captured again"


HOW = [{}, {}, {"top_k": 1}]


def test_graphs_are_freed_with_their_decoder(graphed):
    model = build_model({"preset": "tiny", "layers": 1}, VOCABULARY).eval()
    graphed()
    searches(model, 2)
    alive = weakref.ref(model.decoder)
    assert cuda_graph._graphs.get(model.decoder)
    del model
    gc.collect()
    assert alive() is None


def test_buckets_are_few_and_wasteless():
    sizes = [bucket(n) for n in range(1, 1025)]
    assert all(size >= n for n, size in enumerate(sizes, 1)) and max(s / n for n, s in enumerate(sizes, 1)) < 1.5
    assert len(set(sizes)) == 20
