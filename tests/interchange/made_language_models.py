"""Hugging Face folders of tiny language models with random weights, made by transformers' own save_pretrained."""

from __future__ import annotations

import json
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


CHAT = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Llama 3 splits a text into words; Qwen2 takes digits one by one."""
SHAPE = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": LONGEST,
}


def byte_level_file(split: str) -> tokenizers.Tokenizer:
    """A byte-level tokenizer that splits texts as SmolLM2, Llama 3 or Qwen2 does."""
    parts, level = tokenizers.pre_tokenizers, tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=split == "llama3"))
    unsplit = parts.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = {
        "smollm": lambda: parts.Sequence([parts.Digits(individual_digits=True), level]),
        "llama3": lambda: parts.Sequence([parts.Split(tokenizers.Regex(SPLIT), "isolated"), unsplit]),
        "qwen2": lambda: parts.Sequence(
            [parts.Split(tokenizers.Regex(SPLIT.replace("{1,3}", "")), "isolated"), unsplit]
        ),
    }[split]()
    if split == "qwen2":
        made.normalizer = tokenizers.normalizers.NFC()
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=[*CHAT],
        initial_alphabet=parts.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(imported_text.lines(), trainer)
    return made


def llama(folder: Path, *, split: str = "llama3", qwen: bool = False, **changes: Any) -> Any:
    """Llama 3's layout, or Qwen2's; with `sentencepiece` Llama 2's tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    bare, begin = changes.pop("bare", False), changes.pop("begin", "<|im_start|>")
    if split == "sentencepiece":
        tokenizer = llama2_tokenizer(folder)
        begin, end = "<s>", "</s>"
    else:
        end = "<|im_end|>"
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=byte_level_file(split), bos_token=begin, eos_token=end
        )
    tokenizer.save_pretrained(folder)
    special = {"bos_token_id": begin, "eos_token_id": end}
    ids = {key: tokenizer.convert_tokens_to_ids(token) for key, token in special.items()}
    rows = len(tokenizer) + changes.pop("spare", 0)
    kind, maker = (
        (transformers.Qwen2Config, transformers.Qwen2ForCausalLM)
        if qwen
        else (transformers.LlamaConfig, transformers.LlamaForCausalLM)
    )
    model = randomised(maker(kind(**SHAPE | ids | {"vocab_size": rows, "pad_token_id": None} | changes)))
    (model.model if bare else model).save_pretrained(folder)
    return model, tokenizer


def llama2_tokenizer(folder: Path) -> Any:
    """BPE of sentencepiece's with bytes, as a tokenizer.json: a space in front of each text."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    made.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")]
    )
    decoders = tokenizers.decoders
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    made.train_from_iterator(
        [line.replace(" ", "▁") for line in imported_text.lines()],
        tokenizers.trainers.BpeTrainer(vocab_size=600, special_tokens=names, show_progress=False),
    )
    tree = json.loads(made.to_str())
    tree["added_tokens"] = [one for one in tree["added_tokens"] if one["id"] < 3]
    whole = tokenizers.Tokenizer.from_str(json.dumps(tree))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=whole, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


VARIANTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "gpt2": (gpt2, {}),
    "gpt2 merges": (gpt2, {"fast": False, "bare": True, "n_inner": 40, "activation_function": "relu"}),
    "llama 3": (
        llama,
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500.0,
                "factor": 4.0,
                "original_max_position_embeddings": 24,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
            },
            "begin": "<|endoftext|>",
            "spare": 5,
        },
    ),
    "llama 2": (llama, {"split": "sentencepiece", "num_key_value_heads": 4, "rms_norm_eps": 1e-5}),
    "smollm2": (llama, {"split": "smollm", "tie_word_embeddings": True, "num_key_value_heads": 1, "bare": True}),
    "llama biases": (
        llama,
        {
            "attention_bias": True,
            "mlp_bias": True,
            "head_dim": 8,
            "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
            "num_hidden_layers": 1,
        },
    ),
    "qwen2": (llama, {"split": "qwen2", "qwen": True, "tie_word_embeddings": True, "begin": "<|endoftext|>"}),
    "gpt2 untied": (gpt2, {"tie_word_embeddings": False, "n_layer": 1, "layer_norm_epsilon": 1e-3}),
}
"""Folders as they differ in the wild."""
