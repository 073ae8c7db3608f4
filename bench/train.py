"""Training steps, ours and transformers' Marian model: the same weights, batch, dropout, loss and optimizer.

A step is forward, label-smoothed loss, backward, AdamW; bf16 autocast on a GPU, float32 on the CPU; nothing compiled.
Run it as `python bench/train.py` or `python -m bench.train`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # as a script it finds bench and regard, too

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.compare import Row, Work, compare, run
from bench.marian import marian_like
from regard.assemble import build_model
from regard.device import mixed_precision
from regard.types import BEGIN, END, PAD, Batch

SMOOTHING = 0.1
# preset, vocabulary, sentences, tokens in each (source and target)
QUICK = [("tiny", 500, 8, 8)]
CPU = [("small", 8_000, 64, 24), ("small", 8_000, 32, 32), ("base", 16_000, 16, 24)]
GPU = [("base", 37_000, 784, 32), ("base", 37_000, 250, 100)]


def measure(device: torch.device, quick: bool) -> Iterator[Row]:
    for preset, vocabulary, sentences, length in QUICK if quick else CPU if device.type == "cpu" else GPU:
        ours = build_model({"preset": preset, "dropout": 0.1}, vocabulary, label_smoothing=SMOOTHING)
        marian = marian_like(ours)
        batch = random_batch(vocabulary, sentences, length).to(device)
        yield compare(
            f"train {preset}, vocabulary {vocabulary:,}, {sentences} x {length}",
            batch.units,
            partial(work, our_loss, ours, batch),
            partial(work, marian_loss, marian, batch),
            device,
            rounds=3 if quick else 7,
            seconds=0.05 if quick else 0.3,
        )


def work(loss: Callable[[Any, Batch], Tensor], model: nn.Module, batch: Batch) -> Work:
    device = batch.source.device
    model.to(device).train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
    precision = mixed_precision("auto", device)

    def step() -> None:
        with torch.autocast(device.type, precision) if precision else contextlib.nullcontext():
            value = loss(model, batch)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def our_loss(model: Any, batch: Batch) -> Tensor:
    loss = model.loss(batch)
    return loss.total / loss.units


def marian_loss(model: Any, batch: Batch) -> Tensor:
    output = model(
        input_ids=batch.source,
        attention_mask=batch.source_mask,
        decoder_input_ids=batch.target[:, :-1],
        use_cache=False,
    )
    logits, wanted = output.logits.flatten(0, 1).float(), batch.target[:, 1:].flatten()
    return F.cross_entropy(logits, wanted, ignore_index=PAD, label_smoothing=SMOOTHING)


def random_batch(vocabulary: int, sentences: int, length: int) -> Batch:
    """Sentences of equal length: nothing is padded."""
    source, target = torch.randint(4, vocabulary, (2, sentences, length + 1))
    source = source[:, 1:].contiguous()
    source[:, -1] = target[:, -1] = END
    target[:, 0] = BEGIN
    return Batch(source, source != PAD, target, target != BEGIN, sentences * length)


def main(arguments: list[str] | None = None) -> int:
    return run("training", measure, arguments, "Marian")


if __name__ == "__main__":
    sys.exit(main())
