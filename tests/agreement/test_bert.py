"""BERT with the same weights as in transformers: equal logits at every position, loss and gradients."""

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from regard.assemble import build_model
from regard.model.masked_language_model import MASK
from regard.types import Batch

VOCABULARY, WIDTH, LAYERS, HEADS, INNER, LENGTH = 31, 32, 2, 4, 64, 12
RECIPE = {
    "kind": "masked_language_model",
    "stem": {
        "width": WIDTH,
        "position": {"kind": "learned", "length": LENGTH},
        "scale": False,
        "embedding_norm": True,
        "dropout": 0.0,
    },
    "encoder": {
        "width": WIDTH,
        "layers": LAYERS,
        "heads": HEADS,
        "feed_forward": INNER,
        "norm": "post",
        "activation": "gelu",
        "dropout": 0.0,
    },
}


@pytest.fixture(scope="module")
def theirs():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        hidden_act="gelu",
        max_position_embeddings=LENGTH,
        type_vocab_size=2,
        layer_norm_eps=1e-5,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=0,
    )
    bert = BertForMaskedLM(config).double().eval()
    for parameter in bert.parameters():  # no weight is special, no gain 1 and no bias 0
        torch.nn.init.normal_(parameter, std=0.3)
    return bert


@pytest.fixture(scope="module")
def ours(theirs):
    model = build_model(RECIPE, VOCABULARY).double()
    types = theirs.bert.embeddings.token_type_embeddings.weight[0]
    model.load_state_dict(renamed(dict(theirs.named_parameters()), types))
    return model.eval()


def renamed(theirs, types):
    """Their parameters, or the gradients of them, under our names and in our shapes.

    What they add for the first of two sentences they add everywhere: in ours it is part of the positions.
    """
    theirs = {name.removeprefix("bert."): value for name, value in theirs.items()}
    ours = {
        "stem.embedding.table.weight": theirs["embeddings.word_embeddings.weight"],
        "stem.embedding.position.table.weight": theirs["embeddings.position_embeddings.weight"] + types,
        "bias": theirs["cls.predictions.bias"],
    }
    for part in ("weight", "bias"):
        ours |= {
            f"stem.embedding.norm.{part}": theirs[f"embeddings.LayerNorm.{part}"],
            f"dense.{part}": theirs[f"cls.predictions.transform.dense.{part}"],
            f"norm.{part}": theirs[f"cls.predictions.transform.LayerNorm.{part}"],
        }
        for number in range(LAYERS):
            here, there = f"encoder.layers.{number}", f"encoder.layer.{number}"
            projected = [theirs[f"{there}.attention.self.{name}.{part}"] for name in ("query", "key", "value")]
            ours |= {
                f"{here}.attention.inward.{part}": torch.cat(projected),
                f"{here}.attention.outward.{part}": theirs[f"{there}.attention.output.dense.{part}"],
                f"{here}.around_attention.norm.{part}": theirs[f"{there}.attention.output.LayerNorm.{part}"],
                f"{here}.feed_forward.inward.{part}": theirs[f"{there}.intermediate.dense.{part}"],
                f"{here}.feed_forward.outward.{part}": theirs[f"{there}.output.dense.{part}"],
                f"{here}.around_feed_forward.norm.{part}": theirs[f"{there}.output.LayerNorm.{part}"],
            }
    return ours


@pytest.fixture
def text():
    torch.manual_seed(1)
    source = torch.randint(4, VOCABULARY, (3, LENGTH))
    mask = torch.arange(LENGTH) < torch.tensor([[LENGTH], [7], [3]])
    return source.masked_fill(~mask, 0), mask


def test_the_logits_agree(ours, theirs, text):
    source, mask = text
    source[0, 2] = source[1, 4] = MASK
    found, wanted = ours(source, mask), theirs(input_ids=source, attention_mask=mask.long()).logits
    torch.testing.assert_close(found[mask], wanted[mask], atol=1e-10, rtol=1e-8)
    places = torch.tensor([[2, 0], [4, 1], [0, 2]])
    some = ours(source, mask, places)
    torch.testing.assert_close(some, found.gather(1, places[..., None].expand(-1, -1, VOCABULARY)))


def test_the_loss_and_all_gradients_agree(ours, theirs, text):
    """Of what our model hides, as it hides it out of training."""
    source, mask = text
    wanted = torch.tensor([[True, True], [True, False], [True, False]])
    batch = Batch(source, mask, torch.zeros(3, 2, dtype=torch.long), wanted, 4)
    seen, places, was = ours.hide(source, wanted)
    labels = torch.full_like(source, -100).scatter(1, places, torch.where(wanted, was, -100))
    assert (labels != -100).sum() == 4 and (seen != source).sum() == 4 and (seen[labels != -100] == MASK).all()
    loss = theirs(input_ids=seen, attention_mask=mask.long(), labels=labels).loss * 4
    found = ours.loss(batch)
    torch.testing.assert_close(found.total.double(), loss, atol=1e-5, rtol=1e-6)
    found.total.backward()
    loss.backward()
    gradients = {name: p.grad for name, p in ours.named_parameters()}
    expected = renamed({name: p.grad for name, p in theirs.named_parameters()}, 0)
    assert gradients.keys() == expected.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(
            gradient, expected[name], atol=1e-8, rtol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )
