"""GPT-2 with the same weights as in transformers: equal logits, loss, gradients and greedy output."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from regard.assemble import build_model
from regard.decoding.greedy import greedy
from regard.states import empty_memory
from regard.types import BEGIN, END, PAD, Batch

VOCABULARY, LENGTH, WIDTH, LAYERS, HEADS = 40, 16, 32, 2, 4


@pytest.fixture(scope="module")
def theirs():
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=LENGTH,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        activation_function="gelu_new",
        layer_norm_epsilon=1e-5,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=BEGIN,
        eos_token_id=END,
        pad_token_id=PAD,
    )
    gpt2 = GPT2LMHeadModel(config).double().eval()
    for parameter in gpt2.parameters():  # no weight is special, no gain 1 and no bias 0
        torch.nn.init.normal_(parameter, std=0.3)
    return gpt2


@pytest.fixture(scope="module")
def ours(theirs):
    tree = {
        "kind": "language_model",
        "width": WIDTH,
        "layers": LAYERS,
        "heads": HEADS,
        "feed_forward": 4 * WIDTH,
        "dropout": 0.0,
        "norm": "pre",
        "activation": "gelu_tanh",
        "position": {"kind": "learned", "length": LENGTH},
        "tie": True,
        "scale": False,
    }
    model = build_model(tree, VOCABULARY).double()
    model.load_state_dict(renamed(dict(theirs.named_parameters())))
    return model.eval()


def renamed(theirs):
    """Their parameters, or the gradients of them, under our names; their matrices lie the other way round."""
    ours = {
        "decoder.embedding.table.weight": theirs["transformer.wte.weight"],
        "decoder.embedding.position.table.weight": theirs["transformer.wpe.weight"],
        "decoder.norm.weight": theirs["transformer.ln_f.weight"],
        "decoder.norm.bias": theirs["transformer.ln_f.bias"],
    }
    names = {
        "attention.inward": "attn.c_attn",
        "attention.outward": "attn.c_proj",
        "feed_forward.inward": "mlp.c_fc",
        "feed_forward.outward": "mlp.c_proj",
        "around_attention.norm": "ln_1",
        "around_feed_forward.norm": "ln_2",
    }
    for number in range(LAYERS):
        for here, there in names.items():
            for part in ("weight", "bias"):
                tensor = theirs[f"transformer.h.{number}.{there}.{part}"]
                ours[f"decoder.layers.{number}.{here}.{part}"] = tensor.T if tensor.ndim == 2 else tensor
    return ours


@pytest.fixture(scope="module")
def batch():
    torch.manual_seed(2)
    target = torch.randint(4, VOCABULARY, (3, 9))
    target[:, 0] = BEGIN
    target[2, 5], target[2, 6:] = END, PAD
    mask = (target != PAD) & (target != BEGIN)
    empty = torch.zeros(3, 0, dtype=torch.long)
    return Batch(empty, empty.bool(), target, mask, int(mask.sum()))


def test_every_weight_has_its_place(ours, theirs):
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


def test_logits_agree(ours, theirs, batch):
    with torch.no_grad():
        logits, wanted = ours(batch.target), theirs(input_ids=batch.target).logits
    real = batch.target != PAD
    torch.testing.assert_close(logits[real], wanted[real], atol=1e-9, rtol=1e-9)


def test_loss_and_all_gradients_agree(ours, theirs, batch):
    # Our sum is kept in float32, which is where the two may differ.
    ours.zero_grad()
    loss = ours.loss(batch)
    loss.total.backward()
    labels = batch.target.masked_fill(~batch.target_mask, -100)
    other = theirs(input_ids=batch.target, labels=labels).loss * batch.units
    theirs.zero_grad()
    other.backward()
    assert loss.total.item() == pytest.approx(other.item(), rel=1e-5)
    gradients = {name: p.grad for name, p in ours.named_parameters()}
    wanted = renamed({name: p.grad for name, p in theirs.named_parameters()})
    assert gradients.keys() == wanted.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(
            gradient, wanted[name], atol=1e-7, rtol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_greedy_outputs_agree(ours, theirs):
    (found,) = greedy(ours.decoder, empty_memory(1), max_lengths=torch.tensor([12]))
    row = theirs.generate(
        torch.tensor([[BEGIN]]), attention_mask=torch.ones(1, 1), max_new_tokens=12, do_sample=False, num_beams=1
    )[0, 1:].tolist()
    assert found.ids == (row[: row.index(END)] if END in row else row)
