"""Translation with all that a search knows: scores, alternatives, which word came from which, and where it looked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from regard.data.normalise import normalise
from regard.errors import UserError
from regard.serving.workers.messages import MOST_WEIGHTS
from regard.serving.workers.tasks._request import Asked, Beam, Name, Texts, example

if TYPE_CHECKING:
    from regard.serving.workers.messages import Translated

__all__ = ["Request", "Answer", "answered", "check_size"]

MOST_LINKS = 4_000_000
"""Pairs of words that are looked at to align them, in all texts of a request: so many has one text of 2,000 words."""
Code = Annotated[str, Field(max_length=20, pattern=r"^[A-Za-z0-9-]+$")]


class Pair(BaseModel):
    """The languages to translate between."""

    model_config = ConfigDict(extra="forbid", strict=True)

    source: Code
    target: Code


class Request(Asked):
    """A text, or several, each answered as a whole: what is too long for the model is split and put together again."""

    model_config = example({"text": "Je suis étudiant.", "n_best": 2, "alignment": True})

    model: Name | Pair = Field(  # type: ignore[assignment]
        "", description="A model's name, or the languages; needed where there are several models."
    )
    text: Texts
    beam: Beam | None = Field(None, description="Hypotheses kept while searching; 1 is greedy.")
    n_best: Beam = Field(1, description="Translations of each text, the best and its alternatives.")
    length_penalty: float | None = Field(None, ge=0, le=10, description="0 favours short output, 1 long output.")
    max_length: int | None = Field(None, ge=1, le=1024, description="Most tokens of a sentence's translation.")
    alignment: bool = Field(False, description="Also say which word came from which.")
    attention: bool = Field(False, description="Also give the weights that this is read from.")


class Attention(BaseModel):
    """Where the model looked when it wrote each word."""

    source: list[str] = Field(description="Words of the text; empty where the model's tokenizer does not keep them.")
    target: list[str] = Field(description="Words of the translation.")
    weights: list[list[float]] = Field(description="A row for each word of the translation, over those of the text.")


class Hypothesis(BaseModel):
    text: str
    score: float = Field(description="The log-probability after the length penalty, by which translations are ranked.")
    log_probability: float
    tokens: list[str]
    finished: bool = Field(description="False where the limit of length ended it.")
    alignment: list[tuple[int, int]] | None = Field(
        None, description="Pairs of a source and a target word, counted from 0 over what spaces separate."
    )
    attention: Attention | None = None


class Translation(Hypothesis):
    alternatives: list[Hypothesis]


class Answer(BaseModel):
    """A translation of each text, in order."""

    model_config = example(
        {
            "model": "fr-en",
            "answers": [
                {
                    "text": "I am a student.",
                    "score": -0.3,
                    "log_probability": -1.4,
                    "tokens": ["▁I", "▁am", "▁a", "▁student", "."],
                    "finished": True,
                    "alignment": [[0, 0], [1, 1], [2, 3]],
                    "alternatives": [],
                }
            ],
        }
    )

    model: str
    answers: list[Translation]


def check_size(asked: Request) -> None:
    """Refuses at once what would clearly be too many weights or links. The weights themselves are counted when the
    translation is known, in the worker (`check_weights`)."""
    most = MOST_WEIGHTS if asked.attention else MOST_LINKS
    pairs = asked.n_best * sum(len(text.split()) ** 2 for text in asked.texts())
    if (asked.alignment or asked.attention) and pairs > most:
        what = "attention" if asked.attention else "alignment"
        raise UserError(f"{what}: {pairs:,} pairs of words, {most:,} are the most; send less text, or a lower n_best")


def answered(text: str, found: Translated) -> dict[str, Any]:
    """What is said of a text's translation and its alternatives."""
    return {**_hypothesis(text, found), "alternatives": [_hypothesis(text, other) for other in found.alternatives]}


def _hypothesis(text: str, found: Translated) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "text": found.text,
        "score": found.score,
        "log_probability": found.log_probability,
        "tokens": found.tokens,
        "finished": found.finished,
    }
    if found.alignment is not None:
        tree["alignment"] = found.alignment
    if found.attention is not None:
        source, target = normalise(text).split(), found.text.split()
        fits = all(len(row) == len(source) for row in found.attention)
        tree["attention"] = {"source": source if fits else [], "target": target, "weights": found.attention}
    return tree
