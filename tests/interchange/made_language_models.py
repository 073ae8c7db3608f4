"""Hugging Face folders of tiny language models with random weights, made by transformers' own save_pretrained."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

from tests.data import imported_text

END = "<|endoftext|>"
LONGEST = 48


def randomised(model: Any, seed: int = 3) -> Any:
    """Every weight is drawn anew, so that none can be left out unnoticed."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                small = any(one in name for one in ("wte", "wpe", "embed_tokens", "lm_head"))
                parameter.normal_(std=0.5 if small else 0.25)
            elif name.endswith("weight"):
                parameter.normal_(1.0, 0.2)
            else:
                parameter.normal_(std=0.2)
    return model.eval()


@cache
def byte_level(special: tuple[str, ...] = (END,)) -> tokenizers.ByteLevelBPETokenizer:
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(imported_text.lines(), vocab_size=400, special_tokens=[*special], show_progress=False)
    return made


def gpt2(folder: Path, *, fast: bool = True, **changes: Any) -> Any:
    """A folder with tokenizer.json, or with vocab.json and merges.txt alone."""
    folder.mkdir(parents=True, exist_ok=True)
    byte_level().save_model(str(folder))
    tokenizer = transformers.GPT2TokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt"))
    if fast:
        tokenizer.save_pretrained(folder)
    bare = changes.pop("bare", False)
    config = transformers.GPT2Config(
        **{
            "vocab_size": len(tokenizer),
            "n_positions": LONGEST,
            "n_embd": 24,
            "n_layer": 2,
            "n_head": 4,
            "bos_token_id": 0,
            "eos_token_id": 0,
            "pad_token_id": 0,
        }
        | changes
    )
    model = randomised(transformers.GPT2LMHeadModel(config))
    (model.transformer if bare else model).save_pretrained(folder)
    return model, tokenizer


VARIANTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "gpt2": (gpt2, {}),
    "gpt2 merges": (gpt2, {"fast": False, "bare": True, "n_inner": 40, "activation_function": "relu"}),
    "gpt2 untied": (gpt2, {"tie_word_embeddings": False, "n_layer": 1, "layer_norm_epsilon": 1e-3}),
}
"""Folders as they differ in the wild."""
