"""Tasks that generate text: the search, and the base class of those whose input is not text."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, Unpack

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.data.format._base import Example
from regard.data.input._base import Raw
from regard.data.target.text import Text
from regard.data.tokenizer._base import Tokenizer
from regard.decoding.beam import beam as beam_search
from regard.decoding.constrained_beam import constrained_beam
from regard.decoding.constraint_tensors import WordEdges
from regard.decoding.constraints import Constraint
from regard.decoding.diverse_beam import diverse_beam
from regard.decoding.greedy import greedy
from regard.decoding.opening import first_ids
from regard.decoding.perturbed import PerturbedDecoder
from regard.decoding.rules import BeginWith, Forbid, NoLoops, Rule
from regard.decoding.sampling import sample
from regard.decoding.step_callback import on_step
from regard.errors import UserError
from regard.layers.capture import capture
from regard.layers.cross_entropy import token_loss
from regard.layers.embedding import TokenEmbedding
from regard.states import Hypothesis, StepwiseDecoder
from regard.task._base import Progress
from regard.task._examples import ExampleTask
from regard.task._one_or_many import one_or_many
from regard.task._search_variant import Sampling
from regard.types import BEGIN, END, Memory
from regard.word_alignment import average

if TYPE_CHECKING:
    from regard.data.input._accepted import InputLike
    from regard.inspection.trace.image import CaptionTrace


CONSTRAINED_WIDTH = 12
"""Open beams of a search with terms: some with each number of their tokens."""


@torch.inference_mode()
def search(
    decoder: StepwiseDecoder,
    memory: Memory,
    limits: Int[Tensor, "B"],
    loops: Int[Tensor, "B"],
    width: int,
    n_best: int,
    length_penalty: float,
    prefix: Int[Tensor, "B P"] | None = None,
    begin_with: Int[Tensor, "B N"] | None = None,
    further: Sequence[Rule] = (),
    groups: int = 1,
    diversity: float = 0.0,
) -> list[list[Hypothesis]]:
    """The best texts, at most `limits` tokens long, in which nothing is said more than `loops` times in a row. A prefix
    is how each of them begins, whatever the model thinks of it; `begin_with` likewise, but it counts in the score.
    `further` are rules of its own; `groups` and `diversity` are of diverse beam search."""
    rows = 1 if width == 1 and n_best == 1 else max(width, n_best)
    rules: list[Rule] = [Forbid(), NoLoops(loops, rows), *further]
    if begin_with is not None:
        rules.append(BeginWith(begin_with, rows))
        limits = torch.maximum(limits, (begin_with >= 0).sum(1) + 8)
    if rows == 1:
        return [[h] for h in greedy(decoder, memory, max_lengths=limits, rules=rules, prefix=prefix)]
    searched = beam_search if groups == 1 else partial(diverse_beam, groups=groups, diversity=diversity)
    return searched(
        decoder,
        memory,
        max_lengths=limits,
        width=rows,
        n_best=n_best,
        length_penalty=length_penalty,
        rules=rules,
        prefix=prefix,
    )


@torch.inference_mode()
def sampled(
    decoder: StepwiseDecoder,
    memory: Memory,
    limits: Int[Tensor, "B"],
    loops: Int[Tensor, "B"],
    sampling: Sampling,
    prefix: Int[Tensor, "B P"] | None = None,
    begin_with: Int[Tensor, "B N"] | None = None,
) -> list[list[Hypothesis]]:
    """As `search`, for one text of each input, of which every token is drawn."""
    rules: list[Rule] = [Forbid(), NoLoops(loops, 1)]
    if begin_with is not None:
        rules.append(BeginWith(begin_with, 1))
        limits = torch.maximum(limits, (begin_with >= 0).sum(1) + 8)
    found = sample(
        decoder,
        memory,
        max_lengths=limits,
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        seed=sampling.seed,
        rules=rules,
        prefix=prefix,
    )
    return [[hypothesis] for hypothesis in found]


@torch.inference_mode()
def search_with_terms(
    decoder: StepwiseDecoder,
    memory: Memory,
    constraints: Sequence[Sequence[Constraint]],
    edges: WordEdges,
    limits: Int[Tensor, "B"],
    loops: Int[Tensor, "B"],
    width: int,
    n_best: int,
    length_penalty: float,
    prefix: Int[Tensor, "B P"] | None = None,
    sampling: Sampling | None = None,
) -> list[list[Hypothesis]]:
    """As `search`, for texts that have the terms of `constraints`. The beam is at least CONSTRAINED_WIDTH wide. With
    `sampling` the decoder is perturbed, and scores are those of the noise."""
    rows = max(width, n_best, CONSTRAINED_WIDTH)
    searched = partial(
        constrained_beam,
        memory=memory,
        constraints=constraints,
        edges=edges,
        max_lengths=limits,
        width=rows,
        n_best=n_best,
        length_penalty=length_penalty,
        rules=[Forbid(), NoLoops(loops, rows)],
        prefix=prefix,
    )
    if sampling is None:
        return searched(decoder)
    how = (sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed)
    with on_step(lambda step: None):  # without CUDA graphs: the noise comes from the host
        return searched(PerturbedDecoder(decoder, *how))


def longest_text(model: nn.Module) -> int | None:
    """The number of positions of a model, if it is limited (learned positions)."""
    texts = [module.position for module in model.modules() if isinstance(module, TokenEmbedding)]
    return min((limit for position in texts if isinstance(limit := position.limit, int)), default=None)


@dataclass
class Written:
    """A text generated from an input; `str()` gives the text."""

    text: str
    score: float
    """Log-probability after the length penalty, by which texts for one input are ranked."""
    log_probability: float
    ids: list[int] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    token_probabilities: list[float] = field(default_factory=list)
    """Probability of each token given those before it; only for the best text, not for alternatives."""
    finished: bool = True
    """False if the length limit cut it off."""
    alternatives: list[Written] = field(default_factory=list)
    prefix: list[int] = field(default_factory=list, repr=False)
    """The tokens that it was forced to begin with, such as its language; they are not among `ids`."""

    def __str__(self) -> str:
        return self.text


class WritingOptions(TypedDict, total=False):
    """The keywords of `caption` and `transcribe`."""

    beam: int | None
    """Beam width, 1 to 1000; 1 is greedy. Defaults to the recipe's."""
    n_best: int
    """Texts per input, 1 to 1000: the best one, with the others as its `alternatives`."""
    length_penalty: float | None
    """0 favours short texts, 1 long ones; 0 to 10."""
    max_length: int | None
    """Most tokens of a text, 1 to 10,000."""
    progress: Progress | None
    """Called with the number of inputs finished since the last call."""


