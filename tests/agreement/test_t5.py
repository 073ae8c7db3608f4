"""T5 with the same weights as in transformers: equal buckets, logits, gradients, cached steps and texts."""

import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5Attention

from regard.assemble import build_model
from regard.decoding.beam import beam
from regard.decoding.greedy import greedy
from regard.layers.capture import capture
from regard.layers.relative_position.buckets import Buckets
from regard.types import BEGIN, END, PAD, Batch

VOCABULARY, WIDTH, HEADS, HEAD_WIDTH, LAYERS, INNER = 40, 24, 4, 5, 2, 32
BUCKETS = {"kind": "buckets", "buckets": 8, "distance": 10}
FORMS = {"1.0": ("relu", True), "1.1": ("gated-gelu", False), "gated silu, tied": ("gated-silu", True)}
"""The feed-forward network, and whether the output is tied to the embedding."""
ACTIVATIONS = {"relu": "relu", "gated-gelu": "gelu_tanh", "gated-silu": "silu"}


@pytest.fixture(scope="module", params=FORMS)
def pair(request):
    torch.manual_seed(1)
    feed_forward, tie = FORMS[request.param]
    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        d_kv=HEAD_WIDTH,
        d_ff=INNER,
        num_layers=LAYERS,
        num_heads=HEADS,
        relative_attention_num_buckets=BUCKETS["buckets"],
        relative_attention_max_distance=BUCKETS["distance"],
        dropout_rate=0.0,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=BEGIN,
        feed_forward_proj=feed_forward,
        tie_word_embeddings=tie,
    )
    theirs = T5ForConditionalGeneration(config).eval()
    if not tie:  # their constructor ties always; a checkpoint with two tables is not tied
        theirs.lm_head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)
    for name, parameter in theirs.named_parameters():
        torch.nn.init.normal_(parameter, 1.0 if "norm" in name else 0.0, 0.3)
    tree = {
        "width": WIDTH,
        "heads": HEADS,
        "head_width": HEAD_WIDTH,
        "layers": LAYERS,
        "feed_forward": INNER,
        "dropout": 0.0,
        "norm": "pre",
        "norm_kind": "rms",
        "norm_epsilon": config.layer_norm_epsilon,
        "bias": False,
        "gated": "gated" in feed_forward,
        "activation": ACTIVATIONS[feed_forward],
        "position": "none",
        "relative_position": BUCKETS,
        "scale": False,
        "tie": tie,
    }
    ours = build_model(tree, VOCABULARY)
    weights = renamed(dict(theirs.named_parameters()), ours.state_dict().keys())
    ours.load_state_dict(weights)
    return ours.eval(), theirs


def renamed(theirs, names):
    """Their parameters under our names. Their scores are not scaled, so the queries are multiplied by what ours divide
    them by; a tied output is scaled in the norm before it."""
    used = {"shared.weight"}

    def of(name):
        used.add(name)
        return theirs[name].detach()

    def attention(ours, path):
        q, k, v = (of(f"{path}.{one}.weight") for one in "qkv")
        found[f"{ours}.inward.weight"] = torch.cat([q * HEAD_WIDTH**0.5, k, v])
        found[f"{ours}.outward.weight"] = of(f"{path}.o.weight")

    found = {"stem.embedding.table.weight": theirs["shared.weight"].detach()}
    found["decoder.embedding.table.weight"] = found["stem.embedding.table.weight"]
    for stack in ("encoder", "decoder"):
        scale = WIDTH**-0.5 if stack == "decoder" and "lm_head.weight" not in theirs else 1.0
        found[f"{stack}.norm.weight"] = of(f"{stack}.final_layer_norm.weight") * scale
        found[f"{stack}.relative_position.table.weight"] = of(
            f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        )
        for number in range(LAYERS):
            here, there = f"{stack}.layers.{number}", f"{stack}.block.{number}.layer"
            attention(f"{here}.attention", f"{there}.0.SelfAttention")
            sublayers = ["attention", "feed_forward"]
            if stack == "decoder":
                attention(f"{here}.cross_attention", f"{there}.1.EncDecAttention")
                sublayers.insert(1, "cross_attention")
            for index, name in enumerate(sublayers):
                found[f"{here}.around_{name}.norm.weight"] = of(f"{there}.{index}.layer_norm.weight")
            gated = "decoder.layers.0.feed_forward.gate.weight" in names
            projections = {"inward": "wi_1", "gate": "wi_0"} if gated else {"inward": "wi"}
            for ours, other in {**projections, "outward": "wo"}.items():
                found[f"{here}.feed_forward.{ours}.weight"] = of(
                    f"{there}.{len(sublayers) - 1}.DenseReluDense.{other}.weight"
                )
    if "lm_head.weight" in theirs:
        found["decoder.output.weight"] = of("lm_head.weight")
    assert used == set(theirs) and found.keys() == set(names)
    return found


