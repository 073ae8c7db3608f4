"""Layers against their formulas."""

import math
import warnings

import pytest
import torch

from regard.assemble import build_model
from regard.errors import UserError
from regard.layers import cross_entropy
from regard.layers.attend import rotate
from regard.layers.attention.dot import Dot
from regard.layers.attention.multi_head import MultiHead
from regard.layers.cross_entropy import projected_loss, token_loss
from regard.layers.embedding import TokenEmbedding
from regard.layers.feed_forward import FeedForward
from regard.layers.position.sinusoidal import Sinusoidal
from regard.layers.position.sinusoidal_halves import SinusoidalHalves
from regard.layers.relative_position.buckets import Buckets
from regard.layers.relative_position.rotary import Rotary
from regard.layers.residual import Residual, build_norm
from regard.types import PAD


def softmax(numbers):
    powers = [math.exp(x) for x in numbers]
    return [p / sum(powers) for p in powers]


def test_attention_without_parameters_by_hand():
    x = [[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]
    expected = []
    for query in x:
        weights = softmax([query[0] * key[0] + query[1] * key[1] for key in x])
        expected.append([sum(w * value[i] for w, value in zip(weights, x)) for i in (0, 1)])
    memory = torch.tensor([x])
    torch.testing.assert_close(Dot(2)(memory, memory), torch.tensor([expected]))


def test_multi_head_is_each_head_alone_then_one_projection():
    torch.manual_seed(0)
    attention = MultiHead(12, heads=3).eval()
    query, memory = torch.randn(2, 4, 12), torch.randn(2, 5, 12)
    wq, wk, wv = attention.inward.weight.chunk(3)
    heads = []
    for h in range(3):
        part = slice(4 * h, 4 * h + 4)
        q, k, v = query @ wq[part].T, memory @ wk[part].T, memory @ wv[part].T
        heads.append((q @ k.mT / 2.0).softmax(-1) @ v)
    expected = torch.cat(heads, -1) @ attention.outward.weight.T
    torch.testing.assert_close(attention(query, memory), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("width", [8, 512])
def test_sinusoids_are_the_papers(width):
    table = Sinusoidal(width)(torch.arange(40))
    for position, i in [(0, 0), (1, 0), (3, 1), (17, width // 2 - 1), (39, 2)]:
        angle = position / 10000 ** (2 * i / width)
        assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
        assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


@pytest.mark.parametrize("width", [1, 7, 10])
def test_every_sinusoid_also_where_the_last_sine_has_no_cosine(width):
    positions = [0, 1, 5, 300]
    expected = [
        [(math.cos if c % 2 else math.sin)(p / 10000 ** ((c - c % 2) / width)) for c in range(width)] for p in positions
    ]
    torch.testing.assert_close(Sinusoidal(width)(torch.tensor(positions)), torch.tensor(expected), atol=5e-5, rtol=0.0)


def test_embedding_is_the_scaled_row_plus_the_position():
    embedding = TokenEmbedding(9, 4, dropout=0.0)
    ids = torch.tensor([[5, 7]])
    expected = embedding.table.weight[[5, 7]] * 2 + Sinusoidal(4)(torch.tensor([3, 4]))
    torch.testing.assert_close(embedding(ids, torch.tensor(3))[0], expected)


@pytest.mark.parametrize(
    "name, f",
    [
        ("relu", lambda x: max(0, x)),
        ("elu", lambda x: x if x > 0 else math.expm1(x)),
        ("gelu", lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2)))),
    ],
)
def test_feed_forward_by_hand(name, f):
    layer = FeedForward(1, 2, name)
    w1, b1 = layer.inward.weight[:, 0].tolist(), layer.inward.bias.tolist()
    w2, b2 = layer.outward.weight[0].tolist(), layer.outward.bias.item()
    for x in (-1.5, 0.3, 2.0):
        expected = sum(w * f(a * x + b) for a, b, w in zip(w1, b1, w2)) + b2
        assert layer(torch.tensor([[[x]]])).item() == pytest.approx(expected, abs=1e-5)


def test_add_and_norm_in_both_orders():
    x = torch.tensor([[[1.0, 2.0, 6.0]]])
    mean, deviation = 3.0 * 2, None
    doubled = [2.0, 4.0, 12.0]  # x + f(x) with f the identity
    deviation = math.sqrt(sum((v - mean) ** 2 for v in doubled) / 3 + 1e-5)
    post = Residual(3, 0.0, "post")(x, lambda x: x)
    torch.testing.assert_close(post[0, 0], torch.tensor([(v - mean) / deviation for v in doubled]))
    normed = [(v - 3.0) / math.sqrt(14 / 3 + 1e-5) for v in (1.0, 2.0, 6.0)]
    pre = Residual(3, 0.0, "pre")(x, lambda x: x)
    torch.testing.assert_close(pre[0, 0], x[0, 0] + torch.tensor(normed))


def test_label_smoothing_by_hand():
    logits = torch.tensor([[[1.0, 2.0, 0.5, 0.0, -1.0], [0.0, 0.0, 0.0, 0.0, 9.0]]])
    log_p = [math.log(p) for p in softmax(logits[0, 0].tolist())]
    expected = -(0.9 * log_p[4] + 0.1 * sum(log_p) / 5)
    wanted = torch.tensor([[4, PAD]])
    assert token_loss(logits, wanted, 0.1).item() == pytest.approx(expected, abs=1e-5)


def test_base_has_the_papers_parameters():
    with torch.device("meta"):
        model = build_model({"preset": "base"}, 37000)
    assert sum(p.numel() for p in model.parameters()) == 63_082_496


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_made_in_parts_is_the_loss_of_all_logits_with_its_gradients(smoothing, biased, monkeypatch):
    monkeypatch.setitem(cross_entropy.ROWS, "cpu", 7)
    hidden = torch.randn(3, 11, 16, dtype=torch.double, requires_grad=True)
    weight = torch.randn(40, 16, dtype=torch.double, requires_grad=True)
    wanted = torch.randint(1, 40, (3, 11))
    wanted[0, 4:] = PAD
    bias = torch.randn(40, dtype=torch.double, requires_grad=True) if biased else None
    inputs = [hidden, weight, *([bias] if biased else [])]
    logits = torch.nn.functional.linear(hidden, weight, bias).flatten(0, 1)
    plain = torch.nn.functional.cross_entropy(
        logits, wanted.flatten(), ignore_index=PAD, label_smoothing=smoothing, reduction="sum"
    )
    in_parts = projected_loss(hidden, weight, wanted, smoothing, bias)
    torch.testing.assert_close(in_parts, plain.float(), rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(torch.autograd.grad(in_parts / 5, inputs), torch.autograd.grad(plain / 5, inputs)):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_token_that_is_excluded_by_its_bias_does_not_blow_up_a_smoothed_loss():
    torch.manual_seed(0)
    hidden, weight, bias = torch.randn(2, 5, 8), torch.randn(30, 8), torch.randn(30)
    wanted = torch.randint(4, 30, (2, 5))
    bias[2] = -1e9
    bias.requires_grad_()
    logits = hidden @ weight.T + bias
    torch.testing.assert_close(projected_loss(hidden, weight, wanted, 0.0, bias), token_loss(logits, wanted))
    smoothed = projected_loss(hidden, weight, wanted, 0.1, bias)
    lifted = hidden @ weight.T + bias.clamp(min=-100)
    torch.testing.assert_close(smoothed, token_loss(lifted, wanted, 0.1))
    assert smoothed < 100 < token_loss(logits, wanted, 0.1)
    smoothed.backward()
    assert bias.grad[2] == 0 and bias.grad.isfinite().all()


def test_the_loss_in_mixed_precision_is_near_the_exact_one():
    torch.manual_seed(0)
    hidden = torch.randn(3, 11, 16, requires_grad=True)
    weight = torch.randn(40, 16, requires_grad=True)
    wanted = torch.randint(1, 40, (3, 11))
    exact = projected_loss(hidden, weight, wanted, 0.1)
    with torch.autocast("cpu", torch.float16):
        mixed = projected_loss(hidden, weight, wanted, 0.1)
    torch.testing.assert_close(mixed, exact, rtol=1e-3, atol=0)
    for near, true in zip(torch.autograd.grad(mixed, [hidden, weight]), torch.autograd.grad(exact, [hidden, weight])):
        assert near.dtype == torch.float32
        torch.testing.assert_close(near, true, rtol=0, atol=0.02)


def test_sines_in_the_first_half_and_cosines_in_the_second():
    for inclusive, offset in ((False, 0), (True, 2)):
        found = SinusoidalHalves(10, offset, inclusive)(torch.tensor([0, 1, 7, 300]))
        for row, position in zip(found.tolist(), (0, 1, 7, 300)):
            angles = [(position + offset) * 10000 ** (-i / (4 if inclusive else 5)) for i in range(5)]
            assert row == pytest.approx([f(angle) for f in (math.sin, math.cos) for angle in angles], abs=5e-5)
    with pytest.raises(UserError, match="sinusoidal_halves needs an even width, not 7"):
        SinusoidalHalves(7)


@pytest.mark.parametrize("causal", [True, False])
def test_relative_positions_look_up_the_bucket_of_each_distance(causal):
    """8 buckets per direction: distances 0 to 3, then 4 that grow with the logarithm, to 16 and beyond."""
    made = Buckets(3, causal, 8 if causal else 16, 16)

    def bucket(offset):
        away = max(0, -offset) if causal else abs(offset)
        later = 8 if offset > 0 and not causal else 0
        if away < 4:
            return later + away
        return later + next((n for n, least in ((7, 4 * 2 * 2**0.5), (6, 8), (5, 4 * 2**0.5)) if away >= least), 4)

    queries, keys = torch.tensor([5, 0, 30]), torch.arange(40)
    expected = [
        [[made.table.weight[bucket(j - i), head].item() for j in range(40)] for i in (5, 0, 30)] for head in range(3)
    ]
    torch.testing.assert_close(made(queries, keys), torch.tensor(expected))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"buckets": 7}, "model.relative_position.buckets: wants an even number of at least 4, given 7"),
        ({"buckets": 2}, "at least 4, given 2"),
        ({"distance": 8}, "model.relative_position.distance: 8 is within the buckets that hold one distance each"),
    ],
)
def test_buckets_that_cannot_hold_their_distances_are_refused(given, message):
    with pytest.raises(UserError, match=message):
        Buckets(2, **given)


