"""A Hugging Face folder of a tiny Marian model with random weights, written by hand: no library of theirs is needed."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from data import imported_text
from safetensors.numpy import save

WIDTH, HEADS, INNER, LAYERS = 16, 2, 24, 2


@cache
def sides() -> tuple[bytes, bytes]:
    return imported_text.model(size=200), imported_text.model(size=190, seed=2)


@cache
def vocabulary() -> dict[str, int]:
    pieces = dict.fromkeys(piece for side in sides() for piece in imported_text.pieces_of(side))
    return {piece: number for number, piece in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}


def config(**changes: Any) -> dict[str, Any]:
    last = len(vocabulary()) - 1
    return {
        "architectures": ["MarianMTModel"], "model_type": "marian", "activation_function": "swish", "d_model": WIDTH,
        "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS,
        "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER, "max_position_embeddings": 128, "vocab_size": last + 1,
        "pad_token_id": last, "decoder_start_token_id": last, "eos_token_id": 0, "bad_words_ids": [[last]],
        "scale_embedding": True, "num_beams": 4, "max_length": 64,
    } | changes  # fmt: skip


def tensors(seed: int = 3) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    made: dict[str, np.ndarray] = {}

    def linear(name: str, rows: int, columns: int) -> None:
        made[f"{name}.weight"] = random.normal(0, 0.5, (rows, columns)).astype(np.float32)
        made[f"{name}.bias"] = random.normal(0, 0.2, rows).astype(np.float32)

    def norm(name: str) -> None:
        made[f"{name}.weight"] = random.normal(1, 0.2, WIDTH).astype(np.float32)
        made[f"{name}.bias"] = random.normal(0, 0.2, WIDTH).astype(np.float32)

    for side in ("encoder", "decoder"):
        for number in range(LAYERS):
            layer = f"model.{side}.layers.{number}"
            for attention in ("self_attn", "encoder_attn") if side == "decoder" else ("self_attn",):
                for part in ("q", "k", "v", "out"):
                    linear(f"{layer}.{attention}.{part}_proj", WIDTH, WIDTH)
                norm(f"{layer}.{attention}_layer_norm")
            linear(f"{layer}.fc1", INNER, WIDTH)
            linear(f"{layer}.fc2", WIDTH, INNER)
            norm(f"{layer}.final_layer_norm")
    rows = len(vocabulary())
    made["model.shared.weight"] = random.normal(0, 0.3, (rows, WIDTH)).astype(np.float32)
    made["final_logits_bias"] = random.normal(0, 0.5, (1, rows)).astype(np.float32)
    made["final_logits_bias"][0, 0] += 3  # outputs end
    return made


def write(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, Any] = {"config.json": config(**changes), "vocab.json": vocabulary()}
    files["tokenizer_config.json"] = {"source_lang": "de", "target_lang": "en", "tokenizer_class": "MarianTokenizer"}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    for name, content in zip(("source.spm", "target.spm"), sides(), strict=True):
        (folder / name).write_bytes(content)
    (folder / "README.md").write_text("---\nlanguage: [de, en]\nlicense: cc-by-4.0\n---\n# Tiny\n")
    (folder / "model.safetensors").write_bytes(save(tensors()))
    return folder
