"""The laws of encoder-decoder models. Every combination of encoder and decoder is held to them."""

import itertools

import pytest
import torch

from regard import registry
from regard.assemble import build_model
from regard.decoding.beam import beam
from regard.decoding.greedy import greedy
from regard.decoding.sampling import sample
from regard.layers.attention._base import Attention
from regard.layers.capture import capture
from regard.states import fork, narrow, select_
from regard.types import BEGIN, END, PAD, Batch

VOCABULARY, WIDTH = 23, 16
SIZES = {"width": WIDTH, "heads": 4, "feed_forward": 32, "layers": 2, "dropout": 0.1}
ATTENTIONS = [
    *registry.kinds("layers/attention"),
    {"kind": "multiplicative", "score": "dot"},
    {"kind": "multiplicative", "score": "concat"},
    {"kind": "local", "window": 1},
    {"kind": "local", "window": 2, "alignment": "monotonic", "score": "dot"},
]
ORDERS = [("before", True, "gru"), ("after", True, "lstm"), ("after", False, "lstm")]
ATTENTIONAL = [
    {"attention": attention, "order": order, "feed": feed, "cell": cell}
    for attention, (order, feed, cell) in itertools.product(ATTENTIONS, ORDERS)
]
T5 = {
    "norm": "pre",
    "norm_kind": "rms",
    "norm_epsilon": 1e-6,
    "gated": True,
    "bias": False,
    "head_width": 6,
    "relative_position": {"kind": "buckets", "buckets": 8, "distance": 6},
    "activation": "silu",
}
LLAMA = {
    "norm": "pre",
    "norm_kind": "rms",
    "gated": True,
    "bias": False,
    "relative_position": "rotary",
    "attention": {"kind": "multi_head", "kv_heads": 2},
    "activation": "silu",
}
BART = {"embedding_norm": True, "output_bias": True, "position": "sinusoidal_halves", "tie": False}
WITHOUT_SOURCE = ("independent_keys",)
"""Decoders of language models alone; test_language_model.py has their laws."""
VARIANTS: dict[tuple[str, str], list[dict]] = {
    ("encoder", "transformer"): [{"norm": "pre"}, {"norm": "post"}, T5, LLAMA],
    ("decoder", "transformer"): [{"norm": "pre", "position": "learned"}, {"norm": "post"}, T5, T5 | BART, LLAMA],
    ("encoder", "universal"): [
        {"norm": "pre", "layers": 4},
        {"norm": "post"},
        {"halting": False, "position": "learned"},
    ],
    ("decoder", "universal"): [
        {"norm": "pre", "position": "learned"},
        {"norm": "post", "layers": 4},
        {"halting": False},
    ],
    ("decoder", "ssru"): [{"norm": "pre", "position": "learned"}, {"norm": "post", "attention": "additive"}],
    ("encoder", "recurrent"): [{"cell": "lstm"}, {"cell": "gru", "direction": "backward"}],
    ("decoder", "recurrent"): [{"cell": "lstm"}, {"cell": "gru"}, {"cell": "rnn"}, {"layer_norm": True}],
    ("decoder", "attentional"): [{}, *ATTENTIONAL, {"layer_norm": True}, {"embedding": 12, "tie": False}],
}


def specs(part: str, kind: str) -> list[dict]:
    """The part with small sizes, in the variants worth trying; a newcomer is tried as it comes."""
    known = registry.keywords(registry.factory(part, kind))
    return [
        {"kind": kind, **{name: size for name, size in SIZES.items() if name in known}, **variant}
        for variant in VARIANTS.get((part, kind), [{}])
    ]


