"""Models that read one text, seen from inside: language models, classifiers, taggers, and those that fill in.

Each is one forward pass over the text, alone, with everything watched; what it says is found the way its task does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.data.input.text import Text
from regard.data.tokenizer._base import Tokenizer
from regard.errors import UserError
from regard.inspection.draw.next_token import Guess, Option
from regard.inspection.record import layers as told
from regard.inspection.record.arithmetic.selection import follower
from regard.inspection.record.gradients import gradients_of
from regard.inspection.record.next_token import distribution_of
from regard.inspection.trace.base import READING, WRITING, Side
from regard.inspection.trace.text import LanguageLook, TextLook
from regard.layers.capture import Seen, capture
from regard.types import BEGIN

if TYPE_CHECKING:
    from regard.task._base import ExampleTask
    from regard.task.classify import Classifier
    from regard.task.fill import Filler
    from regard.task.generate import Generator
    from regard.task.tag import Tagger

ALTERNATIVES = 5
"""What else a model thought of at each token."""
Told = Callable[[Tensor], Tensor]
"""From the ids of one text to a log-probability."""


@torch.inference_mode()
def look_at_language(
    generator: Generator, text: str, name: str = "", temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> LanguageLook:
    """How sure the model is of each token of a text, and what may come next."""
    tokenizer, device = generator.tokenizer, generator.device
    ids = generator.encode(text)
    if generator.forgets and len(ids) >= generator.window:
        raise UserError(
            f"the text has {len(ids)} tokens, but this model looks at {generator.window - 1} together; "
            "look at a shorter part of it"
        )
    fed = [BEGIN, *ids]
    with capture(generator.model) as seen:
        (logits,) = generator.model(torch.tensor([fed], device=device)).float()
    last, log_probs = generator.outlook(ids)
    found = LanguageLook(
        model=name,
        source=_side(tokenizer, text, ids),
        read=tokenizer.pieces(fed),
        guesses=_guesses(tokenizer, logits[:-1], ids),
        said=text,
        next=distribution_of(tokenizer, last, log_probs, temperature, top_k, top_p),
        **_parts(generator.model, seen, {WRITING: len(fed)}, device),
    )
    outputs = [*ids, int(log_probs.nan_to_num(nan=-torch.inf).argmax())]

    def follow(position: int) -> Any:
        read = fed[: position + 1]

        def log_probability() -> Tensor:
            rows = generator.model(torch.tensor([read], device=device))
            return rows[0, -1].float().log_softmax(-1)[outputs[position]]

        return gradients_of(generator.model, log_probability, position, found.outputs()[position], {WRITING: len(read)})

    found.follow = follow
    found.calculate = follower(generator.model, lambda: generator.model(torch.tensor([fed], device=device)))
    return found


def _guesses(tokenizer: Tokenizer, logits: Tensor, ids: Sequence[int]) -> list[Guess]:
    """Of each token, given those before it."""
    if not ids:
        return []
    probabilities = logits.softmax(-1)
    best = probabilities.topk(min(ALTERNATIVES, probabilities.shape[1]))
    own = probabilities.gather(1, torch.tensor(ids, device=logits.device)[:, None])[:, 0].tolist()
    pieces = tokenizer.pieces(ids)
    return [
        Guess(piece, piece, sure, list(map(Option, tokenizer.pieces(tokens), values)))
        for piece, sure, tokens, values in zip(pieces, own, best.indices.tolist(), best.values.tolist())
    ]


def reading(generator: Generator, text: str, most: int) -> tuple[list[Guess], int]:
    """How sure the model is of each of the last `most` tokens of a text, and how many came before those.

    Nothing is watched, so this is as quick as reading is. A text that is longer than the model's window is read from
    where the window begins.
    """
    ids = generator.encode(text)
    kept = ids[-most:]
    if generator.forgets:
        kept = kept[-(generator.window - 1) :]
    with torch.inference_mode():
        before = ids[: len(ids) - len(kept)] if not generator.forgets else []
        (logits,) = generator.model(torch.tensor([[BEGIN, *before, *kept]], device=generator.device)).float()
    return _guesses(generator.tokenizer, logits[len(before) : -1], kept), len(ids) - len(kept)


@torch.inference_mode()
def look_at_class(task: Classifier, text: str, name: str = "") -> TextLook:
    """The label of a text."""
    ids = _ids(task, text)
    source, (logits,), seen = _watched(task, ids)
    (answer,) = task.classify([text])
    others = [Option(label, sure) for label, sure in answer.probabilities.items()]
    label = task.labels.names.index(answer.label)
    return _look(
        task,
        name,
        _side(_tokenizer(task), text, ids),
        ids,
        seen,
        [Guess("", answer.label, answer.probability, others)],
        answer.label,
        lambda position: lambda source: _logits(task, source)[0].log_softmax(-1)[label],
    )


@torch.inference_mode()
def look_at_tags(task: Tagger, text: str, name: str = "") -> TextLook:
    """The tag of each word."""
    (answer,) = task.tag([text])
    words = answer.words
    if not words:
        raise UserError("there is nothing to look at: the text is empty")
    ids = _ids(task, words)
    reader = task.pair.input
    assert isinstance(reader, Text)
    places = reader.word_positions(words).tolist()
    _, logits, seen = _watched(task, ids)
    chosen = [task.names.index(tag) for tag in answer.tags]

    def probabilities(logits: Tensor) -> Tensor:
        rows = logits.float()[:, places]
        chain = getattr(task.model, "chain", None)
        if chain is None:
            return rows[0].softmax(-1)
        return chain.marginals(rows, torch.ones(rows.shape[:2], dtype=torch.bool, device=rows.device))[0]

    rows = probabilities(logits).tolist()
    guesses = [
        Guess(word, tag, row[own], _ranked(task.names, row))
        for word, tag, own, row in zip(words, answer.tags, chosen, rows)
    ]
    word_of = [number for number, own in enumerate(reader.words(words)) for _ in own]
    return _look(
        task,
        name,
        Side(text, _tokenizer(task).pieces(ids), words, word_of),
        ids,
        seen,
        guesses,
        str(answer),
        lambda position: lambda source: probabilities(_logits(task, source))[position, chosen[position]].log(),
    )


@torch.inference_mode()
def look_at_blanks(task: Filler, text: str, name: str = "") -> TextLook:
    """What would fit into each blank."""
    ids, places = task.hidden(text)
    (answer,) = task.fill([text], top=ALTERNATIVES * 2)
    _, (logits,), seen = _watched(task, ids, places)
    guesses, chosen = [], []
    for number, (row, blank) in enumerate(zip(logits, answer.blanks)):
        others = [Option(one.word, one.probability) for one in blank]
        given = others[0] if others else Option("_", 0.0)
        guesses.append(Guess(f"blank {number + 1}", given.token, given.probability, others))
        surfaces = (token for token in row.argsort(descending=True).tolist())
        chosen.append(
            next((t for t in surfaces if task.tokenizer.surfaces([t])[0].strip() == given.token), int(row.argmax()))
        )
    side = _side(task.tokenizer, text, ids)
    side.tokens = ["_" if place in places else token for place, token in enumerate(side.tokens)]
    return _look(
        task,
        name,
        side,
        ids,
        seen,
        guesses,
        answer.text,
        lambda position: lambda source: _logits(task, source, places)[0, position].log_softmax(-1)[chosen[position]],
    )


def _look(
    task: ExampleTask,
    name: str,
    side: Side,
    ids: Sequence[int],
    seen: Seen,
    guesses: list[Guess],
    said: str,
    told_at: Callable[[int], Told],
) -> TextLook:
    found = TextLook(
        model=name,
        source=side,
        read=list(side.tokens),
        guesses=guesses,
        said=said,
        **_parts(task.model, seen, {READING: len(ids)}, task.device),
    )

    def follow(position: int) -> Any:
        one = told_at(position)
        given = found.guesses[position].given
        return gradients_of(
            task.model,
            lambda: one(torch.tensor([list(ids)], device=task.device)),
            position,
            given,
            {READING: len(ids)},
        )

    found.follow = follow
    found.calculate = follower(task.model, lambda: _logits(task, torch.tensor([list(ids)], device=task.device)))
    return found


def _parts(model: Any, seen: Seen, lengths: dict[str, int], device: torch.device) -> dict[str, Any]:
    modules = dict(model.named_modules())
    return {
        "attention": told.attention(modules, seen),
        "gates": told.gates(modules, seen, lengths),
        "ponder": told.ponder(modules, seen),
        "positions": told.positions(modules, max(told.POSITIONS, *lengths.values()), device),
    }


def _ids(task: ExampleTask, raw: str | list[str]) -> list[int]:
    """Of a text that the model reads in one piece."""
    ids = task.pair.input.encode(raw).tolist()
    longest = task.recipe.data.max_length
    if not raw or (isinstance(raw, str) and not raw.strip()):
        raise UserError("there is nothing to look at: the text is empty")
    if len(ids) > longest:
        raise UserError(f"the text has {len(ids)} tokens, but this model reads {longest} at a time; look at less")
    return ids


def _watched(task: ExampleTask, ids: Sequence[int], places: Sequence[int] | None = None) -> tuple[Tensor, Tensor, Seen]:
    source = torch.tensor([list(ids)], device=task.device)
    with capture(task.model) as seen:
        logits = _logits(task, source, places)
    return source, logits, seen


def _logits(task: ExampleTask, source: Tensor, places: Sequence[int] | None = None) -> Tensor:
    wanted = [] if places is None else [torch.tensor([list(places)], device=task.device)]
    return task.model(source, torch.ones_like(source, dtype=torch.bool), *wanted).float()


def _tokenizer(task: ExampleTask) -> Tokenizer:
    reader = task.pair.input
    assert isinstance(reader, Text)
    return reader.tokenizer


def _side(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> Side:
    """Words as they were typed, where the tokenizer kept as many of them; else as it gives them back."""
    typed, kept = text.split(), tokenizer.decode(ids).split()
    return Side(text, tokenizer.pieces(ids), typed if len(typed) == len(kept) else kept, tokenizer.word_index(ids))


def _ranked(names: Sequence[str], row: Sequence[float]) -> list[Option]:
    return sorted(map(Option, names, row), key=lambda one: -one.probability)
