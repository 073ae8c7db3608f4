"""The laws of language models. Every kind of decoder that works without a memory is held to them."""

import pytest
import torch

from regard import registry
from regard.assemble import build_model
from regard.decoder.independent_keys import BAR
from regard.decoding.greedy import greedy
from regard.decoding.sampling import sample
from regard.decoding.stream import stream
from regard.errors import UserError
from regard.states import empty_memory
from regard.types import BEGIN, END, PAD, Batch

VOCABULARY, CAPACITY = 23, 8
SIZES = {"width": 16, "heads": 4, "feed_forward": 32, "layers": 2, "dropout": 0.1}
VARIANTS: dict[str, list[dict]] = {
    "transformer": [
        {"norm": "post"},
        {"norm": "pre", "position": "learned", "activation": "gelu_tanh", "scale": False},
        {"norm": "pre", "tie": False},
        {
            "norm": "pre",
            "norm_kind": "rms",
            "gated": True,
            "bias": False,
            "head_width": 6,
            "relative_position": {"kind": "buckets", "buckets": 6, "distance": 5},
            "embedding_norm": True,
            "output_bias": True,
            "position": "none",
        },
        {
            "norm": "pre",
            "norm_kind": "rms",
            "gated": True,
            "bias": False,
            "activation": "silu",
            "relative_position": "rotary",
            "attention": {"kind": "multi_head", "kv_heads": 2},
            "position": "none",
        },
    ],
    "universal": [{"norm": "pre"}, {"norm": "post", "halting": False}],
    "ssru": [{"norm": "pre"}, {"norm": "post", "position": "none"}],
    "independent_keys": [{"cell": "lstm"}, {"cell": "rnn"}],
    "recurrent": [{"cell": "lstm"}, {"cell": "gru", "tie": False, "embedding": 12}, {"cell": "rnn"}],
}


def decoders() -> list[dict]:
    """Every kind that does not refuse to be without a memory."""
    found = []
    for kind in registry.kinds("decoder"):
        known = registry.keywords(registry.factory("decoder", kind))
        sizes = {name: size for name, size in SIZES.items() if name in known}
        try:
            registry.build("decoder", {"kind": kind, **sizes}, vocabulary=VOCABULARY, memory_width=None)
        except UserError as error:
            assert "needs a source" in str(error)
            continue
        found += [{"kind": kind, **sizes, **variant} for variant in VARIANTS.get(kind, [{}])]
    return found


def test_some_kinds_can_do_without_a_memory():
    assert {"transformer", "recurrent", "universal"} <= {decoder["kind"] for decoder in decoders()}


def title(decoder: dict) -> str:
    return "-".join(str(value) for name, value in decoder.items() if name not in SIZES)


@pytest.fixture(scope="module", params=decoders(), ids=title)
def model(request):
    torch.manual_seed(0)
    made = build_model({"kind": "language_model", "decoder": request.param}, VOCABULARY).eval()
    for parameter in made.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return made


@pytest.fixture(scope="module")
def batch() -> Batch:
    torch.manual_seed(3)
    target = torch.randint(4, VOCABULARY, (4, 7))
    target[:, 0] = BEGIN
    target[0, 2:4] = BAR  # of independent keys the past is the finished steps, and a random text may have none
    target[1, 4], target[1, 5:] = END, PAD
    target[3, 2:] = PAD
    mask = (target != PAD) & (target != BEGIN)
    empty = torch.zeros(4, 0, dtype=torch.long)
    return Batch(empty, empty.bool(), target, mask, int(mask.sum()))


def close(a, b):
    torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)


def test_nothing_is_there_to_look_at(model):
    assert not any("cross_attention" in name or "bridge" in name for name, _ in model.named_parameters())


@torch.no_grad()
def test_a_cached_step_equals_the_full_forward_at_every_position(model, batch):
    full = model(batch.target)
    for chunks in ([1] * 7, [4, 3], [2, 1, 4], [7]):
        state = model.decoder.start(empty_memory(4), beams=1, capacity=CAPACITY)
        at, parts = 0, []
        for size in chunks:
            logits, state = model.decoder.step(batch.target[:, at : at + size], state)
            parts.append(logits)
            at += size
        close(torch.cat(parts, 1), full)


@torch.no_grad()
def test_the_future_cannot_matter(model, batch):
    changed = batch.target.clone()
    changed[:, 3:] = (changed[:, 3:] + 5) % (VOCABULARY - 4) + 4
    before, after = model(batch.target), model(changed)
    close(before[:, :3], after[:, :3])
    assert not torch.allclose(before[:, 3:], after[:, 3:], atol=1e-3)


@torch.no_grad()
def test_the_past_matters(model, batch):
    changed = batch.target.clone()
    changed[:, 1] = (changed[:, 1] - 3) % (VOCABULARY - 4) + 4
    assert not torch.allclose(model(batch.target)[:, 2:4], model(changed)[:, 2:4], atol=1e-3)


@torch.no_grad()
def test_rows_and_padding_do_not_matter_to_each_other(model, batch):
    full = model(batch.target)
    for row, real in enumerate((batch.target != PAD).sum(1).tolist()):
        close(full[row : row + 1, :real], model(batch.target[row : row + 1, :real]))


def test_loss_is_the_sum_over_what_is_wanted_and_halves_add_up(model, batch):
    whole = model.loss(batch)
    wanted = batch.target[:, 1:]
    log_p = model(batch.target[:, :-1]).log_softmax(-1).gather(-1, wanted[..., None])[..., 0]
    close(whole.total, -log_p[batch.target_mask[:, 1:]].sum())
    halves = [model.loss(half) for half in batch.split()]
    close(sum(half.total for half in halves), whole.total)
    assert sum(half.units for half in halves) == whole.units == int((wanted != PAD).sum())


def test_thinking_costs_in_training_only(model, batch):
    pondering = any("halting" in name for name, _ in model.named_parameters())
    model.training = True  # itself alone: its parts drop nothing out
    costly = model.loss(batch).total
    model.training = False
    assert (costly > model.loss(batch).total + 1e-3) == pondering


def test_every_parameter_learns(model, batch):
    model.zero_grad()
    model.loss(batch).total.backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not silent


@torch.no_grad()
def test_what_is_written_has_the_probability_that_the_model_gives_it(model):
    limits = torch.full((3,), CAPACITY)
    for found in (
        greedy(model.decoder, empty_memory(3), max_lengths=limits),
        sample(model.decoder, empty_memory(3), max_lengths=limits, seed=[1, 2, 3]),
    ):
        for hypothesis in found:
            wanted = torch.tensor([*hypothesis.ids, *([END] if hypothesis.finished else [])])
            logits = model(torch.tensor([[BEGIN, *wanted[:-1].tolist()]]))[0]
            forced = logits.log_softmax(-1)[torch.arange(len(wanted)), wanted].sum().item()
            assert hypothesis.log_probability == pytest.approx(forced, abs=1e-3)


@torch.no_grad()
def test_a_stream_is_a_sample_and_goes_beyond_it(model):
    for seed in range(4):
        (wanted,) = sample(model.decoder, empty_memory(1), max_lengths=torch.tensor([CAPACITY]), seed=seed)
        drawn = list(stream(model.decoder, window=CAPACITY, length=CAPACITY, seed=seed))
        assert [d.id for d in drawn if d.id != END] == wanted.ids
        assert sum(d.log_probability for d in drawn) == pytest.approx(wanted.log_probability, abs=1e-3)
    longest = max((list(stream(model.decoder, window=CAPACITY, length=30, seed=seed)) for seed in range(8)), key=len)
    assert len(longest) > CAPACITY
