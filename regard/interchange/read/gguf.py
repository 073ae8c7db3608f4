"""Reads a GGUF file (llama.cpp's format) of a Llama or Qwen2: dequantised weights, and the tokenizer in its metadata.

What the file holds is put into the terms of a Hugging Face folder, whose family (families/llama.py) does the rest.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.interchange.families import _tokens
from regard.interchange.families._config import Config
from regard.interchange.families._language_model import SENTENCEPIECE
from regard.interchange.families.llama import Llama
from regard.interchange.imported import Imported
from regard.interchange.read._gguf_file import GGUFFile
from regard.interchange.read._gguf_tokenizer import byte_level_file, sentencepiece_file
from regard.interchange.read.foreign_folder import ForeignFolder
from regard.interchange.read.hugging_face import all_weights
from regard.interchange.read.stored_tensors import StoredTensors
from regard.layers.relative_position.rotary import Rotary
from regard.terminal_text import escape_control_characters, one_line

__all__ = ["read"]

_ARCHITECTURES = ("llama", "qwen2")
_MUCH_MEMORY = 2_000_000_000
_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Their names of tensors, without layer and ending, and Hugging Face's."""
_RATES = "rope_freqs.weight"
_NAME = re.compile(r"(?:blk\.(\d{1,4})\.)?(\w+)\.(weight|bias)")


def read(path: Path, note: Callable[[str], None] = lambda text: None) -> Imported:
    """The model in a file, in our terms."""
    with GGUFFile(path) as file, tempfile.TemporaryDirectory(prefix="regard-import-") as temporary:
        config = _config(file)
        stored = _stored(file, config)
        if (memory := 8 * sum(math.prod(place.shape) for place in file.tensors.values())) > _MUCH_MEMORY:
            note(f"reading the weights takes up to {memory / 1e9:.0f} GB of memory")
        for name, content in _tokenizer(file, config.values["vocab_size"]).items():
            (Path(temporary) / name).write_bytes(content)
        notes: list[str] = []
        family = Llama(config.values["model_type"])
        files, generation = ForeignFolder(Path(temporary)), Config({}, config.where)
        reading = family.read(config, generation, files, stored, notes.append)
        weights = all_weights(reading, stored, config)
        kinds = sorted({place.kind for place in file.tensors.values()} - {"F32"})
    notes.append(f"its weights were {', '.join(kinds) or 'F32'} and are kept as the numbers that these stand for")
    licence = escape_control_characters(one_line(str(file.metadata.get("general.license", ""))))[:60]
    return Imported(reading.recipe, reading.codec, weights, f"{config.values['model_type']} (GGUF)", licence, notes)


