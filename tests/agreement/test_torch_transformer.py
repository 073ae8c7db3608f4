"""A Transformer with the same weights as torch.nn.Transformer gives the same numbers."""

import pytest
import torch
from torch import nn

from regard.decoder.transformer import TransformerDecoder
from regard.encoder.transformer import TransformerEncoder
from regard.layers.attention.multi_head import MultiHead

WIDTH, HEADS, INNER, LAYERS = 32, 4, 64, 3


def copy_attention(ours: MultiHead, theirs: nn.MultiheadAttention) -> None:
    ours.inward.weight.data.copy_(theirs.in_proj_weight)
    ours.inward.bias.data.copy_(theirs.in_proj_bias)
    ours.outward.load_state_dict(theirs.out_proj.state_dict())


def copy_feed_forward(ours, theirs) -> None:
    ours.feed_forward.inward.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.outward.load_state_dict(theirs.linear2.state_dict())


def randomise(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.2)
    return module.eval()


@pytest.fixture(params=["post", "pre"])
def pair(request):
    torch.manual_seed(0)
    norm, first = request.param, request.param == "pre"
    theirs = nn.Transformer(
        WIDTH, HEADS, LAYERS, LAYERS, INNER, dropout=0.1, batch_first=True, norm_first=first, activation="relu"
    )
    if not first:  # torch puts one more norm at the end of a post-norm stack; the paper does not
        theirs.encoder.norm = theirs.decoder.norm = None
    randomise(theirs)
    sizes = {"width": WIDTH, "layers": LAYERS, "heads": HEADS, "feed_forward": INNER, "norm": norm}
    encoder, decoder = TransformerEncoder(**sizes).eval(), TransformerDecoder(50, **sizes).eval()
    for ours, other in zip(encoder.layers, theirs.encoder.layers):
        copy_attention(ours.attention, other.self_attn)
        copy_feed_forward(ours, other)
        ours.around_attention.norm.load_state_dict(other.norm1.state_dict())
        ours.around_feed_forward.norm.load_state_dict(other.norm2.state_dict())
    for ours, other in zip(decoder.layers, theirs.decoder.layers):
        copy_attention(ours.attention, other.self_attn)
        copy_attention(ours.cross_attention, other.multihead_attn)
        copy_feed_forward(ours, other)
        ours.around_attention.norm.load_state_dict(other.norm1.state_dict())
        ours.around_cross_attention.norm.load_state_dict(other.norm2.state_dict())
        ours.around_feed_forward.norm.load_state_dict(other.norm3.state_dict())
    if first:
        encoder.norm.load_state_dict(theirs.encoder.norm.state_dict())
        decoder.norm.load_state_dict(theirs.decoder.norm.state_dict())
    return encoder, decoder, theirs


def test_encoder_and_decoder_agree_with_torch_where_positions_are_real(pair):
    encoder, decoder, theirs = pair
    x, mask = torch.randn(3, 7, WIDTH), torch.ones(3, 7, dtype=torch.bool)
    mask[1, 4:] = mask[2, 1:] = False
    ids = torch.randint(4, 50, (3, 5))
    with torch.no_grad():
        memory = encoder(x, mask)
        target = decoder.embedding(ids)
        hidden, _ = decoder.advance(ids, decoder.start(memory, beams=1, capacity=0))
        their_memory = theirs.encoder(x, src_key_padding_mask=~mask)
        causal = nn.Transformer.generate_square_subsequent_mask(5)
        their_hidden = theirs.decoder(target, their_memory, tgt_mask=causal, memory_key_padding_mask=~mask)
    torch.testing.assert_close(memory.states[mask], their_memory[mask], atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(hidden, their_hidden, atol=2e-5, rtol=1e-4)


def test_gradients_agree_with_torch(pair):
    encoder, _, theirs = pair
    x, mask = torch.randn(2, 6, WIDTH), torch.ones(2, 6, dtype=torch.bool)
    mask[1, 3:] = False
    weights = torch.randn(2, 6, WIDTH) * mask[..., None]  # padded positions may differ, so they do not count
    (encoder(x, mask).states * weights).sum().backward()
    theirs.train()  # torch's inference shortcut has no gradient; without dropout training is the same
    for module in theirs.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    (theirs.encoder(x, src_key_padding_mask=~mask) * weights).sum().backward()
    for ours, other in zip(encoder.layers, theirs.encoder.layers):
        for a, b in [
            (ours.attention.inward.weight, other.self_attn.in_proj_weight),
            (ours.feed_forward.outward.weight, other.linear2.weight),
            (ours.around_attention.norm.weight, other.norm1.weight),
        ]:
            torch.testing.assert_close(a.grad, b.grad, atol=1e-4, rtol=1e-3)