def combinations() -> list[dict]:
    """Every kind of encoder with every kind of decoder, and every variant of each with some other."""
    found = []
    decoders = [kind for kind in registry.kinds("decoder") if kind not in WITHOUT_SOURCE]
    for encoder, decoder in itertools.product(registry.kinds("encoder"), decoders):
        encoders, variants = specs("encoder", encoder), specs("decoder", decoder)
        if encoder != ("transformer" if decoder == "transformer" else "recurrent"):
            variants = variants[:2]  # the rest of the variants are tried with the encoder they were made for
        for number in range(max(len(encoders), len(variants))):
            parts = {"encoder": encoders[number % len(encoders)], "decoder": variants[number % len(variants)]}
            stem = {"width": WIDTH, "dropout": 0.1} | ({"position": "learned"} if number % 2 else {})
            found.append({"stem": stem, "share": "embedding" not in parts["decoder"], **parts})
    for attention in [kind for kind in ATTENTIONS if kind != "multi_head"]:
        parts = {part: {"kind": "transformer", **SIZES, "attention": attention} for part in ("encoder", "decoder")}
        found.append({"stem": {"width": WIDTH}, **parts})
    found.append(
        {"stem": {"width": WIDTH}, **{part: {"kind": "universal", **SIZES, "attention": "additive"} for part in parts}}
    )
    copied = {"kind": "recurrent", "width": WIDTH, "layers": 2, "cell": "lstm"}
    found.append({"stem": {"width": 10}, "share": False, "encoder": copied, "decoder": {**copied, "bridge": "copy"}})
    return found


def is_slow(tree: dict) -> bool:
    """Every attention is tried with one order of the attentional decoder each time, with the others in the slow tests."""
    decoder = {key: value for key, value in tree["decoder"].items() if key not in ("kind", *SIZES)}
    if tree["decoder"]["kind"] != "attentional" or decoder not in ATTENTIONAL:
        return False
    attention, order = divmod(ATTENTIONAL.index(decoder), len(ORDERS))
    return attention % len(ORDERS) != order


def title(tree: dict) -> str:
    words = [str(value) for part in ("encoder", "decoder") for name, value in tree[part].items() if name not in SIZES]
    return "-".join(words).replace(" ", "")


@pytest.fixture(
    scope="module",
    params=[pytest.param(tree, id=title(tree), marks=[pytest.mark.slow] * is_slow(tree)) for tree in combinations()],
)
def model(request):
    torch.manual_seed(0)
    made = build_model(request.param, VOCABULARY).eval()
    for parameter in made.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return made


@pytest.fixture(scope="module")
def batch() -> Batch:
    torch.manual_seed(3)
    source, target = torch.randint(4, VOCABULARY, (4, 7)), torch.randint(4, VOCABULARY, (4, 6))
    for row, length in enumerate([7, 5, 1, 6]):
        source[row, length - 1], source[row, length:] = END, PAD
    target[:, 0] = BEGIN
    target[1, 4:] = PAD
    mask = (target != PAD) & (target != BEGIN)
    return Batch(source, source != PAD, target, mask, int(mask.sum()))


def close(a, b):
    torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)


@torch.no_grad()
def test_a_cached_step_equals_the_full_forward_at_every_position(model, batch):
    full = model(batch.source, batch.source_mask, batch.target)
    for chunks in ([1] * 6, [4, 2], [2, 1, 3], [6]):
        state = model.decoder.start(model.encode(batch.source, batch.source_mask), beams=1, capacity=8)
        at, parts = 0, []
        for size in chunks:
            logits, state = model.decoder.step(batch.target[:, at : at + size], state)
            parts.append(logits)
            at += size
        close(torch.cat(parts, 1), full)


@torch.no_grad()
def test_padding_and_neighbours_do_not_matter(model, batch):
    full = model(batch.source, batch.source_mask, batch.target)
    for row in range(4):
        real = batch.source_mask[row]
        alone = model(batch.source[row : row + 1, real], real[real][None], batch.target[row : row + 1])
        close(full[row : row + 1], alone)


@torch.no_grad()
def test_the_future_cannot_matter(model, batch):
    changed = batch.target.clone()
    changed[:, 3:] = (changed[:, 3:] + 5) % (VOCABULARY - 4) + 4
    memory = model.encode(batch.source, batch.source_mask)
    before = model.decoder.step(batch.target, model.decoder.start(memory, 1, 0))[0]
    after = model.decoder.step(changed, model.decoder.start(memory, 1, 0))[0]
    close(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:], atol=1e-3)


