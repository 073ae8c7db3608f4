"""Calibrations: the weights that make probabilities of features. Data of a model, a small JSON file in its folder.

The file may be replaced, so the manifest does not list it; it may come from anyone, so all of it is checked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.confidence.features import SENTENCE_FEATURES, WORD_FEATURES
from regard.errors import UserError
from regard.regular_files import read_regular
from regard.storage import CALIBRATION

FORMAT = 1
MOST_BYTES = 1 << 20
MOST_DIRECTIONS = 2000
LARGEST = 1e6
"""Of any number in the file."""


@dataclass(frozen=True)
class Logistic:
    """A logistic regression."""

    weights: tuple[float, ...]
    bias: float

    def probability(self, features: Sequence[float]) -> float:
        logit = self.bias + sum(weight * value for weight, value in zip(self.weights, features, strict=True))
        return 1 / (1 + math.exp(-min(max(logit, -30.0), 30.0)))


@dataclass(frozen=True)
class Calibration:
    """How features become confidences, for one direction."""

    word: Logistic
    sentence: Logistic
    sentences: int = 0
    """How many it was made from; 0 is the generic one, which knows nothing of the model."""

    @property
    def generic(self) -> bool:
        return self.sentences == 0


GENERIC = Calibration(
    Logistic((0.039, 0.537, 0.809, 0.03, 0.091, -0.201, 0.071, -0.469, 0.81), 0.808), Logistic((3.404, 0.97), 1.004)
)
"""For models that have none: fitted on the validation text of the shipped ones together (docs/doubt.md)."""


@dataclass(frozen=True)
class Calibrations:
    """Those of a model, by direction: "fr-en", or "" for a model that does not state its languages."""

    of: Mapping[str, Calibration] = field(default_factory=dict)

    def for_direction(self, source: str, target: str) -> Calibration:
        """The direction's own; without, the generic one."""
        return self.of.get(direction_name(source, target)) or self.of.get("") or GENERIC

    def with_one(self, source: str, target: str, calibration: Calibration) -> Calibrations:
        return Calibrations({**self.of, direction_name(source, target): calibration})

    def to_json(self) -> bytes:
        listed = {
            direction: {"sentences": one.sentences, "word": _tree(one.word), "sentence": _tree(one.sentence)}
            for direction, one in sorted(self.of.items())
        }
        features = {"word": WORD_FEATURES, "sentence": SENTENCE_FEATURES}
        return (json.dumps({"format": FORMAT, "features": features, "directions": listed}, indent=1) + "\n").encode()

    @classmethod
    def read(cls, folder: Path | None) -> Calibrations:
        """Those in a model folder; none if it has no such file."""
        if folder is None or not (folder / CALIBRATION).exists():
            return cls()
        where = folder / CALIBRATION
        try:
            return cls._parsed(read_regular(where, MOST_BYTES))
        except OSError as error:
            raise UserError(f"{where}: cannot be read ({error.strerror})") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise UserError(f"{where}: is no calibration; make it again: regard calibrate") from None

    @classmethod
    def _parsed(cls, content: bytes) -> Calibrations:
        tree = json.loads(content)
        directions = tree["directions"]
        features = tree["features"]["word"], tree["features"]["sentence"]
        if tree["format"] != FORMAT or features != (list(WORD_FEATURES), list(SENTENCE_FEATURES)):
            raise ValueError("of another version")
        if len(directions) > MOST_DIRECTIONS:
            raise ValueError("too many directions")
        return cls(
            {
                str(direction): Calibration(
                    _logistic(one["word"], len(WORD_FEATURES)),
                    _logistic(one["sentence"], len(SENTENCE_FEATURES)),
                    max(1, int(_number(one["sentences"]))),
                )
                for direction, one in directions.items()
            }
        )


def direction_name(source: str, target: str) -> str:
    return f"{source}-{target}" if source and target else ""


def _tree(one: Logistic) -> dict[str, Any]:
    return {"weights": [round(weight, 6) for weight in one.weights], "bias": round(one.bias, 6)}


def _logistic(tree: Any, features: int) -> Logistic:
    weights = tuple(map(_number, tree["weights"]))
    if len(weights) != features:
        raise ValueError("of other features")
    return Logistic(weights, _number(tree["bias"]))


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) <= LARGEST:
        raise ValueError("no number")
    return float(value)