def test_relative_positions_are_added_to_the_scores_of_multi_head_attention_alone():
    with pytest.raises(UserError, match="model.decoder.relative_position: Additive adds nothing to its scores"):
        build_model({"decoder": {"attention": "additive", "relative_position": "buckets"}}, 9)


def test_an_rms_norm_by_hand():
    x = [1.0, -2.0, 6.0]
    norm = build_norm(3, "rms", 0.5)
    torch.nn.init.constant_(norm.weight, 3.0)
    size = math.sqrt(sum(v * v for v in x) / 3 + 0.5)
    torch.testing.assert_close(norm(torch.tensor(x)), torch.tensor([3 * v / size for v in x]))
    assert [name for name, _ in norm.named_parameters()] == ["weight"]
    with torch.autocast("cpu", torch.bfloat16), warnings.catch_warnings():
        warnings.simplefilter("error")
        half = torch.tensor(x, dtype=torch.bfloat16)
        torch.testing.assert_close(norm(half), norm(half.float()))


@pytest.mark.parametrize("bias", [True, False])
def test_a_gated_feed_forward_by_hand(bias):
    layer = FeedForward(1, 2, "silu", gated=True, bias=bias)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    assert len(list(layer.parameters())) == (6 if bias else 3)
    weights = {
        name: (part.weight.flatten().tolist(), part.bias.tolist() if bias else [0.0] * len(part.weight))
        for name, part in layer.named_children()
        if isinstance(part, torch.nn.Linear)
    }
    (w1, b1), (g, bg), (w2, b2) = (weights[name] for name in ("inward", "gate", "outward"))
    for x in (-1.5, 0.3, 2.0):
        gates = [(v := a * x + b) / (1 + math.exp(-v)) for a, b in zip(g, bg)]
        expected = sum(w * gate * (a * x + b) for w, gate, a, b in zip(w2, gates, w1, b1)) + b2[0]
        assert layer(torch.tensor([[[x]]])).item() == pytest.approx(expected, abs=1e-5)


