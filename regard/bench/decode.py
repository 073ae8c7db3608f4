"""Decoding, ours and transformers' Marian model: the same weights, the same sentences, the same number of steps.

32 tokens in and exactly 32 out, encoding included, greedy and with a beam of 4; bf16 weights on a GPU, float32 on the
CPU; nothing is compiled. Outputs of equal length rank alike under any length penalty.

Besides our own base model: one of the same size with the parts of an imported OPUS-MT, and on a GPU NLLB-600M's shape.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.assemble import build_model
from regard.bench._benchmark import Benchmark, Row, Setting, Work
from regard.bench._compare import compare
from regard.bench._marian import IMPORTED, marian_like
from regard.decoding.beam import beam
from regard.decoding.greedy import greedy
from regard.decoding.rules import MinLength
from regard.types import END

__all__ = ["Decode"]

LENGTH = 32
LENGTH_PENALTY = 0.6
NLLB = {"width": 1024, "layers": 12, "heads": 16, "feed_forward": 4096, "norm": "pre", "position": "sinusoidal_halves"}
NLLB_VOCABULARY = 256_206


class Decode(Benchmark):
    """Output tokens per second."""

    title = "decoding"
    peer = "Marian"
    needs = ("transformers",)

    def rows(self, setting: Setting) -> Iterator[Row]:
        gpu = setting.device.type == "cuda"
        preset, vocabulary = ("tiny", 500) if setting.quick else ("base", 37_000 if gpu else 16_000)
        base: dict[str, Any] = {"preset": preset, **({"layers": 1} if setting.quick else {})}
        yield from _rows(setting, preset, base, vocabulary)
        yield from _rows(setting, f"{preset} as imported from Marian", {**base, **IMPORTED}, vocabulary)
        if gpu and not setting.quick:
            yield from _rows(setting, "NLLB-600M's shape", NLLB, NLLB_VOCABULARY)


def _rows(setting: Setting, shape: str, tree: dict[str, Any], vocabulary: int) -> Iterator[Row]:
    gpu = setting.device.type == "cuda"
    sizes = (2,) if setting.quick else (1, 64, 512) if gpu else (1, 32)
    names = {
        (sentences, width): f"decode {shape}, vocabulary {vocabulary:,}, batch {sentences}, "
        + ("greedy" if width == 1 else f"beam {width}")
        for sentences in sizes
        for width in (1, 4)
    }
    if not any(map(setting.wants, names.values())):
        return  # a large model takes a while to build
    ours = build_model(tree, vocabulary).eval()
    marian = marian_like(ours)
    precision = torch.bfloat16 if gpu else torch.float32
    for (sentences, width), name in names.items():
        if setting.wants(name):
            source = torch.randint(4, vocabulary, (sentences, LENGTH), device=setting.device)
            source[:, -1] = END
            yield compare(
                setting,
                name,
                sentences * LENGTH,
                partial(work, our_output, ours, precision, source, width),
                partial(work, marian_output, marian, precision, source, width),
                rounds=2 if setting.quick else 7 if gpu else 5,
                seconds=0.0 if setting.quick else 0.3,
            )


def work(output: Callable, model: Any, precision: torch.dtype, source: Tensor, width: int) -> Work:
    """A copy per row, so that each row's memory includes the weights."""
    copied = copy.deepcopy(model).to(source.device, precision)
    return lambda: output(copied, source, width)


@torch.inference_mode()
def our_output(model: Any, source: Tensor, width: int, length: int = LENGTH) -> list[list[int]]:
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    limits = torch.full((len(source),), length)
    rules = [MinLength(length)]
    if width == 1:
        return [found.ids for found in greedy(model.decoder, memory, max_lengths=limits, rules=rules)]
    found = beam(model.decoder, memory, max_lengths=limits, width=width, length_penalty=LENGTH_PENALTY, rules=rules)
    return [best.ids for best, *_ in found]


@torch.inference_mode()
def marian_output(model: Any, source: Tensor, width: int) -> list[list[int]]:
    ranking = {"length_penalty": LENGTH_PENALTY} if width > 1 else {}
    output = model.generate(
        input_ids=source,
        attention_mask=torch.ones_like(source),
        min_new_tokens=LENGTH,
        max_new_tokens=LENGTH,
        num_beams=width,
        do_sample=False,
        **ranking,
    )
    return output[:, 1:].tolist()
