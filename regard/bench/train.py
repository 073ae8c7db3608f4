"""Training steps, ours and transformers' Marian model: the same weights, batch, dropout, loss and optimizer.

A step is forward, label-smoothed loss, backward, AdamW; bf16 autocast on a GPU, float32 on the CPU. On a GPU our layers
are compiled and our step is a CUDA graph, as in a long training; so there is a second, compiled peer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.assemble import build_model
from regard.bench._benchmark import Benchmark, Row, Setting, Work
from regard.bench._compare import compare
from regard.bench._marian import marian_like
from regard.bench._torch_transformer import TorchTransformer, plain_loss
from regard.device import mixed_precision
from regard.layers.compile_layers import compile_layers
from regard.training.cuda_graph import CudaGraphs
from regard.types import BEGIN, END, PAD, Batch

__all__ = ["Train"]

SMOOTHING = 0.1
# preset, vocabulary, sentences, tokens in each (source and target)
QUICK = [("tiny", 500, 8, 8)]
CPU = [("small", 8_000, 64, 24), ("small", 8_000, 32, 32), ("base", 16_000, 16, 24)]
GPU = [("base", 37_000, 784, 32), ("base", 37_000, 250, 100)]


class Train(Benchmark):
    """Target tokens per second."""

    title = "training"
    peer = "Marian"
    needs = ("transformers",)

    def rows(self, setting: Setting) -> Iterator[Row]:
        gpu = setting.device.type == "cuda"
        for preset, vocabulary, sentences, length in self._sizes(setting):
            name = f"train {preset}, vocabulary {vocabulary:,}, {sentences} x {length}"
            batch = random_batch(vocabulary, sentences, length).to(setting.device)
            ours = build_model({"preset": preset, "dropout": 0.1}, vocabulary, label_smoothing=SMOOTHING)
            peers = {name: partial(work, marian_loss, marian_like(ours), batch)}
            if gpu:  # as `regard train` does it there
                compile_layers(ours)
                plain = TorchTransformer(vocabulary, 512, 8, 6, 2048, SMOOTHING)
                peers[f"{name}, beside nn.Transformer compiled"] = partial(work, plain_loss, plain, batch)
            for title, theirs in peers.items():
                if setting.wants(title):
                    yield compare(
                        setting,
                        title,
                        batch.units,
                        partial(work, our_loss, ours, batch, cuda_graph=gpu),
                        theirs,
                        rounds=3 if setting.quick else 7,
                        seconds=0.05 if setting.quick else 0.3,
                    )

    @staticmethod
    def _sizes(setting: Setting) -> list[tuple[str, int, int, int]]:
        return QUICK if setting.quick else GPU if setting.device.type == "cuda" else CPU


def work(loss: Callable[[Any, Batch], Tensor], model: nn.Module, batch: Batch, cuda_graph: bool = False) -> Work:
    device = batch.source.device
    model.to(device).train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
    precision = mixed_precision("auto", device)

    def add_gradients(batch: Batch) -> Tensor:
        with torch.autocast(device.type, precision) if precision else contextlib.nullcontext():
            value = loss(model, batch)
        value.backward()
        return value.detach()

    compute = CudaGraphs(add_gradients, note=print) if cuda_graph else add_gradients

    def step() -> None:
        compute(batch)
        optimizer.step()
        optimizer.zero_grad(set_to_none=not cuda_graph)

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
    """Sentences of equal length, without padding."""
    source, target = torch.randint(4, vocabulary, (2, sentences, length + 1))
    source = source[:, 1:].contiguous()
    source[:, -1] = target[:, -1] = END
    target[:, 0] = BEGIN
    return Batch(source, source != PAD, target, target != BEGIN, sentences * length)
