"""Translation: text in, text out, with scores, tokens and alignments for those who ask."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, cast, overload

import numpy as np
import torch
from torch import Tensor, nn

from regard.config import Recipe
from regard.data import tokenizer as tokenizers
from regard.data.batching import Batches, pad, sorted_batches
from regard.data.corpus.preparing import named_pairs, prepare, training_pairs
from regard.data.corpus.reading import Pair
from regard.data.input.text import PlainText
from regard.data.normalise import plain
from regard.data.ragged import Sentences
from regard.data.tokenizer._base import Tokenizer
from regard.decoding.cancellation import Cancelled, cancellation
from regard.decoding.rules import loops_allowed
from regard.errors import UserError
from regard.evaluation.translation import corpus_scores
from regard.layers.capture import capture
from regard.layers.cross_entropy import token_loss
from regard.layers.observable import Observable
from regard.model.seq2seq import Seq2Seq
from regard.task._base import Prepared, Task
from regard.task._one_or_many import one_or_many
from regard.task._splitting import sentences, split_long
from regard.task._translation import Translation, TranslationOptions
from regard.task._writing import longest_text, search
from regard.types import BEGIN, END, Hypothesis, Memory, Validation, concatenate
from regard.word_alignment import average, links, word_matrix

if TYPE_CHECKING:
    from regard.inspection.trace.translation import Look

__all__ = ["Translator", "Translation"]

ON_CPU = 1024
"""Tokens that a CPU translates together: more would not fit its cache."""
LANES = 16
"""Numbers that a CPU adds at once. Sums over a multiple of them do not change, to the last bit, when zeros of padding
are added: so that a sentence's translation does not depend on what it is translated with."""
NOTHING = Hypothesis([], 0.0, 0.0, finished=False)
"""What is found for a sentence that nobody waits for."""
Warn = Callable[[str], None]
Progress = Callable[[int], None]