def test_heads_may_be_wider_or_narrower_than_their_share():
    attention = MultiHead(6, heads=2, head_width=5, bias=False).eval()
    assert [tuple(p.shape) for p in attention.parameters()] == [(30, 6), (6, 10)]
    x = torch.randn(1, 4, 6)
    q, k, v = (x[0] @ w.T for w in attention.inward.weight.chunk(3))
    heads = [(q[:, own] @ k[:, own].T / math.sqrt(5)).softmax(-1) @ v[:, own] for own in (slice(0, 5), slice(5, 10))]
    expected = torch.cat(heads, -1) @ attention.outward.weight.T
    torch.testing.assert_close(attention.self_attend(x)[0], expected, atol=1e-5, rtol=1e-4)


def test_source_and_target_may_have_vocabularies_of_their_own():
    model = build_model({"width": 16, "share": False}, 9, source_vocabulary=12)
    assert model.stem.embedding.table.num_embeddings == 12 and model.decoder.embedding.table.num_embeddings == 9
    with pytest.raises(UserError, match="model.share: source and target have vocabularies of their own"):
        build_model({"width": 16}, 9, source_vocabulary=12)


def test_rotary_positions_are_a_product_of_complex_numbers():
    """Su et al. 2021, equation 14, with column i + K/2 as the imaginary part of column i."""
    heads, places = torch.randn(2, 5, 3, 8, dtype=torch.double), torch.tensor([0, 1, 7, 30, 1000])
    rotary = Rotary(8, base=100.0)
    turns = torch.polar(torch.ones(5, 4).double(), places[:, None] * rotary.rates().double())[:, None]
    wanted = torch.complex(*heads.chunk(2, -1)) * turns
    found = rotate(heads, rotary.rotation(places))
    torch.testing.assert_close(found, torch.cat([wanted.real, wanted.imag], -1), atol=2e-4, rtol=0)
    torch.testing.assert_close(found.norm(dim=-1), heads.norm(dim=-1), atol=1e-5, rtol=1e-5)


