"""Translation with scores, alternatives, word alignment and attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from regard.confidence.words import rounded, words_tree
from regard.data.normalise import normalise
from regard.errors import UserError
from regard.serving.workers.tasks._request import Beam, Name, TextTaskRequest, example
from regard.serving.workers.translation_result import MAX_ATTENTION_WEIGHTS

if TYPE_CHECKING:
    from regard.serving.workers.translation_result import TranslationResult

__all__ = ["Request", "Answer", "answered", "check_size"]

MAX_WORD_PAIRS = 4_000_000
"""Word pairs that alignment scores, over all texts of a request: as many as one text of 2,000 words has."""
Code = Annotated[str, Field(max_length=20, pattern=r"^[A-Za-z0-9_-]+$")]

GlossaryRows = Annotated[
    list[Annotated[list[Annotated[str, Field(max_length=2000)]], Field(fail_fast=True, min_length=2, max_length=3)]],
    Field(fail_fast=True, max_length=5000),
]


class Pair(BaseModel):
    """The languages to translate between."""

    model_config = ConfigDict(extra="forbid", strict=True)

    source: Code
    target: Code


class Request(TextTaskRequest):
    """A text or several. A text that is too long for the model is split, and its translation joined."""

    model_config = example({"text": "Je suis étudiant.", "n_best": 2, "alignment": True})

    model: Name | Pair = Field(  # type: ignore[assignment]
        "", description="A model's name, or the languages; required if there are several models."
    )
    source: Code | None = Field(None, description="The text's language, for a model with several directions.")
    target: Code | None = Field(None, description="The language to translate to, for a model with several directions.")
    beam: Beam | None = Field(None, description="Beam width; 1 is greedy.")
    n_best: Beam = Field(1, description="Number of translations of each text: the best and its alternatives.")
    length_penalty: float | None = Field(None, ge=0, le=10, description="0 favours short output, 1 long output.")
    max_length: int | None = Field(None, ge=1, le=1024, description="Maximum number of tokens per translated sentence.")
    glossary: GlossaryRows = Field(
        [], description="Terms: lists of the term, its translation and, optionally, `must` or `prefer`."
    )
    alignment: bool = Field(False, description="Also return the word alignment.")
    attention: bool = Field(False, description="Also return the attention weights.")
    doubt: bool = Field(
        False, description="Also return how likely the translation and each of its words is right, and warnings."
    )


class Attention(BaseModel):
    """Attention weights between words."""

    source: list[str] = Field(description="Words of the text; empty if the tokenizer does not preserve them.")
    target: list[str] = Field(description="Words of the translation.")
    weights: list[list[float]] = Field(description="A row per word of the translation, a column per word of the text.")


class Word(BaseModel):
    """A word of the translation: its characters from `start` to before `end`, without the punctuation around it."""

    start: int
    end: int
    confidence: float = Field(description="The probability that it is right, 0 to 1.")


class Warning(BaseModel):
    """What speaks against a translation."""

    check: str = Field(description="What was checked, such as numbers.")
    message: str


class Hypothesis(BaseModel):
    text: str
    score: float = Field(description="Log-probability with length penalty, the ranking criterion.")
    log_probability: float
    tokens: list[str]
    finished: bool = Field(description="False if the length limit cut it off.")
    alignment: list[tuple[int, int]] | None = Field(
        None, description="Pairs (source word, target word), counted from 0; words are separated by spaces."
    )
    attention: Attention | None = None
    confidence: float | None = Field(None, description="The probability that the translation is right, 0 to 1.")
    words: list[Word] | None = Field(None, description="The words with their confidences, in order.")
    warnings: list[Warning] | None = Field(None, description="Signs that the translation is wrong.")


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

    model: str = Field(description="Its name; through a third language, two names: `de-en+en-fr`.")
    answers: list[Translation]


def check_size(request: Request) -> None:
    """Refuses requests that would clearly return too much, before they are translated. The exact number of weights is
    checked in the worker (`check_attention_size`)."""
    limit = MAX_ATTENTION_WEIGHTS if request.attention else MAX_WORD_PAIRS
    pairs = request.n_best * sum(len(text.split()) ** 2 for text in request.texts())
    if (request.alignment or request.attention) and pairs > limit:
        what = "attention" if request.attention else "alignment"
        raise UserError(f"{what}: {pairs:,} word pairs exceed the limit of {limit:,}; send less text or a lower n_best")


def answered(text: str, found: TranslationResult) -> dict[str, Any]:
    """A text's translation and its alternatives as JSON."""
    return {**_hypothesis(text, found), "alternatives": [_hypothesis(text, other) for other in found.alternatives]}


def _hypothesis(text: str, found: TranslationResult) -> dict[str, Any]:
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
    if found.words is not None:
        tree["confidence"] = rounded(found.confidence)
        tree["words"] = words_tree(found.words)
        tree["warnings"] = [{"check": check, "message": message} for check, message in found.warnings]
    return tree
