"""BART, mBART, M2M-100 and Marian with the same weights as in transformers: equal logits, cached steps and texts.

Their positions, norms, output biases and vocabularies differ; test_marian.py checks the gradients of what they share.
"""

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
)

from regard.assemble import build_model
from regard.decoding.greedy import greedy
from regard.types import BEGIN, END, PAD, Batch

VOCABULARY, WIDTH, HEADS, LAYERS, INNER, POSITIONS = 40, 16, 4, 2, 24, 20
LEARNED = {"kind": "learned", "length": POSITIONS}
EMBEDDED = {"scale": False, "position": LEARNED, "stem": {"embedding_norm": True}, "decoder": {"embedding_norm": True}}
# The first position of M2M-100 is the row after that of the padding, whose id is 1 in its own vocabulary.
M2M = {"norm": "pre", "scale": True, "position": {"kind": "sinusoidal_halves", "offset": PAD + 1, "inclusive": True}}
MARIAN = {"norm": "post", "scale": True, "position": "sinusoidal_halves"}
FAMILIES = {
    "bart": (BartConfig, BartForConditionalGeneration, {}, {"norm": "post", **EMBEDDED}),
    "mbart": (MBartConfig, MBartForConditionalGeneration, {}, {"norm": "pre", **EMBEDDED}),
    "m2m_100": (M2M100Config, M2M100ForConditionalGeneration, {"scale_embedding": True}, M2M),
    "marian": (MarianConfig, MarianMTModel, {"scale_embedding": True}, MARIAN),
    "marian, two vocabularies": (
        MarianConfig,
        MarianMTModel,
        {"scale_embedding": True, "share_encoder_decoder_embeddings": False, "decoder_vocab_size": VOCABULARY - 7},
        {**MARIAN, "share": False},
    ),
}
PROJECTIONS = {"attention": "self_attn", "cross_attention": "encoder_attn"}
NORMS = {
    "attention": "self_attn_layer_norm",
    "cross_attention": "encoder_attn_layer_norm",
    "feed_forward": "final_layer_norm",
}


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request):
    torch.manual_seed(1)
    make_config, make_model, more, tree = FAMILIES[request.param]
    config = make_config(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=INNER,
        decoder_ffn_dim=INNER,
        activation_function="swish" if "marian" in request.param else "gelu",
        dropout=0.0,
        max_position_embeddings=POSITIONS,
        pad_token_id=PAD,
        bos_token_id=BEGIN,
        eos_token_id=END,
        decoder_start_token_id=BEGIN,
        forced_bos_token_id=None,
        forced_eos_token_id=None,
        **more,
    )
    theirs = make_model(config).eval()
    for name, parameter in theirs.named_parameters():
        if "positions" not in name or LEARNED in tree.values():
            torch.nn.init.normal_(parameter, 1.0 if "norm" in name and "weight" in name else 0.0, 0.3)
    if hasattr(theirs, "final_logits_bias"):
        torch.nn.init.normal_(theirs.final_logits_bias)
    sizes = {"width": WIDTH, "heads": HEADS, "layers": LAYERS, "feed_forward": INNER, "dropout": 0.0}
    sizes["activation"] = "silu" if "marian" in request.param else "gelu"
    decoder = {**tree.get("decoder", {}), "output_bias": hasattr(theirs, "final_logits_bias")}
    target_vocabulary = more.get("decoder_vocab_size", VOCABULARY)
    source_vocabulary = VOCABULARY if target_vocabulary != VOCABULARY else None
    ours = build_model({**sizes, **tree, "decoder": decoder}, target_vocabulary, source_vocabulary=source_vocabulary)
    ours.load_state_dict(renamed(theirs.state_dict(), ours.state_dict().keys()))
    return ours.eval(), theirs


