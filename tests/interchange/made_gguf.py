"""GGUF files of tiny models with random weights, written by the library `gguf` as llama.cpp's converter does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers

from tests.interchange.made_language_models import CHAT, LONGEST, byte_level_file, randomised

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": LONGEST,
}
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SPLITS = {"smollm": "smollm", "llama-bpe": "llama3", "qwen2": "qwen2"}


def name_of(theirs: str) -> str:
    """llama.cpp's name of a tensor."""
    stem, _, part = theirs.rpartition(".")
    if not stem.startswith("model.layers."):
        return f"{NAMES[stem]}.{part}"
    _, _, number, *rest = stem.split(".")
    return f"blk.{number}.{NAMES['.'.join(rest)]}.{part}"


def permuted(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows i and K/2 + i of a head beside each other."""
    halves = values.reshape(heads, 2, -1, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(values.shape))


def write(
    path: Path,
    model: Any,
    kind: str = "F32",
    *,
    arch: str = "llama",
    metadata: dict[str, Any] | None = None,
    left_out: tuple[str, ...] = (),
    tokenizer: dict[str, Any] | None = None,
) -> None:
    """The file; afterwards the model has the weights that the blocks stand for. `metadata` replaces values by key."""
    config = model.config
    writer = gguf.GGUFWriter(path, arch)
    given: dict[str, Any] = {
        f"{arch}.context_length": config.max_position_embeddings,
        f"{arch}.embedding_length": config.hidden_size,
        f"{arch}.block_count": config.num_hidden_layers,
        f"{arch}.feed_forward_length": config.intermediate_size,
        f"{arch}.attention.head_count": config.num_attention_heads,
        f"{arch}.attention.head_count_kv": config.num_key_value_heads,
        f"{arch}.rope.dimension_count": config.hidden_size // config.num_attention_heads,
        f"{arch}.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        f"{arch}.rope.freq_base": float(config.rope_parameters["rope_theta"]),
        "general.license": "apache-2.0",
        **(tokenizer or byte_level_metadata()),
        **(metadata or {}),
    }
    for key, value in given.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif value is not None:
            writer.add_uint32(key, value)
    wanted = gguf.GGMLQuantizationType[kind]
    state = model.state_dict()
    for theirs, tensor in state.items():
        if theirs == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = tensor.numpy()
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        if arch == "llama" and theirs.split(".")[-2] in heads:
            values = permuted(values, heads[theirs.split(".")[-2]])
        type = wanted if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        blocks = gguf.quantize(values, type)
        back = torch.from_numpy(gguf.dequantize(blocks, type).reshape(values.shape).astype(np.float32))
        if arch == "llama" and theirs.split(".")[-2] in heads:  # where each row of theirs went
            order = permuted(np.arange(len(values)), heads[theirs.split(".")[-2]])
            back = torch.empty_like(back).index_copy_(0, torch.from_numpy(order), back)
        tensor.copy_(back)
        if name_of(theirs) not in left_out:
            writer.add_tensor(name_of(theirs), blocks, raw_dtype=type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def byte_level_metadata(pre: str = "llama-bpe") -> dict[str, Any]:
    tree = json.loads(byte_level_file(SPLITS[pre]).to_str())
    tokens = sorted(tree["model"]["vocab"], key=tree["model"]["vocab"].get)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in CHAT else 1 for token in tokens],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in tree["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": CHAT.index("<|im_start|>"),
        "tokenizer.ggml.eos_token_id": CHAT.index("<|im_end|>"),
    }


def model(tokens: int, qwen: bool = False, **changes: Any) -> Any:
    config, maker = (
        (transformers.Qwen2Config, transformers.Qwen2ForCausalLM)
        if qwen
        else (transformers.LlamaConfig, transformers.LlamaForCausalLM)
    )
    return randomised(maker(config(**SHAPE | {"vocab_size": tokens, "rms_norm_eps": 2.0**-17} | changes)))


def write_chat(path: Path) -> None:
    """A model that states a chat template."""
    metadata = byte_level_metadata() | {"tokenizer.chat_template": CHATML}
    write(path, model(len(metadata["tokenizer.ggml.tokens"]), num_hidden_layers=1), "Q8_0", tokenizer=metadata)
