"""Text generation: a language model continues a text token by token. Music is written as text, too.

Documents are read in windows that each start with BEGIN, so that a model can start anywhere, or with the token before
(`data.preceded`). END is predicted only where a document ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, cast, overload

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.config import Recipe
from regard.data import chat as chats
from regard.data import tokenizer as tokenizers
from regard.data.examples import Coded, ExampleBatches, pad_arrays
from regard.data.format._base import Example
from regard.data.input._checks import check_keys
from regard.data.input._plain_text import PlainText
from regard.data.music import bar_of, tidy
from regard.data.normalise import as_written, normalise
from regard.data.splitting import Parts, read_parts
from regard.data.target._base import check_target
from regard.data.target.text import Text
from regard.data.tokenizer._base import Tokenizer
from regard.decoding.opening import first_ids, next_log_probs
from regard.decoding.rules import Forbid, MinLength, Rule
from regard.decoding.sampling import check_sampling, distribution
from regard.decoding.stream import stream, stream_together
from regard.errors import UserError
from regard.model.language_model import LanguageModel
from regard.states import empty_memory
from regard.task._base import Note, Prepared, Task
from regard.task._generated import Generated, Next, Piece, SamplingOptions, Score, Spelling, StopStrings, perplexity
from regard.task._one_or_many import one_or_many
from regard.task._scoring import score_of
from regard.task._text_windows import as_ids, coded, spans
from regard.task._writing import longest_text
from regard.types import BEGIN, END, PAD, UNKNOWN, Better, Validation

if TYPE_CHECKING:
    from regard.inspection.trace.text import LanguageModelTrace

__all__ = ["Generator", "Generated"]

_SAMPLING: dict[str, Any] = {
    "length": None,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "repetition_penalty": 1.0,
}
TOGETHER = 64
"""Most texts that a GPU writes at once."""
LONGEST = 1_000_000
"""Most tokens of an output, and characters of a prompt."""
SHOWN = 24, 48
"""Tokens of the prompt and of the continuation in the samples of a validation."""


class Generator(Task):
    """A language model with its tokenizer, to continue and to score texts."""

    usual: ClassVar[dict[str, Any]] = {"kind": "language_model"}
    unit: ClassVar[str] = "tokens"
    usage: ClassVar[str] = "generate {model} '...'"
    scores: ClassVar[dict[str, Better]] = {
        "loss": "lower",
        "perplexity": "lower",
        "nll_per_step": "lower",
        "loss_per_character": "lower",
    }
    public: ClassVar[tuple[str, ...]] = ("chat", "next_tokens", "score", "stream", "tokenizer")

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, model: nn.Module, device: torch.device) -> None:
        self.recipe, self.tokenizer, self.device = recipe, tokenizer, device
        self.model = cast(LanguageModel, model.to(device).eval())
        self.window = max(2, min(recipe.data.max_length, longest_text(model) or recipe.data.max_length))
        """Context length in tokens, as in training, BEGIN included."""
        self.bar = bar_of(tokenizer)
        """The id that ends a step, if the model writes music; else None."""
        controls = [i for i in range(END + 1, len(tokenizer)) if _is_control("".join(tokenizer.surfaces([i])))]
        self.rules: list[Rule] = [Forbid((PAD, UNKNOWN, BEGIN, *controls)), MinLength(1)]
        """Forbids special tokens, control characters and an empty text."""
        self.ends = {END, *(id for name in recipe.decoding.ends if (id := tokenizer.id_of(name)) is not None)}
        """The tokens that end a text."""

    @classmethod
    def codec(cls, recipe: Recipe, files: Mapping[str, bytes]) -> Tokenizer:
        return tokenizers.from_files(files)

    @classmethod
    def resolve(cls, recipe: Recipe) -> Recipe:
        check_keys(recipe.input, "text")
        if recipe.data.max_length < 2:
            raise UserError(f"data.max_length: a window of {recipe.data.max_length} shows no text; use 2 or more")
        _read(recipe)
        return recipe

    @classmethod
    def tests(cls, recipe: Recipe) -> list[Example]:
        return _read(recipe).test

    @classmethod
    def prepare(cls, recipe: Recipe, place: Path, known: Mapping[str, bytes], same: bool, note: Note) -> Prepared:
        parts = _read(recipe)
        texts = [str(example.target) for example in parts.train]
        if known:
            tokenizer = tokenizers.from_files(known)
        else:  # by lines with their ends, so that no tokenizer holds a whole document at once
            lines = (line for text in texts for line in text.splitlines(keepends=True))
            tokenizer = tokenizers.train(recipe.tokenizer, lines, recipe.seed)
        documents = as_ids(tokenizer, texts)
        note(
            f"{len(documents):,} documents of {sum(map(len, documents)):,} tokens to train on, "
            f"{len(parts.valid):,} to validate, {len(parts.test):,} to test; a vocabulary of {len(tokenizer):,}"
        )

        def epoch(number: int) -> list[Coded]:
            """Every token once, in windows that start elsewhere in every epoch."""
            random = np.random.default_rng([recipe.seed, number])
            size = recipe.data.max_length
            return [
                coded(document, start, stop, recipe.data.preceded)
                for document in documents
                for start, _, stop in spans(len(document), size, int(random.integers(1, size + 1)))
            ]

        stream = ExampleBatches(
            epoch,
            varying=True,
            batch_tokens=recipe.training.batch_tokens,
            batch_examples=recipe.training.batch_examples,
            seed=recipe.seed,
        )
        return Prepared(tokenizer, stream, parts.valid[: recipe.data.valid_limit])

    # ------------------------------------------------------------------------------------------------------- to judge

    def inputs(self, valid: Sequence[Example]) -> list[str]:
        """Prompts: the first words of every line."""
        lines = (line.split() for example in valid for line in str(example.target).splitlines())
        return [" ".join(words[: 1 + len(words) // 2]) for words in lines if words]

    def judge(self, valid: Sequence[Example]) -> Validation:
        """The mean of -log p per token, END included, over windows that do not overlap.

        Where tokens are not characters, also per character, unless a word is unknown: unknown words share one token,
        which is easily learnt. For music first per step, without END, which published models do not predict either.
        """
        texts = [str(example.target) for example in valid]
        documents = as_ids(self.tokenizer, texts)
        costs = self.surprise(documents)
        total, tokens = sum(float(cost.sum()) for cost in costs), sum(map(len, costs))
        scores = {"loss": total / tokens, "perplexity": perplexity(total / tokens)}
        if self.bar is not None:
            steps = sum(int(np.count_nonzero(document == self.bar)) for document in documents)
            scores = {"nll_per_step": sum(float(cost[:-1].sum()) for cost in costs) / max(1, steps), **scores}
        elif self.tokenizer.kind != "character" and not any((document == UNKNOWN).any() for document in documents):
            scores["loss_per_character"] = total / max(1, sum(len(normalise(text)) for text in texts))
        return Validation(scores, self._samples(documents))

    @torch.inference_mode()
    def surprise(self, documents: Sequence[np.ndarray], overlap: int = 0, window: int = 0) -> list[np.ndarray]:
        """-log p of every token of every document. Windows overlap by `overlap` tokens of context."""
        size = window or self.window
        found = [np.zeros(len(document)) for document in documents]
        places = [(n, *span) for n, document in enumerate(documents) for span in spans(len(document), size, 0, overlap)]
        places.sort(key=lambda place: place[1] - place[3])
        settings = self.recipe.training
        at = 0
        while at < len(places):
            longest = 1 + places[at][3] - places[at][1]
            rows = places[at : at + (settings.batch_examples or max(1, settings.batch_tokens // longest))]
            at += len(rows)
            preceded = self.recipe.data.preceded
            arrays = [coded(documents[n], start, stop, preceded).target for n, start, _, stop in rows]
            target = pad_arrays(arrays, varying=True)[0].to(self.device)
            logits = self.model(target[:, :-1]).float()
            costs = F.cross_entropy(logits.transpose(1, 2), target[:, 1:], reduction="none").double().cpu().numpy()
            for cost, (n, start, counted, stop) in zip(costs, rows):
                found[n][counted:stop] = cost[counted - start : stop - start]
        return found

    @overload
    def score(self, text: str) -> Score: ...  # type: ignore[overload-overlap]
    @overload
    def score(self, text: Iterable[str]) -> list[Score]: ...
    def score(self, text: Any) -> Any:
        """Scores each token of a text, without END, as the text may continue.

        A text longer than the context is read as `stream` reads it.

        Args:
            text: The text, or an iterable of texts.

        Returns:
            A `Score` with the tokens and their log-probabilities, or a list of them.
        """
        return one_or_many(text, PlainText(), self._score)

    def _score(self, texts: list[str]) -> list[Score]:
        rows = [self.encode(text) for text in texts]
        documents = [np.array(ids, dtype=np.int64) for ids in rows]
        longest = max(map(len, rows), default=0)
        costs = self.surprise(documents, self.window // 2, 0 if self.forgets else longest + 1)
        return [score_of(self.tokenizer, ids, (-cost).tolist()) for ids, cost in zip(rows, costs)]

    @cached_property
    def forgets(self) -> bool:
        """Whether the decoder has a KV cache, which has a limited window, or carries a recurrent state."""
        return bool(self.model.decoder.start(empty_memory(1, self.device), 1, 1).cache)

    def _samples(self, documents: Sequence[np.ndarray]) -> list[tuple[str, str, str]]:
        """A few prompts from the documents, with the model's continuation and the real one."""
        count = self.recipe.training.samples
        windows = [document[a:b] for document in documents for a, _, b in spans(len(document), self.window)]
        shown = []
        for window in windows[:: max(1, len(windows) // max(1, count))][:count]:
            given = min(SHOWN[0], len(window) // 2)
            prompt, actual = window[:given].tolist(), window[given : given + SHOWN[1]].tolist()
            written = [d.id for d in self._stream(prompt, length=SHOWN[1])]
            shown.append((*map(self.tokenizer.decode, (prompt, written, actual)),))
        return cast(list[tuple[str, str, str]], shown)

    # --------------------------------------------------------------------------------------------------------- to use

    def encode(self, text: str) -> list[int]:
        """The ids of a prompt; a music model refuses other text."""
        PlainText().accept(text)
        if len(text) > LONGEST:
            raise UserError(f"the text has {len(text):,} characters; {LONGEST:,} are the most")
        if self.bar is None:
            return self.tokenizer.encode(text)
        text = tidy(text)
        ids = self.tokenizer.encode(text)
        if UNKNOWN in ids:
            raise UserError(f"the model has never heard pitch {text.split()[ids.index(UNKNOWN)]}; choose another")
        return ids

    def stream(
        self,
        prompt: str = "",
        *,
        length: int | None = None,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        stop: Sequence[str] = (),
        seed: int = 0,
    ) -> Iterator[Piece]:
        """Continues a text token by token, until END, a stop string or `length` tokens.

        The last piece is END if the model ended the text. A text may outgrow the model's context (decoding/stream.py).

        Args:
            prompt: The text to continue.
            length: Most tokens generated; 0: no limit. Defaults to the recipe's.
            temperature: Below 1 safer, above 1 bolder; 0.01 to 100.
            top_k: Sample from the k most probable tokens only; 0: all.
            top_p: Sample from the fewest tokens whose probabilities add up to this.
            repetition_penalty: Above 1, tokens that are there already, the prompt's too, become less likely.
            stop: Texts at which it ends; they are left out.
            seed: Seed of the samples.

        Returns:
            An iterator over `Piece`, one per token.
        """
        options: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        options |= {"repetition_penalty": repetition_penalty, "length": length, "seed": seed}
        return self._stopped(self.encode(prompt), StopStrings(stop), **options)

    def _stopped(self, ids: list[int], stops: StopStrings, **options: Any) -> Iterator[Piece]:
        """The pieces after a prompt, up to a stop string."""
        first, drawn = not ids or not options.get("begin", True), self._stream(ids, **self._checked(**options))
        pieces = self._pieces(drawn, first)
        return pieces if not stops.stops else self._until(pieces, stops)

    def _until(self, pieces: Iterator[Piece], stops: StopStrings) -> Iterator[Piece]:
        for piece in pieces:
            yield from stops.add(piece)
            if stops.stopped:
                return
        yield from stops.rest()

    def _checked(self, *, length: int | None, seed: int, repetition_penalty: float, **options: Any) -> dict[str, Any]:
        length = self.recipe.decoding.max_length if length is None else length
        if not 0 <= length <= LONGEST:
            raise UserError(f"length must lie between 0 (no limit) and {LONGEST:,}, not {length}")
        if not 0 <= seed < 2**63:
            raise UserError(f"seed must be a whole number from 0 on, not {seed}")
        check_sampling(options["temperature"], options["top_k"], options["top_p"], repetition_penalty)
        return {"length": length, "seed": seed, "repetition_penalty": repetition_penalty, **options}

    def _stream(self, prompt: list[int], **options: Any) -> Iterator[Any]:
        return stream(
            self.model.decoder, window=self.window, prompt=prompt, rules=self.rules, device=self.device, **options
        )

    def _streams(self, prompt: list[int], seeds: Sequence[int], bounded: bool, **options: Any) -> Iterator[Any]:
        """What `_stream` gives for each seed. A GPU computes many as fast as one, but none ends before all do."""
        if not writes_together(self.device) or not bounded or len(seeds) == 1:
            yield from (self._stream(prompt, seed=seed, **options) for seed in seeds)
            return
        options |= {"window": self.window, "rules": self.rules, "device": self.device}
        for first in range(0, len(seeds), TOGETHER):
            chosen = seeds[first : first + TOGETHER]
            steps = list(stream_together(self.model.decoder, prompt=prompt, seeds=chosen, **options))
            for number in range(len(chosen)):
                yield (step[number] for step in steps if step[number] is not None)

    def _pieces(self, drawn: Iterator[Any], first: bool) -> Iterator[Piece]:
        spelling = Spelling(self.tokenizer, first)
        for one in drawn:
            (token,) = self.tokenizer.pieces([one.id])
            yield Piece(spelling.add(one.id), token, math.exp(one.log_probability), one.id)
            if one.id in self.ends:
                return

    @overload
    def generate(  # type: ignore[overload-overlap]
        self, prompt: str = "", *, count: None = None, seed: int = 0, **options: Unpack[SamplingOptions]
    ) -> Generated: ...
    @overload
    def generate(  # type: ignore[overload-overlap]
        self, prompt: str = "", *, count: int, seed: int = 0, **options: Unpack[SamplingOptions]
    ) -> list[Generated]: ...
    @overload
    def generate(
        self, prompt: Iterable[str], *, count: None = None, seed: int = 0, **options: Unpack[SamplingOptions]
    ) -> list[Generated]: ...
    @overload
    def generate(
        self, prompt: Iterable[str], *, count: int, seed: int = 0, **options: Unpack[SamplingOptions]
    ) -> list[list[Generated]]: ...
    def generate(self, prompt: Any = "", *, count: int | None = None, seed: int = 0, **options: Any) -> Any:
        """Continues a prompt, or many into a list.

        Args:
            prompt: A text to continue, or an iterable of texts.
            count: How many continuations of each prompt; they use `seed` and the seeds after it.
            seed: Seed of the samples.
            options: See `SamplingOptions`.

        Returns:
            A `Generated`, or a list of them; with many prompts and `count`, a list of lists.
        """
        if count is not None and not 1 <= count <= 1000:
            raise UserError(f"count must lie between 1 and 1000, not {count}")
        if count is None:
            return one_or_many(
                prompt, PlainText(), lambda prompts: [self._generate(p, 1, seed, options)[0] for p in prompts]
            )
        return one_or_many(
            prompt, PlainText(), lambda prompts: [self._generate(p, count, seed, options) for p in prompts]
        )

    def _generate(self, prompt: str, count: int, seed: int, options: Mapping[str, Any]) -> list[Generated]:
        ids, own, seeds = self.encode(prompt), {**_SAMPLING, **options}, range(seed, seed + count)
        stop, read, found = own.pop("stop", ()), self.tokenizer.decode(ids), list[Generated]()
        checked = self._checked(seed=seed, **own)
        del checked["seed"]
        bounded = checked["length"] > 0 and not stop
        for number, drawn in zip(seeds, self._streams(ids, seeds, bounded, **checked)):
            stops = StopStrings(stop)
            pieces = list(self._until(self._pieces(drawn, not ids), stops))
            finished = stops.stopped or (bool(pieces) and pieces[-1].id in self.ends)
            found.append(
                Generated(
                    read,
                    "".join(piece.text for piece in pieces),
                    [piece.token for piece in pieces],
                    [piece.probability for piece in pieces],
                    sum(math.log(max(piece.probability, 1e-300)) for piece in pieces),
                    finished,
                    number,
                )
            )
        return found

    def chat(
        self, messages: Sequence[tuple[str, str]], *, seed: int = 0, **options: Unpack[SamplingOptions]
    ) -> Iterator[Piece]:
        """Answers the last message of a conversation, token by token.

        Args:
            messages: Pairs of a role, "system", "user" or "assistant", and what was said. Without a system message the
                model is told what it was trained with. The oldest turns are left out where not all fit its context.
            seed: Seed of the samples.
            options: See `SamplingOptions`.

        Returns:
            An iterator over `Piece`, one per token; the last one, which ends the answer, has no text.
        """
        kind, told = self.recipe.decoding.chat, [chats.Message(*one) for one in messages]
        if not kind:
            raise UserError("this model has no chat format, or none that is known here; use: regard generate")
        chats.check(told)
        if told[0].role != "system" and self.recipe.decoding.system:
            told.insert(0, chats.Message("system", self.recipe.decoding.system))
        if sum(len(one.content) for one in told) > LONGEST:
            raise UserError(f"the conversation has more than {LONGEST:,} characters")
        given: dict[str, Any] = dict(options)
        stops = StopStrings(given.pop("stop", ()))
        ids = self._conversation(kind, told)
        pieces = self._stopped(ids, stops, **_SAMPLING | given | {"seed": seed, "begin": False})
        return self._answer(pieces, chats.end_of(self.tokenizer, kind))

    def _conversation(self, kind: str, told: list[chats.Message]) -> list[int]:
        """As much of it as leaves a quarter of the context for the answer."""
        first = int(told[0].role == "system")
        while True:
            ids = chats.encode(self.tokenizer, kind, told)
            if not self.forgets or len(ids) <= self.window - self.window // 4:
                return ids
            if len(told) - first < 3:
                raise UserError(
                    f"the message has {len(ids):,} tokens with what belongs to it, and this model reads "
                    f"{self.window:,}; use a shorter one"
                )
            del told[first : first + 2]

    def _answer(self, pieces: Iterator[Piece], end: int) -> Iterator[Piece]:
        for piece in pieces:
            yield piece
            if piece.id == end:
                return

    def shown(self, prompt: str) -> str:
        """A prompt as the model reads it."""
        return self.tokenizer.decode(self.encode(prompt))

    @torch.inference_mode()
    def next_tokens(
        self, prompt: str = "", *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, count: int = 10
    ) -> list[Next]:
        """The most probable next tokens, with the probabilities that `stream` samples with.

        Args:
            prompt: The text to continue.
            temperature: As in `stream`.
            top_k: As in `stream`.
            top_p: As in `stream`.
            count: How many tokens.

        Returns:
            The tokens, most probable first.
        """
        check_sampling(temperature, top_k, top_p)
        _, log_probs = self.outlook(self.encode(prompt))
        probabilities, tokens = distribution(log_probs[None], temperature, top_k, top_p)
        likeliest = probabilities[0].topk(min(count, probabilities.shape[1]))
        found = []
        for probability, place in zip(likeliest.values.tolist(), likeliest.indices.tolist()):
            token = place if tokens is None else int(tokens[0, place])
            if probability > 0:
                (piece,), (text,) = self.tokenizer.pieces([token]), self.tokenizer.surfaces([token])
                found.append(Next(piece, text, probability))
        return found

    @torch.inference_mode()
    def outlook(self, ids: list[int]) -> tuple[Tensor, Tensor]:
        """The logits of the next token, and its log-probabilities with -inf for forbidden tokens: (V,) each."""
        kept = ids if not self.forgets or len(ids) < self.window else ids[-(self.window // 2) :]
        fed = first_ids(1, torch.tensor([kept], dtype=torch.long), self.device)
        logits = self.model(fed)
        return logits[0, -1], next_log_probs(logits, fed[:, 1:], self.rules)[0]

    def inspect(
        self, text: str, *, name: str = "", temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
    ) -> LanguageModelTrace:
        """Reads one text and returns a trace of what the model computed, up to the distribution of the next token.

        Args:
            text: The text.
            name: The name of the model in pictures.
            temperature: As in `stream`, for the next token.
            top_k: As in `stream`.
            top_p: As in `stream`.

        Returns:
            The trace.
        """
        from regard.inspection.record.generate import record_language_model

        return record_language_model(self, text, name, temperature, top_k, top_p)


def writes_together(device: torch.device) -> bool:
    """Whether many texts take hardly longer than one; elsewhere each is written by itself."""
    return device.type == "cuda"


def _is_control(text: str) -> bool:
    return as_written(text) != text


def _read(recipe: Recipe) -> Parts:
    data = recipe.data
    if data.train and not data.valid and data.hold_out_valid < 0 and data.format.get("kind") == "running_text":
        raise UserError("data.valid: name the files of data.train here, too: running_text keeps a part of each apart")
    parts = read_parts(data)
    check_target(parts.train[0].input, Text, str(data.format.get("kind")))
    check_target(parts.train[0].target, Text, str(data.format.get("kind")))
    return parts
