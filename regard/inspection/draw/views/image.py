"""Views of an image that was classified or described: the attention over its patches, heads, positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from regard.errors import UserError
from regard.inspection.draw import patches
from regard.inspection.draw.attribution import draw_attribution, draw_on_image, with_one_column
from regard.inspection.draw.canvas import Canvas
from regard.inspection.draw.patches import AttentionMap
from regard.inspection.draw.view import Picture, View, canvas_picture
from regard.inspection.draw.views import common
from regard.inspection.trace.base import CROSS, SOURCE, Attention, Choice, index_in
from regard.inspection.trace.image import CaptionTrace, ImageTrace, SceneTrace
from regard.inspection.trace.scene import Scene

MOST_MAPS = 196
"""Places up to which the attention map of every place is drawn."""
MOST_LINES = 100
"""Places up to which the attention between them is drawn as lines, too: beyond, they hide each other."""


def class_patches(trace: ImageTrace, choice: Choice) -> View:
    """An attention map per layer and head, their mean, and the attention rollout."""
    query, who = query_of(trace, choice.position)
    layers, rollout = trace.of_kind(SOURCE), trace.rollout()
    heads = max((len(layer.weights) for layer in layers), default=0)
    rows = []
    for number, (layer, rolled) in enumerate(zip(layers, rollout)):
        maps = [
            _map(trace.scene, row_of(weights, query), f"layer {number}, head {head}: {who}", f"source {number} {head}")
            for head, weights in enumerate(layer.weights)
        ]
        mean = row_of(layer.weights.mean(0), query)
        maps.append(_map(trace.scene, mean, f"layer {number}, mean of heads: {who}"))
        maps.append(_map(trace.scene, row_of(rolled, query), f"layers 0 to {number}, rollout: {who}"))
        rows.append((f"layer {number}", maps))
    columns = [f"head {head}" for head in range(heads)] + ["mean", "rollout"]
    name = f"the {who} token" if query is not None and query < trace.scene.before else who
    title = f"{trace.label}: attention of {name}" if layers else trace.label
    draw = partial(patches.draw_overview, trace.scene, rows, columns, title, trace.probabilities, trace.scene.notes)
    pictures = [canvas_picture("all layers and heads", draw)]
    if layers:
        one_head = _one_head(trace, choice, layers, query, who)
        chosen = choice.layer is not None or choice.head is not None
        pictures = one_head + pictures if chosen else pictures + one_head
    about = (
        "An attention map per head: clear where the weight is large, veiled where it is small; the number below is the "
        "weight of the class token. Rollout combines the attention of all layers so far (Abnar and Zuidema 2020)."
    )
    return View("patches", about, ("attention", "rollout"), pictures)


def caption_patches(trace: CaptionTrace, choice: Choice) -> View:
    """The cross-attention map of each word, or of each token."""
    if not trace.of_kind(CROSS):
        raise UserError("this model has no attention, so there are no attention maps; try the view beam or gates")
    if choice.tokens:
        units = trace.target.tokens, trace.token_matrix(choice.layer, choice.head), trace.probabilities
    else:
        units = trace.target.words, trace.word_matrix(choice.layer, choice.head), trace.word_probabilities()
    maps = [
        AttentionMap(weights, word, word, f"{word}: probability {np.float32(probability)!s}")
        for word, weights, probability in zip(*units)
    ]
    draw = partial(patches.draw_caption, trace.scene, maps, trace.target.text, notes=trace.scene.notes)
    about = "An attention map per word: clear where the model attended when it generated the word, veiled elsewhere."
    heading = "for each token" if choice.tokens else "for each word"
    return View("patches", about, ("matrices",), [canvas_picture(heading, draw)])


def heads(trace: SceneTrace, choice: Choice) -> View:
    """Without a decoder there is only self-attention, so its kind need not be chosen."""
    encoder_only = choice.attention == CROSS and trace.attention and not trace.of_kind(CROSS)
    view = common.heads(trace, replace(choice, attention=SOURCE) if encoder_only else choice)
    if len(trace.scene.places) > MOST_LINES:
        view.pictures = [one for one in view.pictures if one.kind != SOURCE]
    return view


def positions(trace: SceneTrace, choice: Choice) -> View:
    """Positional encodings; for those of the patches also their cosine similarity."""
    view = common.positions(trace, choice)
    scene = trace.scene
    for one in trace.positions:
        values = one.values[scene.before : len(scene.tokens)]
        own = any(path.startswith("stem.") for path in one.paths) and len(one.values) == len(scene.tokens)
        if own and scene.rows > 1 and len(values) <= MOST_MAPS:
            heading = "cosine similarity of the position vectors"
            view.pictures.append(canvas_picture(heading, partial(_similarity, scene, values, heading)))
    return view


def why(trace: SceneTrace, choice: Choice) -> View:
    """Attribution over the places of the image; of a caption also to the words written before."""
    found = trace.attribution_of(choice)
    pictures = [canvas_picture("which places made it likely", partial(draw_on_image, found, trace.scene))]
    if found.has_prefix:
        whole = with_one_column(found, "all places")
        pictures.append(canvas_picture("the input and the words", partial(draw_attribution, whole, "input")))
    return View("why", common.about_attribution(found), ("attributions", "scene"), pictures)


def query_of(trace: ImageTrace, position: int | None) -> tuple[int | None, str]:
    """The index and name of the query: by default the class token; without one, the mean over all patches (None)."""
    tokens = trace.scene.tokens
    if position is not None:
        if not 0 <= position < len(tokens):
            raise UserError(f"position {position}: this image has the positions 0 to {len(tokens) - 1}")
        return position, tokens[position]
    return (0, "class") if trace.scene.before else (None, "all patches")


def row_of(weights: np.ndarray, query: int | None) -> np.ndarray:
    """One row of (queries, keys), or the mean of all rows."""
    return weights.mean(0) if query is None else weights[query]


def _map(scene: Scene, weights: np.ndarray, who: str, pick: str = "") -> AttentionMap:
    caption = f"class {weights[0]:.2f}" if scene.before else f"{weights.max():.2f}"
    tooltip = f"{who} → class: {weights[0]!s}" if scene.before else f"{who}: {weights.max()!s} at most"
    return AttentionMap(weights, who, caption, tooltip, pick)


def _one_head(
    trace: ImageTrace, choice: Choice, layers: Sequence[Attention], query: int | None, who: str
) -> list[Picture]:
    """One head: the attention map of one query, and of every place."""
    layer = 0 if choice.layer is None else index_in(choice.layer, len(layers), "layer")
    weights = layers[layer].weights
    head = 0 if choice.head is None else index_in(choice.head, len(weights), "head")
    heading, name = "attention of one place", f"layer {layer}, head {head}"
    draw = partial(
        patches.draw_query,
        trace.scene,
        row_of(weights[head], query),
        query,
        f"{heading}, {name}",
        f"query: {who}",
    )
    one = canvas_picture(heading, draw)
    if query is not None:
        one = replace(one, kind=SOURCE, layer=layer, head=head, layers=len(layers), heads=len(weights))
    pictures = [one]
    if len(trace.scene.places) <= MOST_MAPS:
        between = trace.scene.on_places(trace.scene.on_places(weights[head]).T).T
        heading = "attention of every place"
        draw = partial(patches.draw_every_query, trace.scene, between, f"{heading}, {name}")
        pictures.append(canvas_picture(f"{heading}, {name}", draw))
    return pictures


def _similarity(scene: Scene, values: np.ndarray, heading: str) -> Canvas:
    """Cosine similarity between the vectors of all places."""
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    unit = values / np.where(norms > 0, norms, 1)
    return patches.draw_every_query(scene, (unit @ unit.T).astype(np.float32), heading, over_image=False)