class Translator(Task):
    """A model with its tokenizer and recipe: everything needed to translate."""

    usual: ClassVar[dict[str, Any]] = {"kind": "seq2seq"}
    unit: ClassVar[str] = "tokens"
    usage: ClassVar[str] = "translate --model {model} '...'"
    public: ClassVar[tuple[str, ...]] = ("tokenizer",)

    @classmethod
    def codec(cls, recipe: Recipe, files: Mapping[str, bytes]) -> Tokenizer:
        return tokenizers.from_files(files)

    @classmethod
    def settle(cls, recipe: Recipe) -> Recipe:
        if not recipe.data.source and not recipe.data.format:
            raise UserError("data.source: nothing to train on; give --source FILE and --target FILE, or a recipe")
        training_pairs(recipe.data)  # files that are not there are refused
        return recipe

    @classmethod
    def prepare(
        cls, recipe: Recipe, place: Path, known: Mapping[str, bytes], same: bool, note: Callable[[str], None]
    ) -> Prepared:
        tokenizer, pack, valid = prepare(recipe, place, known, note)
        alpha = float(recipe.tokenizer.get("sampling", 0.0))

        def resample(sentences: Sentences, seeds: np.ndarray) -> Sentences:
            return tokenizer.resample(sentences, seeds, alpha)

        stream = Batches(
            pack,
            batch_tokens=recipe.training.batch_tokens,
            seed=recipe.seed,
            window=recipe.data.window,
            workers=recipe.data.workers,
            sample=(resample, resample) if alpha else None,
        )
        step = max(1, len(valid) // recipe.data.valid_limit)
        return Prepared(tokenizer, stream, valid[::step][: recipe.data.valid_limit])

    @classmethod
    def tests(cls, recipe: Recipe) -> list[Pair]:
        return named_pairs(recipe.data, "test") if recipe.data.format else []

    def inputs(self, valid: Sequence[Pair]) -> list[str]:
        return [source for source, _ in valid]

    def judge(self, valid: Sequence[Pair]) -> Validation:
        """Translates greedily and scores that; also the loss a token, without label smoothing."""
        settings = self.recipe.training
        outputs = [t.text for t in self.translate(self.inputs(valid), beam=1, batch_tokens=settings.batch_tokens)]
        scores = corpus_scores(outputs, [reference for _, reference in valid])
        shown = range(0, len(outputs), max(1, len(outputs) // max(1, settings.samples)))
        return Validation(
            {"bleu": scores.bleu, "chrf": scores.chrf, "loss": self.loss(valid, settings.batch_tokens)},
            [(valid[i][0], outputs[i], valid[i][1]) for i in shown][: settings.samples],
        )

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, model: nn.Module, device: torch.device):
        self.recipe, self.tokenizer, self.device = recipe, tokenizer, device
        self.model = cast(Seq2Seq, model.to(device).eval())

    @overload
    def translate(self, texts: str, **options: Unpack[TranslationOptions]) -> Translation: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, texts: Iterable[str], **options: Unpack[TranslationOptions]) -> list[Translation]: ...
    def translate(self, texts: Any, **options: Unpack[TranslationOptions]) -> Any:
        """The translation of a text, or the list of those of many, in order.

        An empty text stays empty; one too long for the model is split (see `warn`).
        """
        return one_or_many(texts, PlainText(), lambda accepted: self._translate(accepted, **options))

    def _translate(
        self,
        texts: list[str],
        *,
        beam: int | None = None,
        n_best: int = 1,
        length_penalty: float | None = None,
        max_length: int | None = None,
        batch_tokens: int | None = None,
        alignment: bool = False,
        warn: Warn | None = None,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> list[Translation]:
        settings = self.recipe.decoding
        width = settings.beam if beam is None else beam
        self._check(width, n_best, length_penalty, max_length, batch_tokens)
        parts = [self.parts(text, number, warn) for number, text in enumerate(texts, 1)]
        flat = [part for row in parts for part in row]
        owners = [number for number, row in enumerate(parts) for _ in row]
        sources = [self.encode(part) for part in flat]
        usual = min(settings.batch_tokens, ON_CPU) if self.device.type == "cpu" else settings.batch_tokens
        budget = usual if batch_tokens is None else batch_tokens
        cancelled_parts = cancelled and (lambda: _owned_by(cancelled(), owners))
        found = self.search(
            sources,
            beam=width,
            n_best=n_best,
            length_penalty=settings.length_penalty if length_penalty is None else length_penalty,
            max_length=settings.max_length if max_length is None else max_length,
            batch_tokens=budget,
            progress=progress,
            cancelled=cancelled_parts,
        )
        aligned = self._align(sources, found, budget, cancelled_parts) if alignment else [None] * len(flat)
        done = iter(zip(flat, found, aligned, strict=True))
        return [self._joined(text, [self._translation(*next(done)) for _ in row]) for text, row in zip(texts, parts)]

    def encode(self, text: str) -> list[int]:
        """The source side's ids, as the model was trained on them."""
        return self.tokenizer.encode(plain(text) if self.recipe.data.plain_source else text)

    def search(
        self,
        sources: Sequence[list[int]],
        *,
        beam: int,
        n_best: int = 1,
        length_penalty: float = 1.0,
        max_length: int = 256,
        batch_tokens: int = 4096,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
        prefix: Sequence[int] = (),
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, best first; batched by length, answered in order. All begin with the
        prefix, which is given: what the model thinks of it does not count."""
        found: list[list[Hypothesis]] = [[NOTHING] for _ in sources]
        for indexes in _wanted(sorted_batches([[*ids, END] for ids in sources], batch_tokens), cancelled):
            chosen = [[*sources[i], END] for i in indexes]
            with cancellation(cancelled and partial(_places, cancelled, indexes)):
                results = self._search_batch(chosen, beam, n_best, length_penalty, max_length, prefix)
            for index, hypotheses in zip(indexes, results, strict=True):
                found[index] = hypotheses
            if progress:
                progress(len(indexes))
        return found

    @torch.inference_mode()
    def _search_batch(
        self,
        sources: list[list[int]],
        width: int,
        n_best: int,
        length_penalty: float,
        max_length: int,
        prefix: Sequence[int] = (),
    ) -> list[list[Hypothesis]]:
        settings = self.recipe.decoding
        known = longest_text(self.model)
        observed = any(isinstance(module, Observable) and module.observer for module in self.model.modules())
        ids, mask = (tensor.to(self.device) for tensor in pad(sources, 1 if known or observed else LANES))
        longest = min(max_length, known or max_length)
        limits = (mask.sum(1) * settings.length_factor + settings.length_extra).long().clamp(max=longest)
        memory = self._encode(ids, mask)
        given = torch.tensor([list(prefix)] * len(ids), device=self.device) if prefix else None
        loops = loops_allowed(ids, mask)
        return search(self.model.decoder, memory, limits, loops, width, n_best, length_penalty, given)

    def _encode(self, ids: Tensor, mask: Tensor) -> Memory:
        """The memory of sentences that come longest first. On a CPU padding costs as much as words, so each group of
        like length is encoded on its own."""
        widths = [min(-(-length // LANES) * LANES, mask.shape[1]) for length in mask.sum(1).tolist()]
        groups = Counter(widths) if self.device.type == "cpu" else {}
        if len(groups) < 2 or sorted(widths, reverse=True) != widths:
            return self.model.encode(ids, mask)
        starts = itertools.accumulate(groups.values(), initial=0)
        return concatenate(
            [
                self.model.encode(ids[start : start + rows, :width], mask[start : start + rows, :width])
                for start, (width, rows) in zip(starts, groups.items())
            ]
        )

    @torch.inference_mode()
    def loss(self, pairs: Sequence[tuple[str, str]], batch_tokens: int = 4096) -> float:
        """The mean of -log p a target token (END included), without label smoothing."""
        sources = [[*self.encode(source), END] for source, _ in pairs]
        targets = [[BEGIN, *ids, END] for ids in self.tokenizer.encode_many([target for _, target in pairs])]
        total, units = 0.0, 0
        for indexes in sorted_batches([max(sources[i], targets[i], key=len) for i in range(len(pairs))], batch_tokens):
            source, mask = (tensor.to(self.device) for tensor in pad([sources[i] for i in indexes]))
            target = pad([targets[i] for i in indexes])[0].to(self.device)
            total += token_loss(self.model(source, mask, target[:, :-1]), target[:, 1:]).item()
            units += sum(len(targets[i]) - 1 for i in indexes)
        return total / max(1, units)

    @torch.inference_mode()
    def attention(
        self, pairs: Sequence[tuple[list[int], list[int]]], batch_tokens: int = 4096, cancelled: Cancelled | None = None
    ) -> list[Tensor]:
        """Where the decoder looked when it wrote each target: (T + 1, S + 1), the mean of layers and heads.

        Row t is the step that wrote target token t, END last. A forward pass over the finished text: it shows the
        chosen hypothesis whatever the search did to get there. It is empty for pairs that are `cancelled`.
        """
        found: list[Tensor] = [torch.empty(0, 0)] * len(pairs)
        for indexes in _wanted(sorted_batches([source for source, _ in pairs], batch_tokens), cancelled):
            ids, mask = (tensor.to(self.device) for tensor in pad([[*pairs[i][0], END] for i in indexes]))
            target, _ = pad([[BEGIN, *pairs[i][1]] for i in indexes])
            with capture(self.model.decoder) as seen:
                self.model(ids, mask, target.to(self.device))
            looks = [calls[0] for name, calls in seen.items() if "cross_attention" in name]
            if not looks:
                raise UserError("this model has no attention, so nothing says which word came from which")
            weights = average(looks).cpu()
            for row, index in enumerate(indexes):
                source, written = pairs[index]
                found[index] = weights[row, : len(written) + 1, : len(source) + 1]
        return found

    def inspect(
        self,
        text: str,
        *,
        name: str = "",
        beam: int | None = None,
        length_penalty: float | None = None,
        max_length: int | None = None,
        n_best: int = 1,
        of: int = 0,
        prefix: Sequence[int] = (),
    ) -> Look:
        """What the model did to translate one sentence; `name` is what pictures of it call the model.

        The search finds `n_best` translations, and number `of` of them is looked at, counted from 0. They begin with
        `prefix`, tokens by their numbers; where the last of these is END, there is nothing left to search.
        """
        from regard.inspection.record.translation import look, one_sentence

        width = self.recipe.decoding.beam if beam is None else beam
        self._check(width, max(n_best, of + 1), length_penalty, max_length, None)
        return look(
            self,
            one_sentence(self, PlainText().accept(text)),
            name,
            beam,
            length_penalty,
            max_length,
            n_best,
            of,
            prefix,
        )

    def parts(self, text: str, number: int = 1, warn: Warn | None = None) -> list[str]:
        """What is translated by itself: the whole text, its sentences if they are many, or less where that is long."""
        if not text.strip():
            return []
        limit = self.recipe.data.max_length - 1
        # Corpora are made of lines of one or two sentences. Given more, a model skips some of them.
        whole = sentences(text.strip())
        whole = whole if len(whole) > 2 else [text]
        parts = [part for sentence in whole for part in split_long(sentence, lambda p: len(self.encode(p)) <= limit)]
        if len(parts) > len(whole) and warn:
            warn(f"text {number} is longer than the model's {limit} tokens and was split into {len(parts)} parts")
        return parts

    def _align(
        self, sources: list[list[int]], found: list[list[Hypothesis]], batch_tokens: int, cancelled: Cancelled | None
    ) -> list[list[Tensor]]:
        """Where each word of every hypothesis of every source looked."""
        owners = [number for number, hypotheses in enumerate(found) for _ in hypotheses]
        cancelled_pairs = cancelled and (lambda: _owned_by(cancelled(), owners))
        pairs = [(source, h.ids) for source, hypotheses in zip(sources, found, strict=True) for h in hypotheses]
        word = self.tokenizer.word_index
        matrices = (
            word_matrix(weights, word(target), word(source)) if weights.numel() else weights
            for (source, target), weights in zip(
                pairs, self.attention(pairs, batch_tokens, cancelled_pairs), strict=True
            )
        )
        return [[next(matrices) for _ in hypotheses] for hypotheses in found]

    def _translation(self, source: str, hypotheses: list[Hypothesis], attention: list[Tensor] | None) -> Translation:
        made = [
            Translation(
                source,
                self.tokenizer.decode(h.ids).strip(),
                h.score,
                h.log_probability,
                self.tokenizer.pieces(h.ids),
                links(attention[i]) if attention else None,
                attention[i] if attention else None,
                h.finished,
            )
            for i, h in enumerate(hypotheses)
        ]
        return replace(made[0], alternatives=made[1:])

    @staticmethod
    def _joined(source: str, parts: list[Translation]) -> Translation:
        """One translation of a text that was split; its alternatives pair the parts' second with second, and so on."""
        if not parts:
            return Translation(source, "")
        if len(parts) == 1:
            return replace(parts[0], source=source)
        return Translation(
            source,
            " ".join(part.text for part in parts),
            sum(part.score for part in parts),
            sum(part.log_probability for part in parts),
            [token for part in parts for token in part.tokens],
            list(_shifted(parts)) if parts[0].alignment is not None else None,
            torch.block_diag(*matrices)
            if (matrices := [p.attention for p in parts if p.attention is not None])
            else None,
            all(part.finished for part in parts),
            [Translator._joined(source, list(row)) for row in zip(*(part.alternatives for part in parts))],
        )

    @staticmethod
    def _check(
        width: int, n_best: int, length_penalty: float | None, max_length: int | None, batch_tokens: int | None
    ) -> None:
        if not 1 <= width <= 1000 or not 1 <= n_best <= 1000:
            raise UserError(f"beam and n-best must lie between 1 and 1000, not {width} and {n_best}")
        if length_penalty is not None and not 0 <= length_penalty <= 10:
            raise UserError(f"length penalty must lie between 0 and 10, not {length_penalty}")
        if max_length is not None and not 1 <= max_length <= 10000:
            raise UserError(f"max-length must lie between 1 and 10000, not {max_length}")
        if batch_tokens is not None and batch_tokens < 1:
            raise UserError(f"batch-tokens must be at least 1, not {batch_tokens}")


def _owned_by(cancelled: Collection[int], owners: Sequence[int]) -> set[int]:
    """The numbers of what belongs to texts that nobody waits for."""
    return {number for number, owner in enumerate(owners) if owner in cancelled} if cancelled else set()


def _wanted(batches: Iterable[list[int]], cancelled: Cancelled | None) -> Iterator[list[int]]:
    """Batches without what nobody waits for when their turn comes."""
    for indexes in batches:
        lost = cancelled() if cancelled else ()
        if left := [index for index in indexes if index not in lost]:
            yield left


def _places(cancelled: Cancelled, indexes: Sequence[int]) -> list[int]:
    """Which sentences of a batch nobody waits for."""
    lost = cancelled()
    return [place for place, index in enumerate(indexes) if index in lost] if lost else []


def _shifted(parts: list[Translation]) -> Iterator[tuple[int, int]]:
    source = target = 0
    for part in parts:
        yield from ((s + source, t + target) for s, t in part.alignment or [])
        source, target = source + len(part.source.split()), target + len(part.text.split())
