"""Decoding, ours and transformers' Marian model: the same weights, the same sentences, the same number of steps.

32 tokens in and exactly 32 out, encoding included, greedy and with a beam of 4; bf16 weights on a GPU, float32 on the
CPU; nothing is compiled. Outputs of equal length rank alike under any length penalty.
Run it as `python bench/decode.py` or `python -m bench.decode`.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # as a script it finds bench and regard, too

import torch
from torch import Tensor

from bench.compare import Row, Work, compare, run
from bench.marian import marian_like
from regard.assemble import build_model
from regard.decoding.beam import beam
from regard.decoding.greedy import greedy
from regard.decoding.rules import MinLength
from regard.types import END

LENGTH = 32
LENGTH_PENALTY = 0.6
BATCHES = {"cpu": (1, 32), "cuda": (1, 64, 512)}


def measure(device: torch.device, quick: bool) -> Iterator[Row]:
    preset, vocabulary = ("tiny", 500) if quick else ("base", 16_000 if device.type == "cpu" else 37_000)
    ours = build_model({"preset": preset, **({"layers": 1} if quick else {})}, vocabulary).eval()
    marian = marian_like(ours)
    precision = torch.bfloat16 if device.type == "cuda" else torch.float32
    for sentences in (2,) if quick else BATCHES.get(device.type, BATCHES["cpu"]):
        source = torch.randint(4, vocabulary, (sentences, LENGTH), device=device)
        source[:, -1] = END
        for width in (1, 4):
            search = "greedy" if width == 1 else f"beam {width}"
            yield compare(
                f"decode {preset}, vocabulary {vocabulary:,}, batch {sentences}, {search}",
                sentences * LENGTH,
                partial(work, our_output, ours, precision, source, width),
                partial(work, marian_output, marian, precision, source, width),
                device,
                rounds=2 if quick else 7 if device.type == "cuda" else 5,
                seconds=0.0 if quick else 0.3,
            )


def work(output: Callable, model: Any, precision: torch.dtype, source: Tensor, width: int) -> Work:
    """A copy for each row, so that each row's memory counts the weights."""
    copied = copy.deepcopy(model).to(source.device, precision)
    return lambda: output(copied, source, width)


@torch.inference_mode()
def our_output(model: Any, source: Tensor, width: int) -> list[list[int]]:
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    limits = torch.full((len(source),), LENGTH)
    rules = [MinLength(LENGTH)]
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


def main(arguments: list[str] | None = None) -> int:
    return run("decoding", measure, arguments, "Marian")


if __name__ == "__main__":
    sys.exit(main())
