"""Puts the terms of a glossary into translations that lack them.

In rounds: the first missing term of each translation replaces the words that attention links to it, what stands before
is kept, and the search completes the rest. A sentence that cannot be helped in
this way gets a constrained search (decoding/constrained_beam.py), which finds a place for every obligatory term.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.data.normalise import normalise, plain
from regard.errors import UserError
from regard.glossary import MUST, Glossary, Wanted
from regard.hypothesis import Hypothesis
from regard.special_tokens import END, UNKNOWN
from regard.task._base_translator import NOTHING
from regard.task._terms import PREFERENCE, TermEncoder, constraints_of

if TYPE_CHECKING:
    from regard.directions import Marks
    from regard.task._base_translator import BaseTranslator
NEARLY = 0.5
"""The share of the largest attention from which on a neighbouring word counts, too."""


@dataclass
class Sentence:
    """A translation on its way to having all terms."""

    number: int
    wanted: list[Wanted]
    best: list[Hypothesis]
    kept: int = 0
    """Tokens that stay as they are, up to the last term that was put in."""
    given_up: set[int] = field(default_factory=set)
    """Terms that could not be placed, or that are not worth their cost."""


class TermPlacement:
    """Works on the sentences of one call of `translate`; `options` are those of its search."""

    def __init__(
        self,
        translator: BaseTranslator,
        encoder: TermEncoder,
        sources: Sequence[list[int]],
        parts: Sequence[str],
        glossaries: Sequence[Glossary],
        told: Sequence[Marks],
        options: dict[str, Any],
        warn: Callable[[str], None] | None,
    ) -> None:
        self.translator, self.encoder, self.options, self.warn = translator, encoder, options, warn
        self.sources, self.told = sources, told
        self.parts = [plain(normalise(part)) for part in parts]
        self.wanted = [glossary.wanted(part) for glossary, part in zip(glossaries, self.parts, strict=True)]
        self.tokenizer = translator.tokenizer.target
        self.first = len(options["prefix"])

    def with_terms(self) -> set[int]:
        """The sentences in which terms occur."""
        return {number for number, wanted in enumerate(self.wanted) if wanted}

    def improve(self, found: list[list[Hypothesis]]) -> None:
        """Replaces the hypotheses of sentences that lack a term of their glossary. One that has all is the best of
        those that do."""
        lacking = []
        for number, wanted in enumerate(self.wanted):
            if wanted and found[number][0] is not NOTHING and self._missing(wanted, found[number][0]):
                lacking.append(Sentence(number, wanted, found[number], self.first))
        open_ = lacking
        for _ in range(max((sum(one.times for one in each.wanted) for each in lacking), default=0)):
            if not open_ or self._cancelled():
                break
            self._round(open_)
            open_ = [one for one in open_ if set(self._missing(one.wanted, one.best[0])) - one.given_up]
        self._search_the_rest([one for one in lacking if self._obligatory(one)])
        self._score([(one, hypothesis) for one in lacking for hypothesis in one.best])
        for one in lacking:
            found[one.number] = one.best

    def _score(self, hypotheses: Sequence[tuple[Sentence, Hypothesis]]) -> None:
        self.translator.complete_scores(
            [(self.sources[one.number], hypothesis) for one, hypothesis in hypotheses], **self.options
        )

    def _cancelled(self) -> bool:
        cancelled = self.options["cancelled"]
        return bool(cancelled and len(cancelled()) >= len(self.sources))

    def _missing(self, wanted: Sequence[Wanted], hypothesis: Hypothesis) -> list[int]:
        text = self.tokenizer.decode(hypothesis.ids[self.first :])
        return [index for index, one in enumerate(wanted) if not one.is_in(text)]

    def _obligatory(self, one: Sentence) -> bool:
        return any(one.wanted[index].mode == MUST for index in self._missing(one.wanted, one.best[0]))

    def _round(self, sentences: Sequence[Sentence]) -> None:
        """Puts one more term into each sentence, or gives one up."""
        matrices = self._attention(sentences)
        tried: list[tuple[Sentence, int, list[int]]] = []
        for one, weights in zip(sentences, matrices, strict=True):
            missing = [index for index in self._missing(one.wanted, one.best[0]) if index not in one.given_up]
            places = {index: self._place(one, one.wanted[index], weights) for index in missing}
            index = min(missing, key=lambda each: places[each])
            kept = one.best[0].ids[: places[index]]
            prefixes = [[*kept, *tokens] for tokens in self._forms(one.wanted[index], kept)]
            tried += [(one, index, prefix) for prefix in prefixes]
            if not prefixes:
                one.given_up.add(index)
        if not tried:
            return
        failed = self._complete(tried)
        self._complete([(one, index, prefix + self._next_word(one, prefix)) for one, index, prefix in failed])
        for one, index, _ in failed:
            if index in self._missing(one.wanted, one.best[0]):
                one.given_up.add(index)

    def _complete(self, tried: list[tuple[Sentence, int, list[int]]]) -> list[tuple[Sentence, int, list[int]]]:
        """Completes what begins with these tokens. Returns those of sentences that still lack the term: mostly because
        the model went on with its last word."""
        if not tried:
            return []
        results = self.translator.search_from(
            [self.sources[one.number] for one, _, _ in tried],
            [prefix for _, _, prefix in tried],
            attention_of={at for at, (one, _, _) in enumerate(tried) if sum(term.times for term in one.wanted) > 1},
            **{**self.options, "cancelled": None},
        )
        groups: dict[int, list[tuple[Sentence, int, list[int], list[Hypothesis]]]] = {}
        for each, found in zip(tried, results, strict=True):
            groups.setdefault(each[0].number, []).append((*each, self._having(each[0], each[1], found)))
        having = {number: [each for each in mine if each[3]] for number, mine in groups.items()}
        # Scores take time, so only those that decide something are computed here.
        self._score(
            [
                (one, hypothesis)
                for mine in having.values()
                for one, index, _, found in mine
                if len(mine) > 1 or one.wanted[index].mode != MUST
                for hypothesis in (found[0], one.best[0])
            ]
        )
        for mine in having.values():
            if mine:
                one, index, prefix, best = max(mine, key=lambda each: each[3][0].score)
                self._take(one, index, prefix, best)
        return [mine[0][:3] for number, mine in groups.items() if not having[number]]

    def _having(self, one: Sentence, index: int, found: Sequence[Hypothesis]) -> list[Hypothesis]:
        """The hypotheses that have the term once more than before."""
        before = one.wanted[index].count(self.tokenizer.decode(one.best[0].ids[self.first :]))
        return [each for each in found if self._times(one.wanted[index], each) > before]

    def _next_word(self, one: Sentence, prefix: list[int]) -> list[int]:
        """The token that begins the word after the replaced one in the translation so far, or else a full stop."""
        ids = one.best[0].ids
        place = next((at for at, (old, new) in enumerate(zip(ids, prefix)) if old != new), len(ids))
        onwards = (token for token in ids[place + 1 :] if self.encoder.begins[token])
        return [next(onwards, next(iter(self.tokenizer.encode(".")[-1:]), END))]

    def _take(self, one: Sentence, index: int, prefix: list[int], best: list[Hypothesis]) -> None:
        """Keeps hypotheses that have the term, unless it is not obligatory and costs too much."""
        if one.wanted[index].mode != MUST and best[0].log_probability < one.best[0].log_probability - PREFERENCE:
            one.given_up.add(index)
        else:
            one.best, one.kept = best, len(prefix)

    def _times(self, wanted: Wanted, hypothesis: Hypothesis) -> int:
        return wanted.count(self.tokenizer.decode(hypothesis.ids[self.first :])) if hypothesis.finished else -1

    def _forms(self, wanted: Wanted, before: list[int]) -> list[tuple[int, ...]]:
        """The tokens of each form that is possible after these; where a sentence begins, only the capitalised ones."""
        base = self.tokenizer.decode(before[self.first :])
        start = wanted.starts(base)
        texts = dict.fromkeys(form.text for form in wanted.forms if form.at_start == start or not form.at_start)
        if start:
            capitalised = [form.text for form in wanted.forms if form.text[:1] == form.text[:1].upper()]
            texts = dict.fromkeys(capitalised or texts)
        made = [self.encoder.after(before, text) for text in texts]
        return [tokens for tokens in made if tokens and UNKNOWN not in tokens]

    def _place(self, one: Sentence, wanted: Wanted, weights: np.ndarray) -> int:
        """The token at which the word begins that attends most to the term, after what is kept; or else the end. A
        longer neighbour that attends nearly as much comes first: an article attends to its noun."""
        ids = one.best[0].ids
        starts: dict[int, int] = {}
        for position, word in enumerate(self.tokenizer.word_index(ids[self.first :]), self.first):
            starts.setdefault(word, position)
        columns = wanted.words(self.parts[one.number])
        columns = [column for column in columns if column < weights.shape[1]]
        end = max(one.kept, len(ids))
        if not columns or not len(weights):
            return end
        mass = weights[:, columns].sum(1)
        order = np.argsort(-mass, kind="stable").tolist()
        words = [word for word in order if starts.get(word, -1) >= one.kept][:2]
        if len(words) == 2 and (abs(words[0] - words[1]) > 1 or mass[words[1]] < NEARLY * mass[words[0]]):
            words.pop()
        texts = self.tokenizer.decode(ids[self.first :]).split()
        return starts[max(words, key=lambda word: len(texts[word]))] if words else end

    def _attention(self, sentences: Sequence[Sentence]) -> list[np.ndarray]:
        """Word by word, (target words, source words)."""
        numbers = [one.number for one in sentences]
        try:
            aligned = self.translator._align(
                [self.sources[number] for number in numbers],
                [one.best[:1] for one in sentences],
                [self.told[number] for number in numbers],
                self.options["batch_tokens"],
                None,
                quick=True,
            )
        except UserError:  # a model without attention: the term is looked for where it is in the source
            return [self._diagonal(one) for one in sentences]
        return [row[0] for row in aligned]

    def _diagonal(self, one: Sentence) -> np.ndarray:
        source = len(self.parts[one.number].split())
        target = len(self.tokenizer.decode(one.best[0].ids[self.first :]).split())
        rows, columns = np.arange(target)[:, None] / max(1, target), np.arange(source) / max(1, source)
        return np.asarray(1 - np.abs(rows - columns), np.float32)

    def _search_the_rest(self, sentences: Sequence[Sentence]) -> None:
        if not sentences or self._cancelled():
            return
        constraints = [constraints_of(self.encoder, one.wanted, self.warn) for one in sentences]
        again = self.translator.search_with_terms(
            [self.sources[one.number] for one in sentences],
            constraints,
            self.encoder,
            **{**self.options, "cancelled": None},
        )
        for one, hypotheses in zip(sentences, again, strict=True):
            one.best = hypotheses
