"""Additive, multiplicative and local attention, the bridge and both decoder orders, against numbers by hand."""

import math

import pytest
import torch

from regard.assemble import build_model, resolve_model
from regard.config import read_recipe
from regard.decoder.attentional import AttentionalDecoder
from regard.errors import UserError
from regard.layers.attention.additive import Additive
from regard.layers.attention.local import Local
from regard.layers.attention.multiplicative import Multiplicative
from regard.layers.capture import capture
from regard.types import Memory

MEMORY = [[1.0, 0.0], [0.5, -1.0], [2.0, 1.0]]
QUERY = [0.3, -0.7]


def softmax(numbers):
    powers = [math.exp(x) for x in numbers]
    return [p / sum(powers) for p in powers]


def times(matrix, vector):
    return [sum(m * v for m, v in zip(row, vector)) for row in matrix]


def check(attention, scores):
    """The attention weighs MEMORY by the softmax of the scores, and mixes it accordingly."""
    weights = softmax(scores)
    mixed = [sum(w * h[i] for w, h in zip(weights, MEMORY)) for i in (0, 1)]
    with torch.no_grad(), capture(attention) as seen:
        found = attention(torch.tensor([[QUERY]]), torch.tensor([MEMORY]))
    torch.testing.assert_close(seen["weights"][0][0, 0, 0], torch.tensor(weights))
    torch.testing.assert_close(found[0, 0], torch.tensor(mixed))


def fill(parameter, rows):
    with torch.no_grad():
        parameter.copy_(torch.tensor(rows))


def test_additive_by_hand():
    attention = Additive(2, size=3)
    w1, w2, v = [[1.0, 2.0], [0.0, -1.0], [0.5, 0.5]], [[0.2, 0.4], [1.0, 0.0], [-1.0, 1.0]], [1.0, -2.0, 0.5]
    fill(attention.query.weight, w1), fill(attention.key.weight, w2), fill(attention.score.weight, [v])
    scores = [sum(c * math.tanh(a + b) for a, b, c in zip(times(w1, QUERY), times(w2, h), v)) for h in MEMORY]
    check(attention, scores)


def test_multiplicative_dot_by_hand():
    check(Multiplicative(2, score="dot"), times(MEMORY, QUERY))


def test_multiplicative_general_by_hand():
    attention = Multiplicative(2, score="general")
    w = [[0.5, -1.0], [2.0, 1.5]]
    fill(attention.key.weight, w)
    check(attention, [sum(q * x for q, x in zip(QUERY, times(w, h))) for h in MEMORY])


def test_multiplicative_concat_by_hand():
    attention = Multiplicative(2, score="concat")
    left, right, v = [[1.0, 0.0], [0.5, 2.0]], [[0.0, 1.0], [-1.0, 0.5]], [2.0, -1.0]
    fill(attention.query.weight, left), fill(attention.key.weight, right), fill(attention.vector.weight, [v])
    scores = [sum(c * math.tanh(a + b) for a, b, c in zip(times(left, QUERY), times(right, h), v)) for h in MEMORY]
    check(attention, scores)


def test_local_predictive_by_hand():
    attention = Local(2, score="dot", window=1)
    w, v = [[1.0, -1.0], [0.0, 2.0]], [1.2, 0.5]
    fill(attention.place[0].weight, w), fill(attention.place[2].weight, [v])
    centre = 3 / (1 + math.exp(-sum(c * math.tanh(a) for a, c in zip(times(w, QUERY), v))))
    assert 1 < centre < 2  # so that place 0 is out of the window and 1 and 2 are in it
    scores = [score - (s - centre) ** 2 / (2 * 0.5**2) for s, score in enumerate(times(MEMORY, QUERY))]
    check(attention, [-math.inf, *scores[1:]])


def test_local_predictive_goes_by_the_sentences_own_length():
    attention = Local(2, score="dot", window=1)
    mask = torch.tensor([[[True] * 3], [[True, True, False]]])
    memory = torch.tensor([MEMORY, MEMORY])
    query = torch.tensor([[QUERY], [QUERY]])
    with torch.no_grad():
        fill(attention.place[2].weight, [[50.0, 50.0]]), fill(attention.place[0].weight, [[0.0, -9.0], [0.0, -9.0]])
        with capture(attention) as seen:  # a place at the very end: 3 for the one, 2 for the other
            attention(query, memory, mask)
    weights = seen["weights"][0][:, 0, 0]
    assert weights[0].tolist() == [0.0, 0.0, 1.0]
    assert weights[1].tolist() == [0.0, 1.0, 0.0]