def _config(file: GGUFFile) -> Config:
    """The metadata as a config of Hugging Face."""
    metadata = file.metadata
    kind = metadata.get("general.architecture")
    if kind not in _ARCHITECTURES:
        shown = escape_control_characters(one_line(str(kind)))[:60]
        raise UserError(
            f"{file.path}: general.architecture = {shown}: no such family here; there is: {', '.join(_ARCHITECTURES)}"
        )
    stated = Config(metadata, str(file.path))
    for key in ("expert_count", "attention.sliding_window"):
        if metadata.get(f"{kind}.{key}"):
            raise stated.refuse(f"{kind}.{key}", "not known here")
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not tokens:
        raise UserError(f"{file.path}: no tokens in its metadata; take another copy")
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2 or embedding.shape[0] != len(tokens):
        shape = "missing" if embedding is None else f"of the shape {embedding.shape}"
        raise UserError(f"{file.path}: its tokenizer has {len(tokens):,} tokens, but the embedding is {shape}")
    heads = stated.integer(f"{kind}.attention.head_count", least=1)
    width = stated.integer(f"{kind}.embedding_length", least=2)
    head = stated.integer(f"{kind}.attention.key_length", width // heads, least=2)
    if stated.integer(f"{kind}.rope.dimension_count", head) != head:
        raise stated.refuse(f"{kind}.rope.dimension_count", f"only rotations of whole heads, of {head}, are known here")
    if stated.integer(f"{kind}.attention.value_length", head) != head:
        raise stated.refuse(f"{kind}.attention.value_length", f"keys have {head} columns")
    eps = stated.number(f"{kind}.attention.layer_norm_rms_epsilon", 1e-5)
    values = {
        "model_type": kind,
        "vocab_size": len(tokens),
        "hidden_size": width,
        "intermediate_size": stated.integer(f"{kind}.feed_forward_length", least=1),
        "num_hidden_layers": stated.integer(f"{kind}.block_count", least=1, most=1000),
        "num_attention_heads": heads,
        "num_key_value_heads": stated.integer(f"{kind}.attention.head_count_kv", heads, least=1),
        "head_dim": head,
        "max_position_embeddings": stated.integer(f"{kind}.context_length", least=2, most=1 << 24),
        "rms_norm_eps": eps,
        "rope_parameters": _rotary(file, stated, kind, head),
        "attention_bias": kind == "llama" and "blk.0.attn_q.bias" in file.tensors,
        "tie_word_embeddings": "output.weight" not in file.tensors,
    }
    for role in ("bos", "eos"):
        if (id := metadata.get(f"tokenizer.ggml.{role}_token_id")) is not None:
            values[f"{role}_token_id"] = id
    return Config(values, str(file.path))


def _rotary(file: GGUFFile, stated: Config, kind: str, head: int) -> dict[str, Any]:
    base = stated.number(f"{kind}.rope.freq_base", 10000.0, least=1.01, most=1e12)
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": base}
    scaling = stated.get(f"{kind}.rope.scaling.type", "none")
    if scaling == "linear":
        rope |= {"rope_type": "linear", "factor": stated.number(f"{kind}.rope.scaling.factor", 1.0, 1.0, 1e6)}
    elif scaling != "none":
        raise stated.refuse(f"{kind}.rope.scaling.type", "rotary positions are known here as: none, linear")
    if _RATES not in file.tensors:
        return rope
    if file.tensors[_RATES].shape != (head // 2,):
        raise file.refuse(f"the tensor {_RATES!r} has the shape {file.tensors[_RATES].shape}")
    # Llama 3's numbers are computed; a file holds by what each rate is divided.
    divisors = file.numbers(_RATES)
    factor = float(divisors.max().clamp(1.0, 1e6))
    table = {"factor": factor, "original": 8192, "low": 1.0, "high": 4.0}
    if not torch.allclose(Rotary(head, base).rates() / divisors, Rotary(head, base, **table).rates(), rtol=1e-4):  # type: ignore[arg-type]
        raise file.refuse(f"the tensor {_RATES!r} does not hold Llama 3's numbers; others are not known here")
    return rope | {
        "rope_type": "llama3",
        "factor": factor,
        "original_max_position_embeddings": 8192,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    }


def _stored(file: GGUFFile, config: Config) -> StoredTensors:
    """The file's tensors under Hugging Face's names."""
    stored, values = StoredTensors([], {}, file.path), config.values
    heads = {"q_proj": values["num_attention_heads"], "k_proj": values["num_key_value_heads"]}
    for theirs, place in file.tensors.items():
        if theirs == _RATES:
            continue
        name = _hugging_face_name(theirs)
        paired = heads.get(name.split(".")[-2], 0) if values["model_type"] == "llama" and "." in name else 0
        stored.add(name, place.shape, partial(_numbers, file, theirs, paired))
    return stored


def _numbers(file: GGUFFile, name: str, paired: int) -> Tensor:
    """One tensor; `paired`: its heads, if llama.cpp, which rotates rows 2i and 2i + 1, has put these together."""
    found = file.numbers(name)
    if not paired:
        return found
    pairs = found.reshape(paired, -1, 2, *found.shape[1:])
    return pairs.transpose(1, 2).reshape(found.shape)


def _hugging_face_name(theirs: str) -> str:
    """Names that are not known stay as they are, and are refused as no part of the architecture."""
    parts = _NAME.fullmatch(theirs)
    if parts is None or parts[2] not in _NAMES:
        return theirs
    name = f"{_NAMES[parts[2]]}.{parts[3]}"
    return name if parts[1] is None else f"model.layers.{int(parts[1])}.{name}"


def _tokenizer(file: GGUFFile, size: int) -> dict[str, bytes]:
    """The tokenizer as files of a Hugging Face folder."""
    metadata = file.metadata
    kind, tokens = metadata.get("tokenizer.ggml.model"), metadata["tokenizer.ggml.tokens"]
    types = metadata.get("tokenizer.ggml.token_type", [1] * size)
    if not all(isinstance(token, str) for token in tokens):
        raise file.refuse("its tokens are not texts")
    if not isinstance(types, list) or len(types) != size or not all(type(one) is int for one in types):
        raise file.refuse(f"it has {size:,} tokens and does not state the type of each")
    stated: dict[str, Any] = {}
    for role, key in (("eos_token", "eos"), ("unk_token", "unknown")):
        id = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if type(id) is int and 0 <= id < size:
            stated[role] = tokens[id]
    if isinstance(template := metadata.get("tokenizer.chat_template"), str):
        stated["chat_template"] = template
    files = {"tokenizer_config.json": json.dumps(stated).encode()}
    if kind == "gpt2":
        return files | {_tokens.TOKENIZER: byte_level_file(file, tokens, types)}
    if kind == "llama":
        return files | {SENTENCEPIECE: sentencepiece_file(file, tokens, types)}
    shown = escape_control_characters(one_line(str(kind)))[:60]
    raise file.refuse(f"a tokenizer of the kind {shown} is not known here; there is: gpt2, llama")