class Writer(ExampleTask):
    """A task that generates text from a picture or a sound."""

    usual: ClassVar[dict[str, Any]] = {"kind": "seq2seq", "share": False}
    target: ClassVar[str] = "text"
    unit: ClassVar[str] = "tokens"
    public: ClassVar[tuple[str, ...]] = ("attention", "tokenizer")
    repeats: ClassVar[int] = 3
    """How often a phrase may be repeated in a row."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the generated text."""
        target = self.pair.target
        assert isinstance(target, Text)
        return target.tokenizer

    def write(self, raws: Any, **options: Unpack[WritingOptions]) -> Any:
        """The former name of the method that is now named after the task."""
        warnings.warn(f"write() is now called {self.recipe.task}()", DeprecationWarning, stacklevel=2)
        return self.written(raws, **options)

    def written(self, given: Any, **options: Any) -> Any:
        """One text for one input, a list of them for many. The options are those of the method that is named after the
        task."""
        return one_or_many(given, self.pair.input, lambda raws: self.write_all(raws, **options))

    @torch.inference_mode()
    def write_all(
        self,
        raws: Sequence[Raw],
        *,
        beam: int | None = None,
        n_best: int = 1,
        length_penalty: float | None = None,
        max_length: int | None = None,
        progress: Progress | None = None,
    ) -> list[Any]:
        """One text per input, in order. This default reads each input as a whole; a task may read it in windows."""
        width, penalty, longest = self.searching(beam, n_best, length_penalty, max_length)
        found: dict[int, Written] = {}
        for indexes, source, mask in self.batches(raws, progress):
            memory = self.model.encode(source, mask)
            limits = torch.full((len(indexes),), longest, device=self.device)
            loops = torch.full_like(limits, self.repeats)
            results = search(self.model.decoder, memory, limits, loops, width, n_best, penalty)
            sure = self.probabilities(memory, [hypotheses[0].ids for hypotheses in results])
            for index, hypotheses, probabilities in zip(indexes, results, sure):
                best, *others = map(self.as_written, hypotheses)
                found[index] = replace(best, token_probabilities=probabilities, alternatives=others)
        return [found[i] for i in range(len(raws))]

    def searching(
        self, beam: int | None, n_best: int, length_penalty: float | None, max_length: int | None
    ) -> tuple[int, float, int]:
        """Beam width, length penalty and most tokens: as given, or else the recipe's."""
        settings = self.recipe.decoding
        width = settings.beam if beam is None else beam
        if not 1 <= width <= 1000 or not 1 <= n_best <= 1000:
            raise UserError(f"beam and n-best must lie between 1 and 1000, not {width} and {n_best}")
        penalty = settings.length_penalty if length_penalty is None else length_penalty
        limit = settings.max_length if max_length is None else max_length
        if not 1 <= limit <= 10000:
            raise UserError(f"max-length must lie between 1 and 10000, not {limit}")
        # Only the decoder's positions limit the output; the stem may have its own for the input.
        return width, penalty, min(limit, longest_text(self.model.decoder) or limit)

    def as_written(self, hypothesis: Hypothesis) -> Written:
        ids = hypothesis.ids
        return Written(
            self.tokenizer.decode(ids).strip(),
            hypothesis.score,
            hypothesis.log_probability,
            ids,
            self.tokenizer.pieces(ids),
            finished=hypothesis.finished,
        )

    def probabilities(
        self, memory: Memory, texts: Sequence[list[int]], prefix: Int[Tensor, "B P"] | None = None
    ) -> list[list[float]]:
        """How likely each token of a text is, given those before it and the prefix; one text for each entry of the
        memory."""
        longest = max(1, *map(len, texts))
        targets = torch.tensor([ids + [END] * (longest - len(ids)) for ids in texts], device=self.device)
        opening = first_ids(len(texts), prefix, self.device)
        fed = torch.cat([opening, targets[:, :-1]], 1)
        decoder = self.model.decoder
        hidden, _ = decoder.advance(fed, decoder.start(memory, beams=1, capacity=0))
        hidden = hidden[:, opening.shape[1] - 1 :]
        # Of one position at a time: the logits of all would be the largest thing that using a model makes.
        columns = [
            decoder.project(state[:, None])[:, 0].float().softmax(-1).gather(1, ids[:, None])[:, 0]
            for state, ids in zip(hidden.unbind(1), targets.unbind(1))
        ]
        return [row[: len(ids)] for row, ids in zip(torch.stack(columns, 1).tolist(), texts)]

    def inspect(
        self,
        given: InputLike,
        *,
        name: str = "",
        beam: int | None = None,
        length_penalty: float | None = None,
        max_length: int | None = None,
        n_best: int = 1,
    ) -> CaptionTrace:
        """Generates the text for one input and returns a trace of what the model computed.

        Args:
            given: The picture or recording.
            name: The name of the model in pictures.
            beam: Beam width. Defaults to the recipe's.
            length_penalty: The higher, the longer the text; 0 to 10.
            max_length: Most tokens of the text.
            n_best: How many texts the search returns.

        Returns:
            The trace.
        """
        from regard.inspection.record.caption import record_caption

        return record_caption(self, given, name, beam, length_penalty, max_length, n_best)

    @torch.inference_mode()
    def attention(self, given: InputLike, ids: Sequence[int], prefix: Sequence[int] = ()) -> Tensor:
        """Cross-attention of each token of a text, the mean over layers and heads.

        Args:
            given: The picture or recording.
            ids: The token ids of the text (`Written.ids`).
            prefix: Those that it was forced to begin with (`Written.prefix`).

        Returns:
            Weights (T, S).
        """
        _, source, mask = next(self.batches([self.pair.input.accept(given)]))
        fed = torch.tensor([[BEGIN, *prefix, *ids[:-1]]], device=self.device)
        with capture(self.model.decoder) as captured:
            self.model(source, mask, fed)
        attentions = [calls[0] for name, calls in captured.items() if "cross_attention" in name]
        if not attentions:
            raise UserError("this model has no attention, so nothing says where it looked")
        return average(attentions).cpu()[0, len(prefix) :][: len(ids)]

    @torch.inference_mode()
    def loss(self, examples: Sequence[Example]) -> float:
        """The mean of -log p per token (END included), without label smoothing."""
        total, units = 0.0, 0
        for _, batch in self.coded_batches(examples):
            logits = self.model(batch.source, batch.source_mask, batch.target[:, :-1])
            total, units = total + token_loss(logits, batch.target[:, 1:]).item(), units + batch.units
        return total / max(1, units)
