"""The datastores of a batch: the decoder's hidden states while it reads the translations of a memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from regard.data.batching import pad, sorted_batches
from regard.decoding.nearest_neighbours import Datastore
from regard.model.seq2seq import Seq2Seq
from regard.task._writing import longest_text
from regard.types import BEGIN, END, Memory

if TYPE_CHECKING:
    from regard.task.translate import Translator

BATCH_TOKENS = 1024
LONGEST_PAIR = 512
"""Tokens; longer pairs of a memory are not leant on."""


class EncodedPair(NamedTuple):
    """A text as the encoder reads it, and the tokens of its translation."""

    source: list[int]
    target: list[int]


def encoded_pairs(
    translator: Translator, pairs: Sequence[Sequence[tuple[list[int], str]]], forced: int
) -> list[list[EncodedPair]]:
    """Those that the model's positions suffice for; `forced` is the number of tokens before a translation."""
    encode, longest = translator.tokenizer.target.encode, longest_text(translator.model) or LONGEST_PAIR
    return [
        [
            EncodedPair(translator.source_row(ids), target)
            for ids, text in some
            if max(len(ids), len(target := encode(text)) + forced) + 1 < longest
        ]
        for some in pairs
    ]


@torch.inference_mode()
def datastores(
    model: Seq2Seq,
    encode: Callable[[Tensor, Tensor], Memory],
    neighbours: Sequence[Sequence[EncodedPair]],
    prefix: Sequence[int],
    device: torch.device,
) -> list[Datastore]:
    """One for each sentence, of all its pairs. A pair that several sentences share is read once."""
    numbers: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    rows = [
        [numbers.setdefault((tuple(one.source), tuple(one.target)), len(numbers)) for one in some]
        for some in neighbours
    ]
    pairs = [(list(source), list(target)) for source, target in numbers]
    stores = [Datastore(torch.zeros(0, 1), torch.zeros(0, dtype=torch.long))] * len(pairs)
    for indexes in sorted_batches([max(pair, key=len) for pair in pairs], BATCH_TOKENS):
        indexes = sorted(indexes, key=lambda i: -len(pairs[i][0]))
        ids, mask = (tensor.to(device) for tensor in pad([pairs[i][0] for i in indexes]))
        read = pad([[BEGIN, *prefix, *pairs[i][1]] for i in indexes])[0].to(device)
        decoder = model.decoder
        hidden, _ = decoder.advance(read, decoder.start(encode(ids, mask), beams=1, capacity=0))
        for row, index in enumerate(indexes):
            values = torch.tensor([*pairs[index][1], END], device=device)
            stores[index] = Datastore(hidden[row, len(prefix) :][: len(values)], values)
    width = stores[0].keys.shape[1]
    empty = Datastore(torch.zeros(0, width, device=device), torch.zeros(0, dtype=torch.long, device=device))
    return [
        Datastore(torch.cat([stores[n].keys for n in row]), torch.cat([stores[n].values for n in row]))
        if row
        else empty
        for row in rows
    ]
