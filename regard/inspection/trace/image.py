"""The trace of an image that a model classified or described, as plain data.

A recording is traced likewise: its image is the spectrogram, whose places are time steps.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from regard.inspection.trace.base import CROSS, SOURCE, Side, Trace, plain
from regard.inspection.trace.scene import Scene, png_url
from regard.inspection.trace.translation import Candidate, SearchStep, average_heads, word_probabilities


@dataclass(kw_only=True, repr=False)
class SceneTrace(Trace):
    """The trace of a model whose source is a scene."""

    scene: Scene

    def tokens(self, side: str) -> Sequence[str]:
        return self.scene.tokens if side == SOURCE else self.decoder_tokens()

    def decoder_tokens(self) -> Sequence[str]:
        """The decoder's input tokens; none without a decoder."""
        return []

    def parts(self) -> set[str]:
        return super().parts() | {"scene"}

    def tree(self, parts: Collection[str] | None = None) -> dict[str, Any]:
        """Includes the image as a PNG."""
        included = self.parts() if parts is None else set(parts)
        found = super().tree(included - {"scene"})
        found["scene"] = {**plain(replace(self.scene, pixels=np.zeros(0))), "pixels": png_url(self.scene.pixels)}
        return found


@dataclass(kw_only=True, repr=False)
class ImageTrace(SceneTrace):
    """The trace of one classified image."""

    label: str
    probabilities: dict[str, float]
    """Of every class, the most likely first."""

    def default_view(self) -> str:
        return "gates" if self.gates and not self.attention else "patches"

    def texts(self) -> Sequence[Side]:
        return _untokenized(self.scene.name), _untokenized(self.label)

    def rollout(self) -> np.ndarray:
        """Attention rollout, (layers, tokens, tokens): the share of each input token in each position after a layer.

        A~(l) = (W(l) / 2 + I / 2) A~(l - 1), with W the mean of the heads (Abnar and Zuidema 2020, equation 1). Rows
        sum to one. Feed-forward layers are ignored.
        """
        layers = [layer.weights.mean(0) for layer in self.of_kind(SOURCE)]
        so_far, found = np.eye(len(self.scene.tokens), dtype=np.float32), []
        for weights in layers:
            so_far = 0.5 * weights @ so_far + 0.5 * so_far
            found.append(so_far)
        return np.stack(found) if found else np.zeros((0, *so_far.shape), np.float32)

    def parts(self) -> set[str]:
        return super().parts() | {"rollout"}

    def tree(self, parts: Collection[str] | None = None) -> dict[str, Any]:
        found = super().tree(parts)
        if (parts is None or "rollout" in parts) and self.attention:
            found["rollout"] = plain(self.rollout())
        return found


@dataclass(kw_only=True, repr=False)
class CaptionTrace(SceneTrace):
    """The trace of one caption of an image, or transcript of a recording."""

    target: Side
    read: list[str]
    """The decoder's input at each step: BEGIN, then the target token before."""
    probabilities: list[float]
    """The probability of each target token, given those before it."""
    log_probability: float
    score: float
    finished: bool
    beam: int = 1
    search: list[SearchStep] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)

    def default_view(self) -> str:
        return "patches" if self.of_kind(CROSS) else "beam"

    def texts(self) -> Sequence[Side]:
        return _untokenized(self.scene.name), self.target

    def decoder_tokens(self) -> Sequence[str]:
        return self.read

    def queries(self, kind: str) -> Sequence[str]:
        return self.target.tokens if kind == CROSS else self.tokens(SOURCE if kind == SOURCE else "")

    def token_matrix(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """Cross-attention (tokens, places), averaged over all layers and heads, or over those chosen."""
        return average_heads(self.of_kind(CROSS), layer, head)

    def word_matrix(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """The same for words, averaged over a word's tokens. Rows sum to one; END is left out."""
        between = self.token_matrix(layer, head)
        found = np.zeros((len(self.target.words), between.shape[1]), np.float32)
        for word in range(len(found)):
            own = [token for token, its_word in enumerate(self.target.word_of) if its_word == word]
            found[word] = between[own].mean(0) if own else 0.0
        return found

    def word_probabilities(self) -> list[float]:
        """The probability of each word, given those before it."""
        return word_probabilities(self.target, self.probabilities)

    def parts(self) -> set[str]:
        return super().parts() | {"matrices", "search"}

    def tree(self, parts: Collection[str] | None = None) -> dict[str, Any]:
        found = super().tree(parts)
        if (parts is None or "matrices" in parts) and self.of_kind(CROSS):
            found["token_matrix"], found["word_matrix"] = plain(self.token_matrix()), plain(self.word_matrix())
        return found


def _untokenized(text: str) -> Side:
    return Side(text, [], text.split(), [])
