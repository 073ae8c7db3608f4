"""Translation with torch: trains, scores, searches and inspects. What all engines share is in _base_translator.py."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.config import Recipe
from regard.data import tokenizer as tokenizers
from regard.data.batching import Batches, pad, sorted_batches
from regard.data.corpus.entries import (
    DirectedPair,
    all_directions,
    check_entries,
    directed,
    kinds_of,
    named_valid,
    trains,
    with_stated_languages,
)
from regard.data.corpus.pack import Pack
from regard.data.corpus.preparing import named_pairs, prepare, prepare_shards, training_pairs
from regard.data.corpus.preparing_entries import limited, prepare_entries
from regard.data.corpus.reading import Pair, read_pairs
from regard.data.corpus.shards import in_shards, shards_of
from regard.data.input._checks import check_keys
from regard.data.input._plain_text import PlainText
from regard.data.ragged import Sentences
from regard.data.shard_batches import ShardBatches
from regard.data.tokenizer._base import Tokenizer
from regard.decoding.cancellation import Cancelled, cancellation
from regard.decoding.constraint_tensors import WordEdges
from regard.decoding.constraints import Constraint
from regard.decoding.nearest_neighbours import NearestNeighbourDecoder, with_datastores
from regard.decoding.rules import loops_allowed
from regard.errors import UserError
from regard.evaluation.translation import corpus_scores
from regard.hypothesis import penalty
from regard.layers.capture import capture
from regard.layers.cross_entropy import token_loss
from regard.layers.observable import Observable
from regard.model._ensemble import Ensemble
from regard.model.seq2seq import Seq2Seq
from regard.states import Hypothesis, concatenate
from regard.task._base import Prepared, Task
from regard.task._base_translator import NOTHING, BaseTranslator, Progress, owned_by, without_cancelled
from regard.task._coverage import CoverageDecoder
from regard.task._datastores import EncodedPair, datastores, encoded_pairs
from regard.task._forced_scores import forced_scores, score_again
from regard.task._search_variant import SearchVariant
from regard.task._translation import Translation, check_options
from regard.task._writing import longest_text, sampled, search, search_with_terms
from regard.types import BEGIN, END, Better, Memory, Validation
from regard.word_alignment import average

if TYPE_CHECKING:
    from regard.inspection.trace.translation import TranslationTrace
    from regard.task._terms import TermEncoder

__all__ = ["Translator", "Translation"]

ON_CPU = 1024
"""Tokens per batch on a CPU, limited by its cache."""
MOST_LOGITS = 1 << 25
"""Numbers of all positions and tokens together that a batch is scored with: 128 MB."""
LANES = 16
"""Numbers that a CPU adds at once. Sums over a multiple of this length stay the same to the last bit when zeros of
padding are appended, so that a translation does not depend on the other sentences of its batch."""


class Translator(BaseTranslator, Task):
    """A translation model with its tokenizer and recipe, computed by torch."""

    engine = "torch"
    usual: ClassVar[dict[str, Any]] = {"kind": "seq2seq"}
    unit: ClassVar[str] = "tokens"
    usage: ClassVar[str] = "translate --model {model} '...'"
    scores: ClassVar[dict[str, Better]] = {"bleu": "higher", "chrf": "higher", "loss": "lower"}
    public: ClassVar[tuple[str, ...]] = ("score", "tokenizer")

    @classmethod
    def codec(cls, recipe: Recipe, files: Mapping[str, bytes]) -> Tokenizer:
        return tokenizers.from_files(files)

    @classmethod
    def resolve(cls, recipe: Recipe) -> Recipe:
        check_keys(recipe.input, "text")
        if recipe.decoding.beam % recipe.decoding.beam_groups:
            raise UserError(f"decoding.beam_groups: a beam of {recipe.decoding.beam} has no such groups; use a divisor")
        if recipe.data.pairs:
            check_entries(recipe.data)
            return with_stated_languages(recipe)
        if not recipe.data.source and not recipe.data.format:
            raise UserError("data.source: nothing to train on; give --source FILE and --target FILE, or a recipe")
        if recipe.data.valid_source or recipe.data.valid_target:
            read_pairs(recipe.data.valid_source, recipe.data.valid_target)
        if in_shards(recipe.data):
            shards_of(recipe.data)
        else:
            training_pairs(recipe.data)  # refuses missing files
        return recipe

    @classmethod
    def prepare(
        cls, recipe: Recipe, place: Path, known: Mapping[str, bytes], same: bool, note: Callable[[str], None]
    ) -> Prepared:
        valid: list[Pair] | list[DirectedPair]
        mixture = None
        if recipe.data.pairs:
            tokenizer, pack, mixture, valid = prepare_entries(recipe, place, known, note)
        else:
            if in_shards(recipe.data):
                tokenizer, shards, read, pairs = prepare_shards(recipe, place, known, note)
            else:
                tokenizer, pack, pairs = prepare(recipe, place, known, note)
            step = max(1, len(pairs) // recipe.data.valid_limit)
            valid = pairs[::step][: recipe.data.valid_limit]
        alpha = float(recipe.tokenizer.get("sampling", 0.0))

        def resample(sentences: Sentences, seeds: np.ndarray) -> Sentences:
            return tokenizer.resample(sentences, seeds, alpha)

        def batches(pack: Pack, seed: int = recipe.seed, lanes: int = 1) -> Batches:
            return Batches(
                pack,
                batch_tokens=recipe.training.batch_tokens,
                seed=seed,
                window=max(1, recipe.data.window // lanes),
                workers=recipe.data.workers,
                source_end=recipe.data.source_end and recipe.languages.source_tag != "after",  # then it has END already
                sample=(resample, resample) if alpha else None,
                mixture=mixture,
            )

        if in_shards(recipe.data):
            return Prepared(tokenizer, ShardBatches(shards, read, batches, recipe.seed), valid)
        return Prepared(tokenizer, batches(pack), valid)

    @classmethod
    def tests(cls, recipe: Recipe) -> Sequence[Pair | DirectedPair]:
        data = recipe.data
        made = [number for number, entry in enumerate(data.pairs, 1) if not entry.source and trains(data, number)]
        if made:
            tests = [pair for number in made for pair in directed(data, number, named_valid(data, number, "test"))]
            return limited(tests, data.valid_limit)
        return named_pairs(recipe.data, "test") if recipe.data.format else []

    @classmethod
    def scores_of(cls, recipe: Recipe) -> Mapping[str, Better]:
        data = recipe.data
        parts = [*(f"{start}-{to}" for start, to in all_directions(data)), *kinds_of(data)]
        return {**cls.scores, **{f"bleu_{part}": "higher" for part in parts}}

    def inputs(self, valid: Sequence[Pair | DirectedPair]) -> list[str]:
        return [pair[0] for pair in valid]

    def judge(self, valid: Sequence[Pair | DirectedPair]) -> Validation:
        """BLEU and chrF of greedy translations, and the loss per token without label smoothing."""
        if valid and isinstance(valid[0], DirectedPair):
            return self._judge_directions(cast(Sequence[DirectedPair], valid))
        return self._judge_pairs(cast(Sequence[Pair], valid))

    def _judge_directions(self, valid: Sequence[DirectedPair]) -> Validation:
        """Scores of each direction, and their means; BLEU of each kind of text is a mean over directions, too."""
        settings = self.recipe.training
        of: dict[tuple[str, str], list[DirectedPair]] = {}
        for pair in valid:
            of.setdefault((pair.start, pair.to), []).append(pair)
        found: list[tuple[float, float, float]] = []
        by_direction: dict[str, float] = {}
        by_kind: dict[str, list[float]] = {}
        samples: list[tuple[str, str, str]] = []
        for (start, to), pairs in of.items():
            sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
            told = self.translate(sources, beam=1, batch_tokens=settings.batch_tokens, source=start, target=to)
            outputs = [translation.text for translation in told]
            scores = corpus_scores(outputs, references, language=to)
            loss = self.loss([(pair.source, pair.target) for pair in pairs], settings.batch_tokens, (start, to))
            found.append((scores.bleu, scores.chrf, loss))
            by_direction[f"bleu_{start}-{to}"] = scores.bleu
            for kind in dict.fromkeys(pair.kind for pair in pairs if pair.kind):
                rows = [i for i, pair in enumerate(pairs) if pair.kind == kind]
                of_kind = corpus_scores([outputs[i] for i in rows], [references[i] for i in rows], language=to)
                by_kind.setdefault(f"bleu_{kind}", []).append(of_kind.bleu)
            samples.append((sources[0], outputs[0], references[0]))
        bleu, chrf, loss = (fmean(values) for values in zip(*found))
        means = {kind: fmean(values) for kind, values in by_kind.items()}
        return Validation(
            {"bleu": bleu, "chrf": chrf, "loss": loss, **by_direction, **means}, samples[: settings.samples]
        )

    def _judge_pairs(self, valid: Sequence[Pair]) -> Validation:
        settings = self.recipe.training
        inputs, (source, target) = self.inputs(valid), self._trained_direction()
        found = self.translate(inputs, beam=1, batch_tokens=settings.batch_tokens, source=source, target=target)
        outputs = [translation.text for translation in found]
        scores = corpus_scores(outputs, [reference for _, reference in valid])
        shown = range(0, len(outputs), max(1, len(outputs) // max(1, settings.samples)))
        return Validation(
            {"bleu": scores.bleu, "chrf": scores.chrf, "loss": self.loss(valid, settings.batch_tokens)},
            [(valid[i][0], outputs[i], valid[i][1]) for i in shown][: settings.samples],
        )

    def _trained_direction(self) -> tuple[str | None, str | None]:
        """The languages of the training text, of a model that may have others besides."""
        return self.recipe.source_language or None, self.recipe.target_language or None

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, model: nn.Module, device: torch.device):
        self.recipe, self.tokenizer, self.device = recipe, tokenizer, device
        self.model = cast(Seq2Seq, model.to(device).eval())
        self._edges: WordEdges | None = None
        self._coverage: CoverageDecoder | None = None
        self._neighbours: NearestNeighbourDecoder | None = None

    def default_batch_tokens(self) -> int:
        tokens = self.recipe.decoding.batch_tokens
        return min(tokens, ON_CPU) if self.device.type == "cpu" else tokens

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
        attention_of: Collection[int] = (),
        constraints: tuple[Sequence[list[Constraint]], TermEncoder] | None = None,
        begin_with: Sequence[list[int]] | None = None,
        variant: SearchVariant | None = None,
        neighbours: Sequence[list[EncodedPair]] | None = None,
    ) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = [[NOTHING] for _ in sources]
        closed = [self.source_row(ids) for ids in sources]
        for indexes in without_cancelled(sorted_batches(closed, batch_tokens), cancelled):
            chosen = [closed[i] for i in indexes]
            stated = constraints and ([constraints[0][i] for i in indexes], constraints[1])
            given = begin_with and [begin_with[i] for i in indexes]
            near = neighbours and [neighbours[i] for i in indexes]
            with cancellation(cancelled and partial(_cancelled_rows, cancelled, indexes)):
                results = self._search_batch(
                    chosen, beam, n_best, length_penalty, max_length, prefix, stated, given, variant, near
                )
            for index, hypotheses in zip(indexes, results, strict=True):
                found[index] = hypotheses
            if progress:
                progress(len(indexes))
        return found

    def search_from(
        self, sources: Sequence[list[int]], prefixes: Sequence[list[int]], **options: Any
    ) -> list[list[Hypothesis]]:
        return self.search(sources, begin_with=prefixes, **options)

    def next_tokens(self, source: list[int], written: list[int], count: int) -> list[int]:
        log_probs = self._log_probs(source, written)[-1].clone()
        log_probs[: END + 1] = -torch.inf
        return cast(list[int], log_probs.topk(min(count, len(log_probs))).indices.tolist())

    def scored_whole(self, source: list[int], written: list[int], first: int, length_penalty: float) -> Hypothesis:
        each = self._log_probs(source, written)[torch.arange(len(written) + 1), [*written, END]]
        total = float(each[first:].sum())
        return Hypothesis(list(written), total, total / penalty(len(each) - first, length_penalty), True)

    @torch.inference_mode()
    def _log_probs(self, source: list[int], written: list[int]) -> Tensor:
        """Of every token after BEGIN and after each of these, (T + 1, V)."""
        ids, mask = (tensor.to(self.device) for tensor in pad([self.source_row(source)]))
        given = torch.tensor([[BEGIN, *written]], device=self.device)
        return self.model(ids, mask, given)[0].log_softmax(-1, dtype=torch.float32).cpu()

    def complete_scores(self, pairs: Sequence[tuple[list[int], Hypothesis]], **options: Any) -> None:
        """Nothing to do: a search with a prefix knows its probability."""

    def search_with_terms(
        self, sources: Sequence[list[int]], constraints: Sequence[list[Constraint]], terms: TermEncoder, **options: Any
    ) -> list[list[Hypothesis]]:
        found = self.search(sources, constraints=(constraints, terms), **options)
        variant: SearchVariant | None = options.get("variant")
        if variant and variant.sampling:  # their scores have its noise
            score_again(self, sources, found, options["prefix"], options["batch_tokens"])
        return found

    def search_with_memory(
        self, sources: Sequence[list[int]], pairs: Sequence[Sequence[tuple[list[int], str]]], **options: Any
    ) -> list[list[Hypothesis]]:
        if isinstance(self.model, Ensemble):
            raise UserError("a memory needs the hidden states of one model; leave out the other models")
        near = encoded_pairs(self, pairs, len(options["prefix"]))
        return self.search(sources, neighbours=near, **options)

    @torch.inference_mode()
    def _search_batch(
        self,
        sources: list[list[int]],
        width: int,
        n_best: int,
        length_penalty: float,
        max_length: int,
        prefix: Sequence[int] = (),
        constraints: tuple[Sequence[list[Constraint]], TermEncoder] | None = None,
        begin_with: Sequence[list[int]] | None = None,
        variant: SearchVariant | None = None,
        neighbours: Sequence[list[EncodedPair]] | None = None,
    ) -> list[list[Hypothesis]]:
        settings = self.recipe.decoding
        known = longest_text(self.model)
        observed = any(isinstance(module, Observable) and module.observer for module in self.model.modules())
        ids, mask = (tensor.to(self.device) for tensor in pad(sources, 1 if known or observed else LANES))
        longest = min(max_length, known - 1) if known else max_length  # BEGIN, when it is scored or aligned
        limits = (mask.sum(1) * settings.length_factor + settings.length_extra).long().clamp(max=longest)
        memory = self.encode_batch(ids, mask)
        forced = torch.tensor([list(prefix)] * len(ids), device=self.device) if prefix else None
        loops = loops_allowed(ids, mask)
        if constraints:
            stated, terms = constraints
            edges = self._word_edges(terms)
            drawn = variant.sampling if variant else None
            return search_with_terms(
                self.model.decoder, memory, stated, edges, limits, loops, width, n_best, length_penalty, forced, drawn
            )
        given = _filled(begin_with).to(self.device) if begin_with else None
        if neighbours and any(neighbours):
            stores = datastores(self.model, self.encode_batch, neighbours, prefix, self.device)
            if self._neighbours is None:
                self._neighbours = NearestNeighbourDecoder(self.model.decoder)
            memory = with_datastores(memory, stores)
            return search(self._neighbours, memory, limits, loops, width, n_best, length_penalty, forced, given)
        if variant is None:
            return search(self.model.decoder, memory, limits, loops, width, n_best, length_penalty, forced, given)
        if variant.sampling:
            return sampled(self.model.decoder, memory, limits, loops, variant.sampling, forced, given)
        return search(
            self._coverage_decoder(variant.coverage_penalty) if variant.coverage_penalty else self.model.decoder,
            memory,
            limits,
            loops,
            width,
            n_best,
            length_penalty,
            forced,
            given,
            groups=variant.beam_groups,
            diversity=variant.diversity_penalty,
        )

    def _coverage_decoder(self, strength: float) -> CoverageDecoder:
        """The same one for the same penalty, as CUDA graphs belong to a decoder."""
        if self._coverage is None or self._coverage.strength != strength:
            self._coverage = CoverageDecoder(self.model.decoder, strength)
        return self._coverage

    def _word_edges(self, terms: TermEncoder) -> WordEdges:
        if self._edges is None:
            self._edges = WordEdges.of(terms.begins, terms.ends, terms.ends_sentence).to(self.device)
        return self._edges

    def encode_batch(self, ids: Tensor, mask: Tensor) -> Memory:
        """Encodes sentences sorted longest first. On a CPU padding costs as much as words, so each group of similar
        length is encoded by itself."""
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

    def token_log_probs(
        self,
        sources: Sequence[list[int]],
        targets: Sequence[list[int]],
        *,
        prefix: Sequence[int] = (),
        batch_tokens: int = 4096,
        progress: Progress | None = None,
    ) -> list[list[float]]:
        return forced_scores(self, sources, targets, prefix, batch_tokens, progress, LANES)

    @torch.inference_mode()
    def loss(
        self,
        pairs: Sequence[tuple[str, str]],
        batch_tokens: int = 4096,
        direction: tuple[str | None, str | None] | None = None,
    ) -> float:
        """The mean of -log p per target token (END included), without label smoothing."""
        told = self.marks([source for source, _ in pairs], *(direction or self._trained_direction()))
        sources = [self.source_row(self.encode(source, one)) for (source, _), one in zip(pairs, told)]
        begin = [BEGIN, *(told[0].prefix if told else ())]
        targets = [[*begin, *ids, END] for ids in self.tokenizer.target.encode_many([target for _, target in pairs])]
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
        """Cross-attention of each target: (T + 1, S + 1), the mean over layers and heads.

        Row t is the step that wrote target token t, END last. Computed by a forward pass over the finished text, so it
        shows the chosen hypothesis and not the search. It is empty for pairs that are `cancelled`.
        """
        found: list[Tensor] = [torch.empty(0, 0)] * len(pairs)
        for indexes in without_cancelled(sorted_batches([source for source, _ in pairs], batch_tokens), cancelled):
            ids, mask = (tensor.to(self.device) for tensor in pad([self.source_row(pairs[i][0]) for i in indexes]))
            target, _ = pad([[BEGIN, *pairs[i][1]] for i in indexes])
            with capture(self.model.decoder) as captured:
                self.model(ids, mask, target.to(self.device))
            attentions = [calls[0] for name, calls in captured.items() if "cross_attention" in name]
            if not attentions:
                raise UserError("this model has no attention, so nothing says which word came from which")
            weights = average(attentions).cpu()
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
        source: str | None = None,
        target: str | None = None,
    ) -> TranslationTrace:
        """Translates one sentence and returns a trace of what the model computed.

        Args:
            text: The sentence.
            name: The name of the model in pictures.
            beam: Beam width. Defaults to the recipe's.
            length_penalty: As in `translate`.
            max_length: As in `translate`.
            n_best: How many translations the search returns.
            of: The one to inspect, from 0.
            prefix: Token ids that the translation must begin with, after the tag of its language. If the last one is
                END, nothing is searched.
            source: The language of the sentence, as in `translate`.
            target: The language to translate to.

        Returns:
            The trace, with attention, search and gates.
        """
        from regard.inspection.record.translate import one_sentence, record_translation

        if isinstance(self.model, Ensemble):
            raise UserError("an ensemble has no layers of its own to inspect; inspect one of its models")
        width = self.recipe.decoding.beam if beam is None else beam
        check_options(width, max(n_best, of + 1), length_penalty, max_length, None)
        sentence = PlainText().accept(text)
        (told,) = self.marks([sentence], source, target)
        return record_translation(
            self,
            one_sentence(self, sentence, told),
            name,
            beam,
            length_penalty,
            max_length,
            n_best,
            of,
            prefix,
            told,
        )

    def token_attention(
        self,
        sources: Sequence[list[int]],
        found: Sequence[list[Hypothesis]],
        batch_tokens: int,
        cancelled: Cancelled | None,
        quick: bool = False,
    ) -> Iterator[np.ndarray]:
        owners = [number for number, hypotheses in enumerate(found) for _ in hypotheses]
        cancelled_pairs = cancelled and (lambda: owned_by(cancelled(), owners))
        pairs = [(source, h.ids) for source, hypotheses in zip(sources, found, strict=True) for h in hypotheses]
        return (weights.numpy() for weights in self.attention(pairs, batch_tokens, cancelled_pairs))


def _cancelled_rows(cancelled: Cancelled, indexes: Sequence[int]) -> list[int]:
    """The rows of a batch that are cancelled."""
    lost = cancelled()
    return [row for row, index in enumerate(indexes) if index in lost] if lost else []


def _filled(rows: Sequence[list[int]]) -> Tensor:
    """Rows of different lengths, filled up with -1."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[-1] * (longest - len(row))] for row in rows])
