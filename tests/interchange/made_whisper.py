"""Hugging Face folders of tiny Whisper models with random weights, made by transformers' own save_pretrained."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers

from tests.data import imported_text
from tests.interchange.made_language_models import randomised

RATE = 16_000
PLACES = 100
"""Of a window of two seconds."""
END, START = "<|endoftext|>", "<|startoftranscript|>"
TAGS = ("<|en|>", "<|de|>", "<|jw|>")
TASKS = ("<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>")
TIMES = tuple(f"<|{step * 0.02:.2f}|>" for step in range(PLACES + 1))


@cache
def text_pieces() -> tokenizers.ByteLevelBPETokenizer:
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(imported_text.lines(), vocab_size=330, show_progress=False)
    return made


def whisper(
    folder: Path,
    *,
    tags: tuple[str, ...] = TAGS,
    named_times: bool = True,
    merges: bool = False,
    binary: bool = False,
    **changes: Any,
) -> tuple[Any, Any]:
    """A folder with tokenizer.json, in which tokens of time have a name or not, or with vocab.json and merges.txt alone.
    Without tags it knows English alone."""
    folder.mkdir(parents=True, exist_ok=True)
    tree = json.loads(text_pieces()._tokenizer.to_str())
    tree["model"]["vocab"][""] = len(tree["model"]["vocab"])  # the published ones have it, too
    raw = tokenizers.Tokenizer.from_str(json.dumps(tree))
    raw.add_special_tokens([END, START, *tags, *TASKS])
    if named_times:
        raw.add_tokens([*TIMES])
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token=END, eos_token=END, unk_token=END, pad_token=END
    )
    tokenizer.save_pretrained(folder)
    if merges:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name).unlink()
        text_pieces().save_model(str(folder))
        added = {one: tokenizer.convert_tokens_to_ids(one) for one in (END, START, *tags, *TASKS)}
        vocabulary = tree["model"]["vocab"] | {END: added.pop(END)}
        (folder / "vocab.json").write_text(json.dumps(vocabulary))
        (folder / "added_tokens.json").write_text(json.dumps(added))
        (folder / "special_tokens_map.json").write_text(json.dumps({"eos_token": END, "unk_token": END}))
    ids = {piece: tokenizer.convert_tokens_to_ids(piece) for piece in (END, START, *tags, *TASKS)}
    bare = changes.pop("bare", False)
    settings = {
        "vocab_size": ids["<|notimestamps|>"] + 1 + len(TIMES),
        "num_mel_bins": 80,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 40,
        "decoder_ffn_dim": 48,
        "d_model": 24,
        "max_source_positions": PLACES,
        "max_target_positions": 40,
        "decoder_start_token_id": ids[START],
        "bos_token_id": ids[END],
        "eos_token_id": ids[END],
        "pad_token_id": ids[END],
        "begin_suppress_tokens": None,
        "suppress_tokens": None,
    }
    config = transformers.WhisperConfig(**settings | changes)
    model = transformers.WhisperForConditionalGeneration(config)
    places = model.model.encoder.embed_positions.weight.clone()
    randomised(model)
    with torch.no_grad():
        model.model.encoder.embed_positions.weight.copy_(places)
    generation = transformers.GenerationConfig(
        decoder_start_token_id=ids[START],
        bos_token_id=ids[END],
        eos_token_id=ids[END],
        pad_token_id=ids[END],
        max_length=config.max_target_positions,
        suppress_tokens=[7, 9, ids[START], *(ids[one] for one in (*tags, *TASKS[:-1]))],
        begin_suppress_tokens=[220, ids[END]],
        no_timestamps_token_id=ids["<|notimestamps|>"],
        max_initial_timestamp_index=50,
        is_multilingual=bool(tags),
        return_timestamps=False,
        **({"lang_to_id": {tag: ids[tag] for tag in tags}} if tags else {}),
        **({"task_to_id": {one[2:-2]: ids[one] for one in TASKS[:2]}} if tags else {}),
    )
    model.generation_config = generation
    (model.model if bare else model).save_pretrained(folder)
    generation.save_pretrained(folder)
    extractor(config).save_pretrained(folder)
    if binary:
        (folder / "model.safetensors").unlink()
        torch.save((model.model if bare else model).state_dict(), folder / "pytorch_model.bin")
    return model, tokenizer


def extractor(config: Any) -> Any:
    return transformers.WhisperFeatureExtractor(
        feature_size=config.num_mel_bins, chunk_length=config.max_source_positions // 50
    )


def sound(seconds: float, seed: int = 0) -> np.ndarray:
    """Tones and noise that change all the time."""
    draw = np.random.default_rng(seed)
    time = np.arange(round(seconds * RATE)) / RATE
    pitch = 200 + 150 * np.sin(2 * np.pi * time / draw.uniform(0.3, 0.9))
    tones = np.sin(2 * np.pi * np.cumsum(pitch) / RATE) * (0.3 + 0.2 * np.sin(7 * time))
    return (tones + 0.05 * draw.standard_normal(len(time))).astype(np.float32)