def test_rotations_are_slowed_where_a_text_of_the_original_length_has_few_turns():
    plain = Rotary(8, base=100.0).rates()
    torch.testing.assert_close(Rotary(8, base=100.0, factor=4.0).rates(), plain / 4)
    turns = 50 * plain / (2 * math.pi)  # 8, 2.5, 0.8 and 0.25 of them
    slowed = Rotary(8, base=100.0, factor=4.0, original=50, low=1.0, high=4.0).rates()
    assert slowed[0] == plain[0]
    torch.testing.assert_close(slowed[2:], plain[2:] / 4)
    share = (turns[1] - 1) / 3
    torch.testing.assert_close(slowed[1], share * plain[1] + (1 - share) * plain[1] / 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head_width": 7}, "rotary needs heads of an even width, not 7"),
        ({"head_width": 8, "original": 9, "low": 4.0}, "high: 4 is not above low = 4"),
    ],
)
def test_rotary_positions_refuse_what_makes_no_sense(options, message):
    with pytest.raises(UserError, match=message):
        Rotary(**options)


def test_heads_that_share_keys_and_values_equal_heads_with_copies_of_them():
    shared, own = MultiHead(12, heads=6, kv_heads=2).eval(), MultiHead(12, heads=6).eval()
    copies = [part.unflatten(0, (-1, 2)) for part in shared.inward.weight.split(shared.sizes)]
    copies[1:] = [part.repeat_interleave(3, 0) for part in copies[1:]]
    with torch.no_grad():
        own.inward.weight.copy_(torch.cat(copies).flatten(0, 1))
    own.outward.load_state_dict(shared.outward.state_dict())
    x, memory = torch.randn(3, 5, 12), torch.randn(3, 7, 12)
    rotation = Rotary(2).rotation(torch.arange(5))
    for call in (
        lambda attention: attention.self_attend(x, causal=True, rotation=rotation),
        lambda attention: attention.self_attend(x),
        lambda attention: attention(x, memory),
    ):
        torch.testing.assert_close(call(shared), call(own))
    with pytest.raises(UserError, match="6 heads cannot share 4 kv_heads"):
        MultiHead(12, heads=6, kv_heads=4)
