"""What was seen of a picture that a model classified or wrote about, as plain data, and the views of it.

A recording is shown likewise: its picture is the spectrogram, whose places are moments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from regard import word_alignment as alignment
from regard.errors import UserError
from regard.inspection.draw import patches
from regard.inspection.draw import views as general
from regard.inspection.draw.canvas import png
from regard.inspection.draw.patches import Glance
from regard.inspection.trace.base import CROSS, READING, Attention, Choice, Picture, Shown, Side, View, plain
from regard.inspection.trace.scene import Scene
from regard.inspection.trace.translation import Candidate, SearchStep, among

MOST_MAPS = 196
"""Places of which a picture each is drawn, all at once."""


@dataclass(kw_only=True, repr=False)
class Viewed(Shown):
    """A look at a scene: the picture, and what came of it."""

    scene: Scene

    def tokens(self, side: str) -> Sequence[str]:
        return self.scene.tokens if side == READING else self.read_tokens()

    def read_tokens(self) -> Sequence[str]:
        """What was written and read again; nothing, where nothing is written."""
        return []

    def parts(self) -> set[str]:
        return super().parts() | {"scene"}

    def tree(self, parts: Collection[str] | None = None) -> dict[str, Any]:
        """The picture is there as a PNG."""
        wanted = self.parts() if parts is None else set(parts)
        found = super().tree(wanted - {"scene"})
        found["scene"] = {**plain(replace(self.scene, pixels=np.zeros(0))), "pixels": png(self.scene.pixels)}
        return found


@dataclass(kw_only=True, repr=False)
class PictureLook(Viewed):
    """One picture, classified, seen from inside."""

    label: str
    probabilities: dict[str, float]
    """Of every class, the likeliest first."""

    def views(self) -> Mapping[str, Callable[[Any, Choice], View]]:
        return PICTURE_VIEWS

    def usual(self) -> str:
        return "gates" if self.gates and not self.attention else "patches"

    def texts(self) -> Sequence[Side]:
        return _plainly(self.scene.name), _plainly(self.label)

    def rollout(self) -> np.ndarray:
        """(layers, tokens, tokens): how much of each token of the input each place holds after a layer, if a layer
        mixes by the mean of its heads and keeps half of what was there: A~(l) = (W(l) / 2 + I / 2) A~(l - 1) (Abnar
        and Zuidema 2020, equation 1). Rows sum to one. What feed-forward layers do is left out."""
        layers = [layer.weights.mean(0) for layer in self.of_kind(READING)]
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
class CaptionLook(Viewed):
    """A text that was written about a picture or a recording, seen from inside."""

    target: Side
    read: list[str]
    """What the decoder had read last when it wrote each token of the target: the token before it, at first BEGIN."""
    probabilities: list[float]
    """How sure the model was of each token of the target, given those before it."""
    log_probability: float
    score: float
    finished: bool
    beam: int = 1
    search: list[SearchStep] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)

    def views(self) -> Mapping[str, Callable[[Any, Choice], View]]:
        return CAPTION_VIEWS

    def usual(self) -> str:
        return "patches" if self.of_kind(CROSS) else "beam"

    def texts(self) -> Sequence[Side]:
        return _plainly(self.scene.name), self.target

    def read_tokens(self) -> Sequence[str]:
        return self.read

    def queries(self, kind: str) -> Sequence[str]:
        return self.target.tokens if kind == CROSS else self.tokens(READING if kind == READING else "")

    def token_matrix(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """Where each token of the text looked: (tokens, places), the mean of layers and heads, or of those chosen."""
        cross = self.of_kind(CROSS)
        if layer is not None:
            cross = [cross[among(layer, len(cross), "layer")]]
        heads = None if head is None else [among(head, len(cross[0].weights), "head")]
        return alignment.average([torch.from_numpy(one.weights)[None] for one in cross], heads)[0].numpy()

    def word_matrix(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """The same of words, the mean over a word's tokens. Rows sum to one; the end of the text is left out."""
        between = self.token_matrix(layer, head)
        found = np.zeros((len(self.target.words), between.shape[1]), np.float32)
        for word in range(len(found)):
            own = [token for token, its_word in enumerate(self.target.word_of) if its_word == word]
            found[word] = between[own].mean(0) if own else 0.0
        return found

    def word_probabilities(self) -> list[float]:
        """How sure the model was of each word: of all its tokens, one after the other."""
        found = [1.0] * len(self.target.words)
        for word, probability in zip(self.target.word_of, self.probabilities):
            found[word] *= probability
        return found

    def parts(self) -> set[str]:
        return super().parts() | {"matrices", "search"}

    def tree(self, parts: Collection[str] | None = None) -> dict[str, Any]:
        found = super().tree(parts)
        if (parts is None or "matrices" in parts) and self.of_kind(CROSS):
            found["token_matrix"], found["word_matrix"] = plain(self.token_matrix()), plain(self.word_matrix())
        return found


# The views.


def who_looks(seen: PictureLook, position: int | None) -> tuple[int | None, str]:
    """Which row of an attention is shown, and what it is called: of the class token, unless another is asked for; and
    where there is none, the mean of all."""
    tokens = seen.scene.tokens
    if position is not None:
        if not 0 <= position < len(tokens):
            raise UserError(f"position {position}: this picture has the positions 0 to {len(tokens) - 1}")
        return position, tokens[position]
    return (0, "class") if seen.scene.before else (None, "all patches")


def row_of(weights: np.ndarray, query: int | None) -> np.ndarray:
    """One row of (queries, keys), or the mean of all."""
    return weights.mean(0) if query is None else weights[query]