def renamed(theirs, names):
    """Their weights under our names."""
    found = {}
    for stack in ("encoder", "decoder"):
        part = {"encoder": "stem", "decoder": "decoder"}[stack]
        found[f"{part}.embedding.table.weight"] = theirs[f"model.{stack}.embed_tokens.weight"]
        found[f"{part}.embedding.position.table.weight"] = theirs.get(
            f"model.{stack}.embed_positions.weight", torch.empty(0)
        )[2:]  # the first two rows of a learned table are never used
        for kind in ("weight", "bias"):
            found[f"{part}.embedding.norm.{kind}"] = theirs.get(f"model.{stack}.layernorm_embedding.{kind}")
            found[f"{stack}.norm.{kind}"] = theirs.get(f"model.{stack}.layer_norm.{kind}")
            for number in range(LAYERS):
                here, there = f"{stack}.layers.{number}", f"model.{stack}.layers.{number}"
                for ours, other in PROJECTIONS.items():
                    if ours == "attention" or stack == "decoder":
                        stacked = [theirs[f"{there}.{other}.{one}_proj.{kind}"] for one in "qkv"]
                        found[f"{here}.{ours}.inward.{kind}"] = torch.cat(stacked)
                        found[f"{here}.{ours}.outward.{kind}"] = theirs[f"{there}.{other}.out_proj.{kind}"]
                for ours, other in NORMS.items():
                    found[f"{here}.around_{ours}.norm.{kind}"] = theirs.get(f"{there}.{other}.{kind}")
                found[f"{here}.feed_forward.inward.{kind}"] = theirs[f"{there}.fc1.{kind}"]
                found[f"{here}.feed_forward.outward.{kind}"] = theirs[f"{there}.fc2.{kind}"]
    found["decoder.output_bias"] = theirs.get("final_logits_bias", torch.empty(1, 0))[0]
    return {name: found[name] for name in names}


@pytest.fixture(scope="module")
def batch():
    torch.manual_seed(2)
    least = VOCABULARY - 7
    source, target = torch.randint(4, VOCABULARY, (4, 9)), torch.randint(4, least, (4, 8))
    source[2, 5:] = PAD
    target[:, 0] = BEGIN
    target[3, 6:] = PAD
    mask = (target != PAD) & (target != BEGIN)
    return Batch(source, source != PAD, target, mask, int(mask.sum()))


@torch.no_grad()
def test_logits_and_loss_agree(pair, batch):
    ours, theirs = pair
    given = {"input_ids": batch.source, "attention_mask": batch.source_mask.long()}
    wanted = theirs(**given, decoder_input_ids=batch.target).logits
    state = ours.decoder.start(ours.encode(batch.source, batch.source_mask), beams=1, capacity=8)
    steps = []
    for ids in batch.target.split([1, 3, 1, 3], 1):
        one, state = ours.decoder.step(ids, state)
        steps.append(one)
    real = batch.target != PAD
    assert wanted[real].std() > 0.1
    for found in (ours(batch.source, batch.source_mask, batch.target), torch.cat(steps, 1)):
        torch.testing.assert_close(found[real], wanted[real], atol=1e-4, rtol=1e-4)
    log_p = wanted[:, :-1].log_softmax(-1).gather(-1, batch.target[:, 1:, None])[..., 0]
    expected = -log_p[batch.target_mask[:, 1:]].sum()
    torch.testing.assert_close(ours.loss(batch).total, expected, atol=1e-3, rtol=1e-4)


@torch.no_grad()
def test_greedy_texts_agree(pair, batch):
    ours, theirs = pair
    given = {"input_ids": batch.source, "attention_mask": batch.source_mask.long()}
    memory = ours.encode(batch.source, batch.source_mask)
    found = greedy(ours.decoder, memory, max_lengths=torch.full((4,), 12))
    rows = theirs.generate(
        **given, max_new_tokens=12, num_beams=1, do_sample=False, bad_words_ids=None, forced_eos_token_id=None
    )
    for one, row in zip(found, rows[:, 1:].tolist()):
        assert one.ids == (row[: row.index(END)] if END in row else row)
