"""Language models: `generate` of ours and of transformers, the same weights, prompts and numbers of tokens.

A model of SmolLM2-135M's shape with random weights, in one folder of each kind. 32 tokens are read and exactly as many
written as a row says. On a GPU both compute in bfloat16, in one process, in turns; on the CPU transformers computes in
float32, each side in a process of its own, and memory is what that had at most above an idle one that imported torch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.assemble import build_model, resolve_model
from regard.bench._benchmark import Benchmark, Row, Setting, Work
from regard.bench._compare import compare
from regard.bench._process import PAUSE, MeasuredProcess, idle_mib, take_turns
from regard.config import recipe_from_dict
from regard.data.tokenizer._base import SPECIALS
from regard.data.tokenizer.word import Word
from regard.decoding.rules import MinLength
from regard.interchange.families.llama import Llama
from regard.loading import load, model_files
from regard.storage import write_folder
from regard.types import BEGIN, END, PAD

__all__ = ["Generate"]

SMOLLM2: dict[str, Any] = {"width": 576, "layers": 30, "heads": 9, "feed_forward": 1536}
QUICK: dict[str, Any] = {"width": 24, "layers": 2, "heads": 3, "feed_forward": 32}
PROMPT, CONTEXT = 32, 2048
SAMPLING = {"temperature": 0.8, "top_k": 40}
GOALS = {"int8": 1.5, 1: 5.0, 64: 3.0}
OURS = "from regard.bench._process import serve; from regard.bench.generate import our_work; serve(our_work)"
THEIRS = "from regard.bench._process import serve; from regard.bench.generate import their_work; serve(their_work)"


class Generate(Benchmark):
    """Output tokens per second."""

    title = "language models"
    peer = "transformers"
    needs = ("transformers",)

    def rows(self, setting: Setting) -> Iterator[Row]:
        gpu = setting.device.type == "cuda"
        length = 8 if setting.quick else 128 if gpu else 64
        wanted = [
            (name, precision, batch, sampled)
            for precision in (("bfloat16",) if gpu else ("float32", "int8"))
            for batch in ((1, 64) if gpu else (1,))
            for sampled in (False, True)
            if setting.wants(
                name := f"generate {'tiny' if setting.quick else '135M'} Llama, {precision}, batch {batch}, "
                f"{length} tokens, {'sampling' if sampled else 'greedy'}"
            )
        ]
        if not wanted:
            return
        with tempfile.TemporaryDirectory() as place:
            shape, vocabulary = (QUICK, 500) if setting.quick else (SMOLLM2, 49_152)
            ours, theirs = random_model(Path(place), shape, vocabulary)
            for name, precision, batch, sampled in wanted:
                how = {"batch": batch, "length": length, "sampled": sampled, "device": str(setting.device)}
                us = {"folder": str(ours), "precision": precision, **how}
                them = {"folder": str(theirs), "precision": "bfloat16" if gpu else "float32", **how}
                row = _in_turns(setting, name, us, them) if gpu else _apart(setting, name, us, them)
                if (goal := GOALS.get(batch if gpu else precision)) and not setting.quick:
                    row.goal, row.met = f">= {goal}", row.verdict >= goal
                yield row


def random_model(place: Path, shape: dict[str, Any], vocabulary: int) -> tuple[Path, Path]:
    """One model with random weights, as a folder of ours and of transformers."""
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.utils import logging

    tree = {
        **shape,
        "kind": "language_model",
        "dropout": 0.0,
        "norm": "pre",
        "norm_kind": "rms",
        "activation": "silu",
        "gated": True,
        "bias": False,
        "position": "none",
        "relative_position": {"kind": "rotary", "base": 100_000.0},
        "attention": {"kind": "multi_head", "kv_heads": shape["heads"] // 3},
        "scale": False,
    }
    model = build_model(tree, vocabulary)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    tokenizer = Word([f"▁t{i}" for i in range(len(SPECIALS), vocabulary)])
    recipe = recipe_from_dict({"task": "generate", "model": resolve_model(tree), "data": {"max_length": CONTEXT}})
    ours, theirs = place / "model", place / "transformers"
    write_folder(ours, model_files(recipe, tokenizer, weights, "float32"))

    family, logged = Llama("llama"), logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    peer = LlamaForCausalLM(LlamaConfig(**family.config(recipe, vocabulary, BEGIN, END)))
    with torch.no_grad():
        for entry in family.entries(recipe.model["decoder"]):
            weight = weights[entry.ours]
            parts = entry.split(weight) if entry.split else (weight,)
            for name, part in zip(entry.theirs, parts, strict=True):
                peer.get_parameter(name).copy_(part)
    peer.save_pretrained(theirs)
    if logged:
        logging.enable_progress_bar()
    return ours, theirs


def prompt_ids(vocabulary: int) -> list[int]:
    drawn = torch.randint(len(SPECIALS), vocabulary, (PROMPT,), generator=torch.Generator().manual_seed(1))
    return drawn.tolist()


def our_work(folder: str, precision: str, batch: int, length: int, sampled: bool, device: str) -> Work:
    """`generate` as users call it; END is forbidden until the end."""
    model: Any = load(folder, device, "generate", precision)
    model.rules = [*model.rules, MinLength(PROMPT + length)]
    prompt = model.tokenizer.decode(prompt_ids(len(model.tokenizer)))
    assert len(model.encode(prompt)) == PROMPT
    options = SAMPLING if sampled else {"top_k": 1}

    def work() -> list[list[str]]:
        found = [one.tokens for one in model.generate(prompt, count=batch, length=length, **options)]
        if any(len(tokens) != length for tokens in found):
            raise AssertionError(f"not every output has {length} tokens")
        return found

    return work


def their_work(folder: str, precision: str, batch: int, length: int, sampled: bool, device: str) -> Work:
    """`generate` of transformers, which takes the prompts as one tensor."""
    from transformers import LlamaForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    model: Any = LlamaForCausalLM.from_pretrained(folder, dtype=getattr(torch, precision)).eval().to(device)
    ids = torch.tensor([[BEGIN, *prompt_ids(model.config.vocab_size)]] * batch, device=device)
    options = {"do_sample": True, **SAMPLING} if sampled else {"do_sample": False}

    @torch.inference_mode()
    def work() -> list[list[int]]:
        output = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            min_new_tokens=length,
            max_new_tokens=length,
            pad_token_id=PAD,
            **options,
        )
        found = output[:, ids.shape[1] :].tolist()
        if any(len(row) != length for row in found):
            raise AssertionError(f"not every output has {length} tokens")
        return found

    return work


def _in_turns(setting: Setting, name: str, us: dict[str, Any], them: dict[str, Any]) -> Row:
    amount = us["batch"] * us["length"]
    return compare(setting, name, amount, partial(our_work, **us), partial(their_work, **them), rounds=5)


def _apart(setting: Setting, name: str, us: dict[str, Any], them: dict[str, Any]) -> Row:
    setting.note(f"measuring {name} ...")
    amount = us["batch"] * us["length"]
    with ExitStack() as stack:
        both = [stack.enter_context(MeasuredProcess(code, **how)) for code, how in ((OURS, us), (THEIRS, them))]
        take_turns(both, 2 if setting.quick else 5, 0.0 if setting.quick else PAUSE)
        a, b = (amount / side.median() for side in both)
        idle = idle_mib("torch")
        held = [None if idle is None or (peak := side.memory()) is None else peak - idle for side in both]
    return Row(name, a, b, a / b, held[0], held[1])
