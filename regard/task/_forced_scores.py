"""The log-probabilities of given translations, batched by length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from regard.data.batching import pad, sorted_batches
from regard.decoding.forced import forced_log_probs
from regard.errors import UserError
from regard.hypothesis import Hypothesis
from regard.special_tokens import END
from regard.task._base_translator import NOTHING
from regard.task._writing import longest_text

if TYPE_CHECKING:
    from regard.task._base_translator import Progress
    from regard.task.translate import Translator

LOGITS = 1 << 27
"""Most logits at a time: 512 MB of float32."""


@torch.inference_mode()
def forced_scores(
    translator: Translator,
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    prefix: Sequence[int],
    batch_tokens: int,
    progress: Progress | None,
    lanes: int,
) -> list[list[float]]:
    """As `token_log_probs` of a translator; sources are padded to a multiple of `lanes`, as for a search."""
    model, device = translator.model, translator.device
    found: list[list[float]] = [[] for _ in sources]
    rows = [translator.source_row(ids) for ids in sources]
    known = longest_text(model)
    for number, (row, wanted) in enumerate(zip(rows, targets, strict=True), 1):
        if known and (longest := max(len(row), len(prefix) + len(wanted))) > known:
            raise UserError(f"text {number} has {longest} tokens and the model's positions end at {known}; split it")
    budget = min(batch_tokens, max(1, LOGITS // len(translator.tokenizer.target)))
    for indexes in sorted_batches([max(pair, key=len) for pair in zip(rows, targets)], budget):
        ids, mask = (tensor.to(device) for tensor in pad([rows[i] for i in indexes], 1 if known else lanes))
        target = pad([targets[i] for i in indexes])[0].to(device)
        forced = torch.tensor([list(prefix)] * len(ids), device=device) if prefix else None
        log_probs = forced_log_probs(model.decoder, translator.encode_batch(ids, mask), target, forced).tolist()
        for index, of_tokens in zip(indexes, log_probs):
            found[index] = of_tokens[: len(targets[index])]
        if progress:
            progress(len(indexes))
    return found


def score_again(
    translator: Translator,
    sources: Sequence[list[int]],
    found: Sequence[list[Hypothesis]],
    prefix: Sequence[int],
    batch_tokens: int,
) -> None:
    """Gives hypotheses the log-probability that the model itself has for them, without a length penalty."""
    pairs = [(source, one) for source, row in zip(sources, found, strict=True) for one in row if one is not NOTHING]
    targets = [[*one.ids[len(prefix) :], *([END] if one.finished else [])] for _, one in pairs]
    rows = [source for source, _ in pairs]
    scores = translator.token_log_probs(rows, targets, prefix=prefix, batch_tokens=batch_tokens)
    for (_, one), of_tokens in zip(pairs, scores, strict=True):
        one.log_probability = one.score = sum(of_tokens)