def _classified(seen: PictureLook, choice: Choice) -> View:
    query, who = who_looks(seen, choice.position)
    layers, rollout = seen.of_kind(READING), seen.rollout()
    heads = max((len(layer.weights) for layer in layers), default=0)
    rows = []
    for number, (layer, rolled) in enumerate(zip(layers, rollout)):
        glances = [
            _glance(
                seen.scene, row_of(weights, query), f"layer {number}, head {head}: {who}", f"source {number} {head}"
            )
            for head, weights in enumerate(layer.weights)
        ]
        mean = row_of(layer.weights.mean(0), query)
        glances.append(_glance(seen.scene, mean, f"layer {number}, mean of heads: {who}"))
        glances.append(_glance(seen.scene, row_of(rolled, query), f"layers 0 to {number}, rollout: {who}"))
        rows.append((f"layer {number}", glances))
    columns = [f"head {head}" for head in range(heads)] + ["mean", "rollout"]
    title = f"{seen.label}: where {'the class token' if who == 'class' else who} looked" if layers else seen.label
    draw = partial(patches.overview, seen.scene, rows, columns, title, seen.probabilities, seen.scene.notes)
    found = [general.drawn("all layers and heads", draw)]
    if layers:
        closer = _closer(seen, choice, layers, query, who)
        found = closer + found if choice.layer is not None or choice.head is not None else found + closer
    about = (
        "A picture for each head, under a veil that lifts where it looked; the number below is what it gave to the "
        "class token. Rollout follows the attention through all layers so far (Abnar and Zuidema 2020)."
    )
    return View("patches", about, ("attention", "rollout"), found)


def _glance(scene: Scene, weights: np.ndarray, who: str, pick: str = "") -> Glance:
    below = f"class {weights[0]:.2f}" if scene.before else f"{weights.max():.2f}"
    told = f"{who} → class: {weights[0]!s}" if scene.before else f"{who}: {weights.max()!s} at most"
    return Glance(weights, who, below, told, pick)


def _closer(
    seen: PictureLook, choice: Choice, layers: Sequence[Attention], query: int | None, who: str
) -> list[Picture]:
    """One head: where one place looks, and where each does."""
    layer = 0 if choice.layer is None else among(choice.layer, len(layers), "layer")
    weights = layers[layer].weights
    head = 0 if choice.head is None else among(choice.head, len(weights), "head")
    heading, named = "where one place looks", f"layer {layer}, head {head}"
    draw = partial(
        patches.one_look,
        seen.scene,
        row_of(weights[head], query),
        query,
        f"{heading}, {named}",
        f"who looks: {who}",
    )
    one = general.drawn(heading, draw)
    if query is not None:
        one = replace(one, kind=READING, layer=layer, head=head, layers=len(layers), heads=len(weights))
    found = [one]
    if len(seen.scene.places) <= MOST_MAPS:
        between = weights[head][seen.scene.before :, seen.scene.before :]
        heading = "where every place looks"
        draw = partial(patches.every_look, seen.scene, between, f"{heading}, {named}")
        found.append(general.drawn(f"{heading}, {named}", draw))
    return found


def _captioned(seen: CaptionLook, choice: Choice) -> View:
    if not seen.of_kind(CROSS):
        raise UserError("this model has no attention, so nothing says where it looked; try the view beam or gates")
    if choice.tokens:
        given = seen.target.tokens, seen.token_matrix(choice.layer, choice.head), seen.probabilities
    else:
        given = seen.target.words, seen.word_matrix(choice.layer, choice.head), seen.word_probabilities()
    glances = [
        Glance(weights, word, word, f"{word}: probability {np.float32(sure)!s}") for word, weights, sure in zip(*given)
    ]
    draw = partial(patches.sentence, seen.scene, glances, seen.target.text, notes=seen.scene.notes)
    about = (
        "The picture once more for every word, under a veil that lifts where the model looked when it wrote the word."
    )
    heading = "for each token" if choice.tokens else "for each word"
    return View("patches", about, ("matrices",), [general.drawn(heading, draw)])


def _heads(seen: Viewed, choice: Choice) -> View:
    """What a picture's model looks with is of the source alone, where it writes nothing."""
    alone = choice.attention == CROSS and seen.attention and not seen.of_kind(CROSS)
    return general.heads(seen, replace(choice, attention=READING) if alone else choice)


def _positions(seen: Viewed, choice: Choice) -> View:
    """With how alike the vectors of all places are, as far as they are the picture's own."""
    found = general.positions(seen, choice)
    scene = seen.scene
    for one in seen.positions:
        values = one.values[scene.before : len(scene.tokens)]
        own = any(path.startswith("stem.") for path in one.paths) and len(one.values) == len(scene.tokens)
        if own and scene.rows > 1 and len(values) <= MOST_MAPS:
            heading = "how alike each place's vector is to every other's (cosine)"
            found.pictures.append(general.drawn(heading, partial(_alike, scene, values, heading)))
    return found


def _alike(scene: Scene, values: np.ndarray, heading: str) -> Any:
    long = np.linalg.norm(values, axis=1, keepdims=True)
    ways = values / np.where(long > 0, long, 1)
    return patches.every_look(scene, (ways @ ways.T).astype(np.float32), heading, pictured=False)


PICTURE_VIEWS: dict[str, Callable[[Any, Choice], View]] = {
    "patches": _classified,
    "heads": _heads,
    "numbers": general.numbers,
    "positions": _positions,
    "gates": general.gates,
    "ponder": general.ponder,
}
CAPTION_VIEWS: dict[str, Callable[[Any, Choice], View]] = {
    "patches": _captioned,
    "heads": _heads,
    "numbers": general.numbers,
    "positions": _positions,
    "beam": general.VIEWS["beam"],
    "gates": general.gates,
    "ponder": general.ponder,
}


def _plainly(text: str) -> Side:
    return Side(text, [], text.split(), [])
