"""Vision Transformer with the same weights as in transformers: equal output of the last layer and gradients."""

import pytest
import torch
from transformers import ViTConfig, ViTModel

from regard.encoder.transformer import TransformerEncoder
from regard.stem.patches import Patches

CHANNELS, SIZE, PATCH, WIDTH, LAYERS, HEADS, INNER = 3, 16, 4, 32, 2, 4, 64


@pytest.fixture(scope="module")
def theirs():
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        hidden_act="gelu",
        image_size=SIZE,
        patch_size=PATCH,
        num_channels=CHANNELS,
        layer_norm_eps=1e-5,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    vit = ViTModel(config, add_pooling_layer=False).double().eval()
    for parameter in vit.parameters():  # no weight is special, no gain 1 and no bias 0
        torch.nn.init.normal_(parameter, std=0.3)
    return vit


@pytest.fixture(scope="module")
def ours(theirs):
    stem = Patches(CHANNELS, SIZE, PATCH, WIDTH, dropout=0.0).double()
    encoder = TransformerEncoder(WIDTH, LAYERS, HEADS, INNER, dropout=0.0, norm="pre", activation="gelu").double()
    both = torch.nn.ModuleDict({"stem": stem, "encoder": encoder})
    both.load_state_dict(renamed(dict(theirs.named_parameters())))
    return both.eval()


def renamed(theirs):
    """Their parameters, or the gradients of them, under our names and in our shapes."""
    ours = {
        "stem.class_token": theirs["embeddings.cls_token"][0, 0],
        "stem.placing.position.table.weight": theirs["embeddings.position_embeddings"][0],
        "stem.project.weight": theirs["embeddings.patch_embeddings.projection.weight"].flatten(1),
        "stem.project.bias": theirs["embeddings.patch_embeddings.projection.bias"],
        "encoder.norm.weight": theirs["layernorm.weight"],
        "encoder.norm.bias": theirs["layernorm.bias"],
    }
    for number in range(LAYERS):
        here, there = f"encoder.layers.{number}", f"layers.{number}"
        for part in ("weight", "bias"):
            projected = [theirs[f"{there}.attention.{name}_proj.{part}"] for name in "qkv"]
            ours |= {
                f"{here}.attention.inward.{part}": torch.cat(projected),
                f"{here}.attention.outward.{part}": theirs[f"{there}.attention.o_proj.{part}"],
                f"{here}.feed_forward.inward.{part}": theirs[f"{there}.mlp.fc1.{part}"],
                f"{here}.feed_forward.outward.{part}": theirs[f"{there}.mlp.fc2.{part}"],
                f"{here}.around_attention.norm.{part}": theirs[f"{there}.layernorm_before.{part}"],
                f"{here}.around_feed_forward.norm.{part}": theirs[f"{there}.layernorm_after.{part}"],
            }
    return ours


def run(ours, images):
    return ours["encoder"](*ours["stem"](images, torch.ones(len(images), 1, dtype=torch.bool))).states


def test_the_embeddings_agree(ours, theirs):
    images = torch.randn(3, CHANNELS, SIZE, SIZE, dtype=torch.double)
    vectors, mask = ours["stem"](images, torch.ones(3, 1, dtype=torch.bool))
    assert mask.all() and mask.shape == (3, 1 + (SIZE // PATCH) ** 2)
    torch.testing.assert_close(vectors, theirs.embeddings(images), atol=1e-12, rtol=1e-10)


def test_the_last_hidden_states_and_all_gradients_agree(ours, theirs):
    torch.manual_seed(1)
    images = torch.randn(3, CHANNELS, SIZE, SIZE, dtype=torch.double)
    states, last = run(ours, images), theirs(pixel_values=images).last_hidden_state
    torch.testing.assert_close(states, last, atol=1e-10, rtol=1e-8)
    weights = torch.randn_like(states)
    (states * weights).sum().backward()
    (last * weights).sum().backward()
    gradients = {name: p.grad for name, p in ours.named_parameters()}
    wanted = renamed({name: p.grad for name, p in theirs.named_parameters()})
    assert gradients.keys() == wanted.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(
            gradient, wanted[name], atol=1e-9, rtol=1e-7, msg=lambda text, name=name: f"{name}: {text}"
        )