def test_local_monotonic_looks_where_it_writes_and_stays_at_the_end():
    attention = Local(2, score="dot", window=1, alignment="monotonic")
    query = torch.randn(1, 6, 2)
    with torch.no_grad(), capture(attention) as seen:
        attention(query, torch.randn(1, 4, 2))
    looked = [row.nonzero()[:, 0].tolist() for row in seen["weights"][0][0, 0]]
    assert looked == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3], [2, 3], [2, 3]]


def memory_of(count: int = 3, width: int = 6) -> Memory:
    torch.manual_seed(2)
    return Memory(torch.randn(2, count, width), torch.ones(2, count, dtype=torch.bool), [(torch.randn(2, width),)])


def test_bahdanau_looks_with_the_state_before_and_moves_with_what_it_saw():
    """Bahdanau et al. (2015) spelled out for two words: e from s_{i-1}, c_i, s_i = GRU(s_{i-1}, [y_{i-1}; c_i]), maxout(s_i, y_{i-1}, c_i)."""
    torch.manual_seed(0)
    decoder = AttentionalDecoder(11, memory_width=6, width=4, embedding=5, dropout=0.0)
    memory, ids = memory_of(), torch.tensor([[4, 7], [5, 9]])
    with torch.no_grad():
        found, _ = decoder.advance(ids, decoder.start(memory, 1, 0))
        s = torch.tanh(decoder.bridge.maps[0](memory.final[0][0]))
        cell, look = decoder.recurrence.cells[0], decoder.cross_attention
        for i in (0, 1):
            y = decoder.embedding(ids)[:, i]
            e = torch.stack(
                [look.score(torch.tanh(look.query(s) + look.key(h)))[:, 0] for h in memory.states.unbind(1)], 1
            )
            c = (e.softmax(1)[..., None] * memory.states).sum(1)
            (s,), _ = cell.step(cell.project(torch.cat([y, c], -1)), (s,))
            t = decoder.readout(torch.cat([s, c, y], -1))
            torch.testing.assert_close(found[:, i], torch.maximum(t[:, ::2], t[:, 1::2]))


@pytest.mark.parametrize("feed", [True, False])
def test_luong_moves_then_looks_and_feeds_what_it_said(feed):
    """Luong et al. (2015) spelled out: h_t = LSTM(h_{t-1}, [y; a_{t-1}]), c_t from h_t, a_t = tanh(W_c [h_t; c_t])."""
    torch.manual_seed(0)
    decoder = AttentionalDecoder(
        11, width=6, cell="lstm", order="after", feed=feed, attention="multiplicative", dropout=0.0
    )
    memory, ids = memory_of(), torch.tensor([[4, 7, 3], [5, 9, 8]])
    with torch.no_grad():
        found, _ = decoder.advance(ids, decoder.start(memory, 1, 0))
        state = torch.tanh(decoder.bridge.maps[0](memory.final[0][0])).chunk(2, -1)
        cell, a = decoder.recurrence.cells[0], torch.zeros(2, 6)
        for t in range(3):
            y = decoder.embedding(ids)[:, t]
            state, _ = cell.step(cell.project(torch.cat([y, a], -1) if feed else y), state)
            score = torch.einsum("bd,bsd->bs", state[0], decoder.cross_attention.key(memory.states))
            c = torch.einsum("bs,bsd->bd", score.softmax(-1), memory.states)
            a = torch.tanh(decoder.readout(torch.cat([state[0], c], -1)))
            torch.testing.assert_close(found[:, t], a)


def test_without_attention_only_the_last_state_matters():
    """Without attention, the decoder sees the encoder's last state only."""
    torch.manual_seed(0)
    model = build_model({"width": 8, "layers": 2, "encoder": "recurrent", "decoder": "recurrent"}, 20).eval()
    source, target = torch.randint(4, 20, (2, 5)), torch.randint(4, 20, (2, 4))
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    changed = Memory(torch.randn_like(memory.states), memory.mask, memory.final)
    other_end = Memory(memory.states, memory.mask, [tuple(part + 1 for part in layer) for layer in memory.final])

    def said(memory):
        return model.decoder.step(target, model.decoder.start(memory, 1, 0))[0]

    assert torch.equal(said(memory), said(changed))
    assert not torch.allclose(said(memory), said(other_end), atol=1e-3)


