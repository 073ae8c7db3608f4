"""A translator computed by CTranslate2, with the options and results of the one computed by torch.

What CTranslate2 does in its own way is made ours here:

- It ranks by log-probability over length; ours are ranked again by our length penalty, among all that it found.
- It has no rule against loops, and its rules change the other scores: a sentence whose output breaks one of ours is
  searched again without that sequence (repetition.py), and scored as a finished text.
- Its sums depend on padding only where a source of fewer than SHORT tokens is padded to more, so these are never
  batched together, and a translation does not depend on the other sentences of its batch.
- It cannot stop a running batch: cancelled sentences are dropped between batches.
- The attention that its beam search returns for a batch is not that of the chosen hypothesis. So finished texts are
  read once more, forced, once per decoder layer; the alignment is the mean over the last ALIGNED_LAYERS of them.
- It cannot be told which terms an output must have: torch searches the sentences that lack one (regard/glossary.py).
- It samples for a whole batch with one seed, and has neither groups of beams nor our coverage penalty: torch does both.
- What looks inside (`inspect`, `model`) needs torch, which is then loaded, and used from there on.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from regard.config import Recipe
from regard.data.tokenizer._base import Tokenizer
from regard.decoding.cancellation import Cancelled
from regard.engines.ctranslate2.limits import longest_output
from regard.engines.ctranslate2.repetition import first_forbidden
from regard.hypothesis import Hypothesis, penalty
from regard.special_tokens import END
from regard.task._base_translator import NOTHING, BaseTranslator, Progress, owned_by, without_cancelled

if TYPE_CHECKING:
    import ctranslate2
    import numpy as np

    from regard.decoding.constraints import Constraint
    from regard.task._search_variant import SearchVariant
    from regard.task._terms import TermEncoder

BATCH_TOKENS = 1024
"""Tokens per batch, limited by a CPU's cache."""
SHORT = 16
"""Sources shorter than this, END included, are not padded to this length or more."""
PATIENCE = 1.5
"""Finished hypotheses, in beam widths, after which CTranslate2 ends a search. With one beam width it often ends before
a longer and better one; with two it finds what torch's search finds (docs/speed.md)."""
ALIGNED_LAYERS = 2
"""Decoder layers whose attention is averaged; each costs one forced pass, and all but one the memory of a model."""
RETRIES = 16
"""How often a sentence is searched again because of loops; each time one more of them is forbidden."""


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class CTranslate2Translator(BaseTranslator):
    """A translation model with its tokenizer and recipe, computed by CTranslate2 on a CPU."""

    engine = "ctranslate2"
    device = "cpu"

    def __init__(
        self,
        recipe: Recipe,
        tokenizer: Tokenizer,
        open_model: Callable[[int], ctranslate2.Translator],
        parallel: int,
        with_torch: Callable[[], Any],
        shortlisted: frozenset[int] | None = None,
    ):
        """`open_model(layer)` loads the model, of which `layer` of the decoder returns its attention.

        `parallel` batches are translated at a time. `with_torch` loads the same model computed by torch. `shortlisted`:
        the source tokens that choose a shortlist, none if there is one for all; None without a shortlist.
        """
        self.recipe, self.tokenizer = recipe, tokenizer
        self._open_model, self._parallel, self._shortlisted = open_model, parallel, shortlisted
        self._last_layer = int(recipe.model["decoder"]["layers"]) - 1
        self._models = {self._last_layer: open_model(self._last_layer)}
        self._translator = self._models[self._last_layer]
        self._load_with_torch, self._torch = with_torch, None
        self._source_pieces = tokenizer.names(range(len(tokenizer)))
        self._pieces = tokenizer.target.names(range(len(tokenizer.target)))
        self._ids = {piece: number for number, piece in enumerate(self._pieces)}
        self._longest = longest_output(recipe)

    # ------------------------------------------------------------------------------------------- looking inside

    def with_torch(self) -> Any:
        """The same model, computed by torch; loaded on first use."""
        if self._torch is None:
            self._torch = self._load_with_torch()
        return self._torch

    @property
    def model(self) -> Any:
        """torch's model. Whoever asks for it may capture or change it, so from now on torch translates, too."""
        self.engine = "torch"
        return self.with_torch().model

    def inspect(self, text: str, **options: Any) -> Any:
        return self.with_torch().inspect(text, **options)

    def judge(self, valid: Any) -> Any:
        return self.with_torch().judge(valid)

    def inputs(self, valid: Any) -> list[str]:
        return [source for source, _ in valid]

    def __dir__(self) -> list[str]:
        return ["device", "engine", "inspect", "judge", "model", "recipe", "score", "tokenizer", "translate"]

    # ------------------------------------------------------------------------------------------------ searching

    def default_batch_tokens(self) -> int:
        return min(self.recipe.decoding.batch_tokens, BATCH_TOKENS)

    def search(
        self,
        sources: Sequence[list[int]],
        *,
        beam: int,
        n_best: int = 1,
        length_penalty: float = 1.0,
        max_length: int = 256,
        batch_tokens: int = BATCH_TOKENS,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
        prefix: Sequence[int] = (),
        variant: SearchVariant | None = None,
        attention_of: Collection[int] = (),
    ) -> list[list[Hypothesis]]:
        if self.engine == "torch" or variant:
            return self.with_torch().search(
                sources,
                beam=beam,
                n_best=n_best,
                length_penalty=length_penalty,
                max_length=max_length,
                batch_tokens=batch_tokens,
                progress=progress,
                cancelled=cancelled,
                prefix=prefix,
                variant=variant,
            )
        found: list[list[Hypothesis]] = [[NOTHING] for _ in sources]
        query = _Query(beam, n_best, length_penalty, [self._pieces[i] for i in prefix])
        running: deque[tuple[list[int], list[Any]]] = deque()

        def collect() -> None:
            indexes, results = running.popleft()
            for index, result in zip(indexes, results, strict=True):
                limit = self._length_limit(len(self.source_row(sources[index])), max_length)
                attends = index in attention_of
                found[index] = self._by_our_rules(sources[index], result.result(), query, limit, attends)
            if progress:
                progress(len(indexes))

        for indexes in without_cancelled(self._batches(sources, batch_tokens), cancelled):
            limit = self._length_limit(max(len(self.source_row(sources[i])) for i in indexes), max_length)
            attends = not set(indexes).isdisjoint(attention_of)
            running.append((indexes, self._start([sources[i] for i in indexes], query, limit, attends=attends)))
            if len(running) > self._parallel:
                collect()
        while running:
            collect()
        return found

    def _batches(self, sources: Sequence[list[int]], batch_tokens: int) -> Iterator[list[int]]:
        """Indices of sources for one batch each: of similar length and, as a batch has one shortlist, with one tag."""
        of_tag: dict[int, list[int]] = {}
        for index, ids in enumerate(sources):
            tag = next((i for i in ids if i in self._shortlisted), -1) if self._shortlisted else -1
            of_tag.setdefault(tag, []).append(index)
        for members in of_tag.values():
            lengths = [len(sources[i]) + 1 for i in members]
            for batch in batches_of_similar_length(lengths, batch_tokens, self._parallel):
                yield [members[i] for i in batch]

    def search_from(
        self, sources: Sequence[list[int]], prefixes: Sequence[list[int]], **options: Any
    ) -> list[list[Hypothesis]]:
        if self.engine == "torch" or options.get("variant"):
            found: list[list[Hypothesis]] = self.with_torch().search_from(sources, prefixes, **options)
            return found
        first = [self._pieces[i] for i in options["prefix"]]
        query = _Query(options["beam"], options["n_best"], options["length_penalty"], first)
        made: list[list[Hypothesis]] = [[NOTHING] for _ in sources]
        running: deque[tuple[list[int], list[Any]]] = deque()

        attention_of: Collection[int] = options.get("attention_of", ())

        def collect() -> None:
            indexes, results = running.popleft()
            for index, result in zip(indexes, results, strict=True):
                hypotheses = self._hypotheses(result.result(), query, index in attention_of)
                allowed = [one for one in hypotheses if not first_forbidden(one.ids, sources[index])] or hypotheses[:1]
                made[index] = allowed[: query.n_best]
                for one in made[index]:
                    one.score = one.log_probability = math.nan  # without what the search began with

        for indexes in self._batches(sources, options["batch_tokens"]):
            longest = max(len(prefixes[i]) for i in indexes)
            limit = self._length_limit(max(len(self.source_row(sources[i])) for i in indexes), options["max_length"])
            given = [[self._pieces[i] for i in prefixes[index]] for index in indexes]
            limit = max(limit, longest + 8)
            attends = not set(indexes).isdisjoint(attention_of)
            texts = [sources[i] for i in indexes]
            running.append((indexes, self._start(texts, query, limit, given=given, attends=attends)))
            if len(running) > self._parallel:
                collect()
        while running:
            collect()
        return made

    def next_tokens(self, source: list[int], written: list[int], count: int) -> list[int]:
        if self.engine == "torch":
            tokens: list[int] = self.with_torch().next_tokens(source, written, count)
            return tokens
        result = self._translator.translate_batch(
            [[self._source_pieces[i] for i in source]],
            [[self._pieces[i] for i in written]],
            beam_size=1,
            num_hypotheses=min(count, len(self._pieces)),
            return_alternatives=True,  # at the first position that is not given
            max_decoding_length=len(written) + 1,
            max_input_length=0,
            use_vmap=self._shortlisted is not None,
        )[0]
        found = [self._ids[pieces[len(written)]] for pieces in result.hypotheses if len(pieces) > len(written)]
        return [token for token in found if token > END]

    def scored_whole(self, source: list[int], written: list[int], first: int, length_penalty: float) -> Hypothesis:
        if self.engine == "torch":
            whole: Hypothesis = self.with_torch().scored_whole(source, written, first, length_penalty)
            return whole
        one = Hypothesis(list(written), 0.0, 0.0, True)
        query = _Query(2, 1, length_penalty, [self._pieces[i] for i in written[:first]])
        self._score_again([(source, one)], query)
        return one

    def complete_scores(self, pairs: Sequence[tuple[list[int], Hypothesis]], **options: Any) -> None:
        unknown = [pair for pair in pairs if math.isnan(pair[1].score)]
        if unknown:
            first = [self._pieces[i] for i in options["prefix"]]
            query = _Query(options["beam"], options["n_best"], options["length_penalty"], first)
            for indexes in batches_of_similar_length([len(source) for source, _ in unknown], BATCH_TOKENS, 1):
                self._score_again([unknown[index] for index in indexes], query)

    def search_with_terms(
        self, sources: Sequence[list[int]], constraints: Sequence[list[Constraint]], terms: TermEncoder, **options: Any
    ) -> list[list[Hypothesis]]:
        """By torch: CTranslate2 can forbid tokens, and begin with some, but not demand them."""
        found: list[list[Hypothesis]] = self.with_torch().search_with_terms(sources, constraints, terms, **options)
        return found

    def search_with_memory(
        self, sources: Sequence[list[int]], pairs: Sequence[Sequence[tuple[list[int], str]]], **options: Any
    ) -> list[list[Hypothesis]]:
        """By torch: CTranslate2 gives no hidden states."""
        found: list[list[Hypothesis]] = self.with_torch().search_with_memory(sources, pairs, **options)
        return found

    def token_log_probs(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]], **options: Any
    ) -> list[list[float]]:
        """By torch, whose numbers are those of its search; CTranslate2's depend on what else is in a batch."""
        found: list[list[float]] = self.with_torch().token_log_probs(sources, targets, **options)
        return found

    def _length_limit(self, source: int, max_length: int) -> int:
        settings = self.recipe.decoding
        by_source = int(source * settings.length_factor + settings.length_extra)
        return min(by_source, max_length, self._longest)

    def _start(
        self,
        sources: list[list[int]],
        query: _Query,
        limit: int,
        forbidden: Sequence[list[str]] = (),
        given: list[list[str]] | None = None,
        attends: bool = False,
    ) -> Any:
        """Begins a search for one batch and returns its future results. `given` are prefixes of each sentence's own."""
        return self._translator.translate_batch(
            [[self._source_pieces[i] for i in ids] for ids in sources],
            given or ([query.prefix] * len(sources) if query.prefix else None),
            beam_size=query.width,
            patience=query.patience,
            num_hypotheses=query.found,  # all: ours are ranked by another length penalty
            length_penalty=1,
            max_decoding_length=max(limit, len(query.prefix) + 1),
            min_decoding_length=0,
            max_input_length=0,
            suppress_sequences=list(forbidden) or None,
            return_scores=True,
            return_end_token=True,
            return_attention=attends,
            use_vmap=self._shortlisted is not None,
            asynchronous=True,
        )

    def _by_our_rules(
        self, source: list[int], result: Any, query: _Query, limit: int, attends: bool
    ) -> list[Hypothesis]:
        """The hypotheses of a sentence. It is searched again, alone, if its batch had a higher length limit that it
        made use of, or without the sequences of tokens that our rules forbid."""
        forbidden: list[list[str]] = []
        hypotheses = self._hypotheses(result, query, attends)
        for _ in range(RETRIES):
            longest = max(len(one.ids) + one.finished for one in hypotheses)
            broken = [sequence for one in hypotheses if (sequence := first_forbidden(one.ids, source))]
            forbidden += [[self._pieces[i] for i in sequence] for sequence in broken]
            if not broken and longest <= max(limit, len(query.prefix) + 1):
                break
            hypotheses = self._hypotheses(self._start([source], query, limit, forbidden)[0].result(), query)
        if forbidden:
            hypotheses = self._scored_again(source, hypotheses, query)
        return hypotheses[: query.n_best]

    def _scored_again(self, source: list[int], hypotheses: list[Hypothesis], query: _Query) -> list[Hypothesis]:
        """CTranslate2 spreads the probability of forbidden tokens over the others; ours are not normalised again."""
        self._score_again([(source, one) for one in hypotheses], query)
        return sorted(hypotheses, key=lambda one: one.score, reverse=True)

    def _score_again(self, pairs: Sequence[tuple[list[int], Hypothesis]], query: _Query) -> None:
        scored = self._translator.score_batch(
            [[self._source_pieces[i] for i in source] for source, _ in pairs],
            [[self._pieces[i] for i in one.ids] for _, one in pairs],
            max_input_length=0,
        )
        for (_, one), found in zip(pairs, scored, strict=True):
            of_tokens = found.log_probs[len(query.prefix) : len(one.ids) + one.finished]
            one.log_probability = sum(of_tokens)
            one.score = one.log_probability / query.penalty(len(of_tokens))

    def _hypotheses(self, result: Any, query: _Query, attends: bool = False) -> list[Hypothesis]:
        """Ours, best first. Those that the length limit cut off count only if none is finished."""
        found = []
        attention = result.attention if attends else [None] * query.found
        for pieces, score, weights in zip(result.hypotheses, result.scores, attention):
            finished = bool(pieces) and pieces[-1] == self._pieces[END]
            ids = [self._ids[piece] for piece in (pieces[:-1] if finished else pieces)]
            log_probability = score * len(pieces)  # its length penalty counts END and the prefix
            length = len(pieces) - len(query.prefix)
            one = Hypothesis(ids, log_probability, log_probability / query.penalty(length), finished, weights)
            found.append(one)
        possible = [one for one in found if one.finished] or found
        return sorted(possible, key=lambda one: one.score, reverse=True) or [NOTHING]

    def hypothesis_log_probs(
        self,
        sources: Sequence[list[int]],
        found: Sequence[list[Hypothesis]],
        batch_tokens: int,
        cancelled: Cancelled | None,
        first: int = 0,
    ) -> Iterator[list[float]]:
        if self.engine == "torch":
            return super().hypothesis_log_probs(sources, found, batch_tokens, cancelled, first)
        pairs = [(source, one) for source, row in zip(sources, found, strict=True) for one in row]
        owners = [number for number, row in enumerate(found) for _ in row]
        cancelled_pairs = cancelled and (lambda: owned_by(cancelled(), owners))
        scored: list[list[float]] = [[] for _ in pairs]
        lengths = [max(len(source), len(one.ids)) + 1 for source, one in pairs]
        batches = list(without_cancelled(batches_of_similar_length(lengths, batch_tokens, 1), cancelled_pairs))
        results = [
            self._translator.score_batch(
                [[self._source_pieces[i] for i in pairs[index][0]] for index in indexes],
                [[self._pieces[i] for i in pairs[index][1].ids] for index in indexes],
                max_input_length=0,
                asynchronous=True,
            )
            for indexes in batches
        ]
        for indexes, futures in zip(batches, results, strict=True):
            for index, future in zip(indexes, futures, strict=True):
                one = pairs[index][1]
                scored[index] = list(future.result().log_probs[first : len(one.ids) + one.finished])
        return iter(scored)

    def token_attention(
        self,
        sources: Sequence[list[int]],
        found: Sequence[list[Hypothesis]],
        batch_tokens: int,
        cancelled: Cancelled | None,
        quick: bool = False,
    ) -> Iterator[np.ndarray]:
        import numpy as np

        if self.engine == "torch":
            return self.with_torch().token_attention(sources, found, batch_tokens, cancelled)
        pairs = [(source, one.ids) for source, row in zip(sources, found, strict=True) for one in row]
        lost = cancelled() if cancelled else ()
        kept = [i for i, (_, target) in enumerate(pairs) if target]
        owners = [number for number, row in enumerate(found) for _ in row]
        kept = [i for i in kept if owners[i] not in lost]
        hypotheses = [one for row in found for one in row]
        known = {i for i in kept if quick and hypotheses[i].attention is not None}
        rest = [i for i in kept if i not in known]
        weights = self._forced_attention([pairs[i] for i in rest], batch_tokens, 1 if quick else ALIGNED_LAYERS)
        by_pair = dict(zip(rest, weights, strict=True))
        for i in known:
            rows, columns = len(pairs[i][1]), len(pairs[i][0])
            by_pair[i] = np.array(hypotheses[i].attention[:rows], np.float32)[:, :columns]
        empty = np.zeros((0, 0), np.float32)
        return (by_pair.get(i, empty) for i in range(len(pairs)))

    def _forced_attention(
        self, pairs: list[tuple[list[int], list[int]]], batch_tokens: int, layers: int
    ) -> list[np.ndarray]:
        """The attention (target tokens, source tokens) of finished texts, with teacher forcing."""
        import numpy as np

        first = max(0, self._last_layer + 1 - layers)
        total = [np.zeros((len(target), len(source)), np.float32) for source, target in pairs]
        for layer in range(first, self._last_layer + 1):
            if layer not in self._models:
                self._models[layer] = self._open_model(layer)
            running = []
            for indexes in batches_of_similar_length(
                [len(pairs[i][0]) + 1 for i in range(len(pairs))], batch_tokens, 1
            ):
                texts = [
                    ([self._source_pieces[i] for i in source], [self._pieces[i] for i in target])
                    for source, target in (pairs[index] for index in indexes)
                ]
                results = self._models[layer].translate_batch(
                    [source for source, _ in texts],
                    [target for _, target in texts],
                    beam_size=1,
                    max_decoding_length=max(len(target) for _, target in texts) + 1,
                    max_input_length=0,
                    return_attention=True,
                    asynchronous=True,
                )
                running.append((indexes, results))
            for indexes, results in running:
                for index, result in zip(indexes, results, strict=True):
                    rows, columns = total[index].shape
                    total[index] += np.array(result.result().attention[0][:rows], np.float32)[:, :columns]
        return [weights / (self._last_layer + 1 - first) for weights in total]


class _Query:
    """What is asked for each sentence of a search."""

    def __init__(self, beam: int, n_best: int, length_penalty: float, prefix: list[str]):
        self.width, self.n_best = max(beam, n_best), n_best
        self.length_penalty = length_penalty if self.width > 1 else 0.0  # greedy decoding ranks nothing
        self.prefix = prefix
        self.patience = PATIENCE if self.width > 1 else 1.0
        self.found = int(self.width * self.patience)

    def penalty(self, length: int) -> float:
        return penalty(length, self.length_penalty)


def batches_of_similar_length(lengths: Sequence[int], tokens: int, parallel: int) -> Iterator[list[int]]:
    """Indices of similar lengths, longest first, at most `tokens` per batch with padding.

    Smaller batches are made of little text, so that all cores have some of it.
    """
    budget = min(tokens, -(-sum(lengths) // parallel))
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index], reverse=True):
        if batch:
            longest = lengths[batch[0]]
            if longest * (len(batch) + 1) > budget or lengths[index] < SHORT <= longest:
                yield batch
                batch = []
        batch.append(index)
    if batch:
        yield batch