@pytest.fixture(scope="module")
def batch():
    torch.manual_seed(2)
    source, target = torch.randint(4, VOCABULARY, (4, 13)), torch.randint(4, VOCABULARY, (4, 14))
    source[2, 5:] = PAD
    target[:, 0] = BEGIN
    target[3, 6:] = PAD
    mask = (target != PAD) & (target != BEGIN)
    return Batch(source, source != PAD, target, mask, int(mask.sum()))


def close(found, expected):
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (8, 10), (6, 4), (64, 300)])
def test_every_distance_is_in_their_bucket(causal, buckets, distance):
    offset = torch.arange(-1000, 1001)[None]
    theirs = T5Attention._relative_position_bucket(offset, not causal, buckets, distance)
    assert Buckets(1, causal, buckets, distance).bucket(offset).equal(theirs)


def test_logits_agree(pair, batch):
    ours, theirs = pair
    with torch.no_grad():
        wanted = theirs(
            input_ids=batch.source, attention_mask=batch.source_mask.long(), decoder_input_ids=batch.target
        ).logits
        logits = ours(batch.source, batch.source_mask, batch.target)
        with capture(ours):
            spelled = ours(batch.source, batch.source_mask, batch.target)
        state = ours.decoder.start(ours.encode(batch.source, batch.source_mask), beams=1, capacity=14)
        steps = []
        for ids in batch.target.split([1, 1, 4, 1, 7], 1):  # some tokens one by one, some at once
            one, state = ours.decoder.step(ids, state)
            steps.append(one)
    assert logits.std() > 0.1
    real = batch.target != PAD
    for found in (logits, spelled, torch.cat(steps, 1)):
        close(found[real], wanted[real])


def test_the_loss_and_the_gradients_of_the_tables_agree(pair, batch):
    ours, theirs = pair
    loss = ours.loss(batch)
    (loss.total / loss.units).backward()
    labels = batch.target[:, 1:].masked_fill(~batch.target_mask[:, 1:], -100)
    output = theirs(
        input_ids=batch.source,
        attention_mask=batch.source_mask.long(),
        decoder_input_ids=batch.target[:, :-1],
        labels=labels,
    )
    output.loss.backward()
    close(loss.total / loss.units, output.loss)
    for stack in ("encoder", "decoder"):
        table = getattr(theirs, stack).block[0].layer[0].SelfAttention.relative_attention_bias.weight
        close(getattr(ours, stack).relative_position.table.weight.grad, table.grad)
    close(ours.stem.embedding.table.weight.grad, theirs.shared.weight.grad)


@torch.no_grad()
def test_texts_agree(pair, batch):
    ours, theirs = pair
    given = {"input_ids": batch.source, "attention_mask": batch.source_mask.long()}
    memory, limits = ours.encode(batch.source, batch.source_mask), torch.full((4,), 12)
    lines = theirs.generate(**given, max_new_tokens=12, num_beams=1, do_sample=False)[:, 1:].tolist()
    assert [one.ids for one in greedy(ours.decoder, memory, max_lengths=limits)] == [
        (row[: row.index(END)] if END in row else row) for row in lines
    ]
    # The beams of a sentence share one cache: what they write has the probability that their library gives it alone.
    found = beam(ours.decoder, memory, max_lengths=limits, width=4, n_best=4)
    for row, hypotheses in enumerate(found):
        for one in hypotheses:
            ids = torch.tensor([[*one.ids, *([END] if one.finished else [])]])
            logits = theirs(
                input_ids=batch.source[row : row + 1],
                attention_mask=batch.source_mask[row : row + 1].long(),
                decoder_input_ids=torch.cat([torch.tensor([[BEGIN]]), ids[:, :-1]], 1),
            ).logits
            total = logits.log_softmax(-1).gather(-1, ids[..., None]).sum()
            assert one.log_probability == pytest.approx(float(total), abs=1e-3)