def test_the_bridge_copies_what_fits_and_refuses_what_does_not():
    tree = {"width": 8, "layers": 2, "encoder": "recurrent", "decoder": {"kind": "recurrent", "bridge": "copy"}}
    torch.manual_seed(0)
    model = build_model(tree, 20)
    source = torch.randint(4, 20, (2, 5))
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    carried = model.decoder.start(memory, 2, 0).carry
    for layer, copied in zip(memory.final, carried):
        for part, rows in zip(layer, copied):
            assert torch.equal(rows, part.repeat_interleave(2, 0))
    for wrong in ({"encoder": "transformer", "heads": 2}, {"encoder": {"kind": "recurrent", "cell": "gru"}}):
        with pytest.raises(UserError, match='"copy" needs'):
            resolve_model({**tree, **wrong})


@pytest.mark.parametrize(
    "tree, message",
    [
        ({"decoder": {"kind": "attentional", "attention": "additiv"}}, "did you mean 'additive'"),
        ({"decoder": {"kind": "attentional", "attention": {"kind": "multiplicative", "score": "dots"}}}, "no 'dots'; use dot, general or concat"),
        ({"decoder": {"kind": "attentional", "attention": {"kind": "local", "windw": 3}}}, "did you mean 'window'"),
        ({"decoder": {"kind": "attentional", "order": "during"}}, "use before or after"),
        ({"decoder": {"kind": "recurrent", "embedding": 32, "width": 16}}, "tie = false"),
        ({"decoder": {"kind": "recurrent", "cell": "lstn"}}, "did you mean 'lstm'"),
        ({"encoder": {"kind": "recurrent", "direction": "up"}}, "use forward, backward or both"),
        ({"encoder": {"kind": "recurrent", "width": 64}}, "make the widths equal"),
        ({"stem": {"width": 64}}, "make the widths equal"),
        ({"encoder": {"kind": "recurrent", "width": 64}, "decoder": {"kind": "attentional", "attention": "dot"}}, "dot needs a memory"),
        ({"encoder": {"kind": "recurrent", "inputs": 64}}, "no key 'inputs'"),
    ],
)  # fmt: skip
def test_mistakes_are_named(tree, message):
    with pytest.raises(UserError, match=message):
        build_model({"preset": "tiny", **tree}, 50)


def test_recurrent_encoders_get_no_positions_unless_told():
    assert resolve_model({"encoder": "recurrent"})["stem"]["position"] == "none"
    assert resolve_model({"encoder": "recurrent", "position": "learned"})["stem"]["position"] == "learned"
    assert resolve_model({})["stem"]["position"] == "sinusoidal"


# The recipes.


def parameters(name: str, vocabulary: int) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in build_model(read_recipe(name).model, vocabulary).parameters())


def test_the_papers_sizes_are_in_the_recipes():
    gates = {"lstm": 4, "gru": 3}

    def cell(kind: str, inputs: int, units: int) -> int:
        return gates[kind] * (units + units**2 + units * inputs)

    words, output = 30000 * 1000 * 2, 30000 * 1000
    stack = 8 * cell("lstm", 1000, 1000)
    assert parameters("seq2seq-lstm", 30000) == words + output + stack
    fed = stack - cell("lstm", 1000, 1000) + cell("lstm", 2000, 1000)
    luong = words + output + fed + 1000 * 2000 + 1000 * 1000  # W_c and the general score's W
    assert parameters("luong", 30000) == luong
    assert parameters("luong-local", 30000) == luong + 1000 * 1000 + 1000
    encoder = 2 * cell("gru", 620, 1000)
    decoder = cell("gru", 620 + 2000, 1000) + (1000 * 1000 + 2000 * 1000 + 1000)  # and W_1, W_2, v
    ends = (2000 * 1000 + 1000) + (1000 + 2000 + 620) * 1240 + 1240  # the bridge, the maxout
    assert parameters("bahdanau", 30000) == 3 * 30000 * 620 + encoder + decoder + ends


def test_the_five_that_are_compared_are_of_one_size():
    sizes = [parameters(f"road-{name}", 8000) for name in ("none", "bahdanau", "luong", "local", "transformer")]
    assert max(sizes) < 1.1 * min(sizes)