@torch.no_grad()
def test_rows_of_a_sentence_can_be_selected_forked_and_narrowed(model, batch):
    memory = model.encode(batch.source, batch.source_mask)
    rows, ids = 3, torch.randint(4, VOCABULARY, (12, 4))
    state = model.decoder.start(memory, rows, capacity=6)
    _, state = model.decoder.step(ids[:, :3], state)
    copy = fork(state)
    index = torch.tensor([1, 0, 0, 5, 4, 3, 6, 7, 8, 11, 9, 10])
    state = select_(state, index)
    keep = torch.tensor([0, 2, 3])
    kept = (keep[:, None] * rows + torch.arange(rows)).flatten()
    narrowed = narrow(state, keep)
    logits, _ = model.decoder.step(ids[kept, 3:], narrowed)
    for row, (at, origin) in enumerate(zip(kept.tolist(), index[kept].tolist())):
        sentence = at // rows
        history = torch.cat([ids[origin, :3], ids[at, 3:]])[None]
        alone = model.encode(batch.source[sentence : sentence + 1], batch.source_mask[sentence : sentence + 1])
        expected = model.decoder.step(history, model.decoder.start(alone, 1, 0))[0][:, -1:]
        close(logits[row : row + 1], expected)
    unmoved, _ = model.decoder.step(ids[:, 3:], copy)
    full = model.decoder.step(ids, model.decoder.start(memory, rows, 0))[0][:, -1:]
    close(unmoved, full)


@torch.no_grad()
def test_watched_equals_unwatched(model, batch):
    plain = model(batch.source, batch.source_mask, batch.target)
    with capture(model) as seen:
        spelled = model(batch.source, batch.source_mask, batch.target)
    close(spelled, plain)
    attention = {name: weights for name, (weights,) in seen.items() if name.endswith("weights")}
    assert bool(attention) == any(isinstance(part, Attention) for part in model.modules())
    for name, weights in attention.items():
        close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        if name.startswith("decoder") and "cross" not in name:
            assert (weights.triu(1) == 0).all()
        else:
            hidden = ~batch.source_mask[:, None, None, :].expand_as(weights)
            assert (weights[hidden] == 0).all()


@torch.no_grad()
def test_the_searched_score_is_the_teacher_forced_score_in_any_batch(model, batch):
    memory = model.encode(batch.source, batch.source_mask)
    limits = torch.tensor([9, 9, 5, 9])
    found = beam(model.decoder, memory, max_lengths=limits, width=3, n_best=3)
    others = [
        greedy(model.decoder, memory, max_lengths=limits),
        sample(model.decoder, memory, max_lengths=limits, seed=5),
    ]
    found = [[*hypotheses, *more] for hypotheses, *more in zip(found, *others)]
    for row, hypotheses in enumerate(found):
        one = slice(row, row + 1)
        alone = model.encode(batch.source[one], batch.source_mask[one])
        again = beam(model.decoder, alone, max_lengths=limits[one], width=3, n_best=3)[0]
        assert [h.ids for h in again] == [h.ids for h in hypotheses[:3]]
        (drawn,) = sample(model.decoder, alone, max_lengths=limits[one], seed=5)
        assert drawn.ids == hypotheses[-1].ids
        for hypothesis in hypotheses:
            wanted = torch.tensor([*hypothesis.ids, *([END] if hypothesis.finished else [])])
            fed = torch.tensor([[BEGIN, *wanted[:-1].tolist()]])
            logits = model(batch.source[one], batch.source_mask[one], fed)[0]
            forced = logits.log_softmax(-1)[torch.arange(len(wanted)), wanted].sum().item()
            assert hypothesis.log_probability == pytest.approx(forced, abs=1e-3)


def test_loss_is_the_sum_over_real_tokens_and_halves_add_up(model, batch):
    whole = model.loss(batch)
    logits = model(batch.source, batch.source_mask, batch.target[:, :-1])
    wanted = batch.target[:, 1:]
    by_hand = -logits.log_softmax(-1).gather(-1, wanted[..., None])[..., 0][batch.target_mask[:, 1:]].sum()
    close(whole.total, by_hand)
    halves = [model.loss(half) for half in batch.split()]
    close(sum(half.total for half in halves), whole.total)
    assert sum(half.units for half in halves) == whole.units == int((wanted != PAD).sum())


def test_every_parameter_learns(model, batch):
    model.zero_grad()
    model.loss(batch).total.backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not silent
