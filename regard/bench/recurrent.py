"""Recurrent networks, ours and the same written directly with torch.nn.LSTM: the same weights, padded batch and loss.

First the layers alone, forward and backward over random vectors; then whole training steps of sequence to sequence
without attention: forward, cross-entropy, backward, AdamW. bf16 autocast on a GPU, float32 on the CPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.assemble import build_model
from regard.bench._benchmark import Benchmark, Row, Setting, Work
from regard.bench._compare import compare
from regard.bench.train import our_loss, work
from regard.device import mixed_precision
from regard.layers.recurrence import Recurrence
from regard.types import BEGIN, END, PAD, Batch

__all__ = ["Recurrent"]

LAYERS, DROPOUT = 2, 0.1
# vocabulary, width, sentences, tokens in the longest (the shortest has a third of them)
QUICK = [(300, 16, 8, 9)]
CPU = [(8_000, 256, 64, 24), (8_000, 512, 16, 40)]
GPU = [(32_000, 512, 512, 50), (32_000, 1024, 512, 50)]


class Recurrent(Benchmark):
    """Tokens read, and target tokens trained on, per second."""

    title = "recurrent networks"
    peer = "torch.nn.LSTM"

    def rows(self, setting: Setting) -> Iterator[Row]:
        settings = QUICK if setting.quick else GPU if setting.device.type == "cuda" else CPU
        effort: dict[str, Any] = {"rounds": 3 if setting.quick else 9, "seconds": 0.05 if setting.quick else 0.3}
        for direction in ("forward", "both"):
            for vocabulary, width, sentences, length in settings:
                words = f"{LAYERS} layers of {width}, {direction}, {sentences} x {length // 3}-{length}"
                batch = random_batch(vocabulary, sentences, length).to(setting.device)
                if setting.wants(f"stack, {words}"):
                    stack = Recurrence(width, width, LAYERS, "lstm", direction, DROPOUT)
                    yield compare(
                        setting,
                        f"stack, {words}",
                        int(batch.source_mask.sum()),
                        partial(stack_work, stack, batch.source_mask, width),
                        partial(stack_work, Packed(lstm_like(stack)), batch.source_mask, width),
                        **effort,
                    )
                if setting.wants(f"train, vocabulary {vocabulary:,}, {words}"):
                    ours = our_model(vocabulary, width, direction)
                    yield compare(
                        setting,
                        f"train, vocabulary {vocabulary:,}, {words}",
                        batch.units,
                        partial(work, our_loss, ours, batch),
                        partial(work, plain_loss, plain_like(ours), batch),
                        **effort,
                    )


def our_model(vocabulary: int, width: int, direction: str, dropout: float = DROPOUT) -> Any:
    return build_model(
        {
            "width": width,
            "layers": LAYERS,
            "cell": "lstm",
            "dropout": dropout,
            "encoder": {"kind": "recurrent", "direction": direction},
            "decoder": {"kind": "recurrent", "bridge": "copy"},
        },
        vocabulary,
    )


class Packed(nn.Module):
    """nn.LSTM over a padded batch, as its documentation shows."""

    def __init__(self, layers: nn.LSTM):
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        packed = pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        outputs, last = self.layers(packed)
        return pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])[0], last


class TorchSeq2Seq(nn.Module):
    """A plain sequence-to-sequence model: the final states of one LSTM initialise the other."""

    def __init__(self, vocabulary: int, encoder: nn.LSTM, decoder: nn.LSTM, dropout: float):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, decoder.input_size)
        self.encoder, self.decoder = encoder, decoder
        self.dropout = nn.Dropout(dropout)

    def forward(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        lengths = mask.sum(1).cpu()
        packed = pack_padded_sequence(self.embed(source), lengths, batch_first=True, enforce_sorted=False)
        _, last = self.encoder(packed)
        if self.encoder.bidirectional:
            last = tuple(torch.cat([state[0::2], state[1::2]], -1) for state in last)
        outputs, _ = self.decoder(self.embed(target), last)
        return F.linear(self.dropout(outputs), self.embedding.weight)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.embedding.embedding_dim**0.5)


def plain_like(ours: Any) -> TorchSeq2Seq:
    """The peer with our weights."""
    encoder, decoder = lstm_like(ours.encoder.recurrence), lstm_like(ours.decoder.recurrence)
    table = ours.stem.embedding.table.weight
    theirs = TorchSeq2Seq(len(table), encoder, decoder, ours.decoder.dropout.p)
    with torch.no_grad():
        theirs.embedding.weight.copy_(table)
    return theirs


def lstm_like(ours: Recurrence) -> nn.LSTM:
    """An nn.LSTM with our weights; its second bias is 0."""
    first: Any = ours.cells[0]
    inputs, width = first.inward.shape[1], first.width
    theirs = nn.LSTM(inputs, width, ours.layers, True, True, ours.dropout, ours.directions == 2)
    with torch.no_grad():
        for our_weight, their_weight in same_weights(ours, theirs):
            their_weight.copy_(our_weight)
        for name, bias in theirs.named_parameters():
            if name.startswith("bias_hh"):
                bias.zero_()
    return theirs


def same_weights(ours: Recurrence, theirs: nn.LSTM) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs of our weights and the corresponding ones of nn.LSTM."""
    for number in range(ours.layers):
        for cell, way in zip(ours.layer(number), ("", "_reverse")):
            for weight, name in ((cell.inward, "weight_ih"), (cell.recurrent, "weight_hh"), (cell.bias, "bias_ih")):
                yield weight, getattr(theirs, f"{name}_l{number}{way}")


def stack_work(layers: nn.Module, mask: Tensor, width: int) -> Work:
    device = mask.device
    layers.to(device).train()
    x = torch.randn(*mask.shape, width, device=device, requires_grad=True)
    precision = mixed_precision("auto", device)

    def step() -> None:
        with torch.autocast(device.type, precision) if precision else contextlib.nullcontext():
            outputs, _ = layers(x, mask)
        outputs.backward(outputs.detach())
        layers.zero_grad()
        x.grad = None

    return step


def plain_loss(model: Any, batch: Batch) -> Tensor:
    logits = model(batch.source, batch.source_mask, batch.target[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), batch.target[:, 1:].flatten(), ignore_index=PAD)


def random_batch(vocabulary: int, sentences: int, length: int) -> Batch:
    """Sentences of random lengths, from a third of the longest up."""
    source, target = (random_ids(vocabulary, sentences, length) for _ in range(2))
    target = F.pad(target, (1, 0), value=BEGIN)
    mask = (target != PAD) & (target != BEGIN)
    return Batch(source, source != PAD, target, mask, int(mask.sum()))


def random_ids(vocabulary: int, sentences: int, length: int) -> Tensor:
    ids = torch.randint(4, vocabulary, (sentences, length))
    lengths = torch.randint(length // 3, length + 1, (sentences, 1))
    lengths[0] = length
    places = torch.arange(length)
    return ids.masked_fill(places == lengths - 1, END).masked_fill(places >= lengths, PAD)
