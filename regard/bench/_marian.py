"""The peer: transformers' Marian model with the weights of one of our Transformers, so that both compute the same.

Marian is post-norm. A pre-norm Transformer becomes Pegasus, which differs from Marian in that alone.
"""

from __future__ import annotations

from typing import Any

import torch

from regard.types import BEGIN, END, PAD

POSITIONS = 1024
IMPORTED = {"position": "sinusoidal_halves", "activation": "silu", "decoder": {"output_bias": True}}
"""What an OPUS-MT has instead of our defaults."""
ACTIVATIONS = {"ReLU": "relu", "SiLU": "swish", "GELU": "gelu"}


def marian_like(model: Any) -> Any:
    """A MarianMTModel or its pre-norm twin that computes what `model` (a sinusoidal, tied Transformer) computes."""
    import transformers as hf

    vocabulary, width = model.stem.embedding.table.weight.shape
    encoder, decoder = model.encoder.layers, model.decoder.layers
    pre_norm = encoder[0].around_attention.first
    config_type: Any = hf.PegasusConfig if pre_norm else hf.MarianConfig
    model_type: Any = hf.PegasusForConditionalGeneration if pre_norm else hf.MarianMTModel
    config = config_type(
        vocab_size=vocabulary,
        d_model=width,
        encoder_layers=len(encoder),
        decoder_layers=len(decoder),
        encoder_attention_heads=encoder[0].attention.heads,
        decoder_attention_heads=decoder[0].attention.heads,
        encoder_ffn_dim=encoder[0].feed_forward.inward.out_features,
        decoder_ffn_dim=decoder[0].feed_forward.inward.out_features,
        activation_function=ACTIVATIONS[type(encoder[0].feed_forward.activation).__name__],
        dropout=0.1,
        attention_dropout=0.0,
        activation_dropout=0.0,
        max_position_embeddings=POSITIONS,
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=END,
        bos_token_id=BEGIN,
        decoder_start_token_id=BEGIN,
        forced_eos_token_id=None,
        share_encoder_decoder_embeddings=True,
        attn_implementation="sdpa",
    )
    marian = model_type(config).eval()
    with torch.no_grad():
        marian.model.shared.weight.copy_(model.stem.embedding.table.weight)
        marian.tie_weights()
        bias = model.decoder.output_bias
        marian.final_logits_bias.copy_(torch.zeros(1, vocabulary) if bias is None else bias[None])
        # Marian lays out all sines, then all cosines; ours alternate as the paper does. Give Marian our table.
        table = model.stem.embedding.position(torch.arange(POSITIONS))
        marian.model.encoder.embed_positions.weight.copy_(table)
        marian.model.decoder.embed_positions.weight.copy_(table)
        for ours, theirs in zip(encoder, marian.model.encoder.layers):
            _copy_layer(ours, theirs)
        for ours, theirs in zip(decoder, marian.model.decoder.layers):
            _copy_layer(ours, theirs)
            _copy_attention(ours.cross_attention, theirs.encoder_attn)
            theirs.encoder_attn_layer_norm.load_state_dict(ours.around_cross_attention.norm.state_dict())
        if pre_norm:
            marian.model.encoder.layer_norm.load_state_dict(model.encoder.norm.state_dict())
            marian.model.decoder.layer_norm.load_state_dict(model.decoder.norm.state_dict())
    return marian


def _copy_layer(ours: Any, theirs: Any) -> None:
    _copy_attention(ours.attention, theirs.self_attn)
    theirs.self_attn_layer_norm.load_state_dict(ours.around_attention.norm.state_dict())
    theirs.fc1.load_state_dict(ours.feed_forward.inward.state_dict())
    theirs.fc2.load_state_dict(ours.feed_forward.outward.state_dict())
    theirs.final_layer_norm.load_state_dict(ours.around_feed_forward.norm.state_dict())


def _copy_attention(ours: Any, theirs: Any) -> None:
    for projection, weight, bias in zip(
        (theirs.q_proj, theirs.k_proj, theirs.v_proj), ours.inward.weight.chunk(3), ours.inward.bias.chunk(3)
    ):
        projection.weight.copy_(weight)
        projection.bias.copy_(bias)
    theirs.out_proj.load_state_dict(ours.outward.state_dict())
