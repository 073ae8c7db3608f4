"""Views that several kinds of trace share: heads, numbers, positions, gates, gradients, ponder time, beam search."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch

from regard.errors import UserError, suggestion
from regard.inspection.draw.arithmetic import agreement, draw_calculation, title_of_calculation
from regard.inspection.draw.attention_lines import draw_lines
from regard.inspection.draw.attribution import draw_attribution, sentence_of
from regard.inspection.draw.beam_tree import draw_tree
from regard.inspection.draw.gates import gates_figure, gates_svg
from regard.inspection.draw.gradients import draw_gradients
from regard.inspection.draw.head_grid import Block, draw_grid
from regard.inspection.draw.heatmap import matrix_figure, matrix_svg
from regard.inspection.draw.positions import draw_positions
from regard.inspection.draw.style import isolated, shortened
from regard.inspection.draw.view import Picture, View, canvas_picture
from regard.inspection.trace.attribution import Attribution
from regard.inspection.trace.base import KINDS, SOURCE, TARGET, Choice, Gates, Trace, index_in
from regard.inspection.trace.image import CaptionTrace
from regard.inspection.trace.translation import TranslationTrace


def heads(trace: Trace, choice: Choice) -> View:
    """All attention heads as small heatmaps, and one head of each kind as lines between tokens."""
    if not trace.attention:
        raise UserError("this model has no attention, so it has no heads; try the view gates")
    kinds = [kind for kind in KINDS if trace.of_kind(kind)]
    blocks: list[Block] = [(KINDS[kind], kind, [layer.weights for layer in trace.of_kind(kind)]) for kind in kinds]
    chosen = choice.layer is not None or choice.head is not None
    if chosen and choice.attention not in kinds:
        raise UserError(f"this model has no attention '{choice.attention}'{suggestion(choice.attention, kinds)}")
    pictures = [canvas_picture("all layers and heads", partial(draw_grid, blocks, title_of(trace)))]
    for kind in [choice.attention, *(kind for kind in kinds if kind != choice.attention)]:
        if kind not in kinds:
            continue
        own = kind == choice.attention
        layer = _index(choice.layer if own else None, len(trace.of_kind(kind)), "layer")
        weights = trace.of_kind(kind)[layer].weights
        head = _index(choice.head if own else None, len(weights), "head")
        heading = f"{KINDS[kind]}, layer {layer}, head {head}"
        draw = partial(draw_lines, weights[head], trace.keys(kind), trace.queries(kind), heading)
        one = replace(
            canvas_picture(KINDS[kind], draw, partial(draw, every=True)),
            kind=kind,
            layer=layer,
            head=head,
            layers=len(trace.of_kind(kind)),
            heads=len(weights),
        )
        pictures.insert(0, one) if own and chosen else pictures.append(one)
    about = (
        "Each small matrix is one attention head: its rows are queries, its columns keys. As lines, keys are on the "
        "left and queries on the right."
    )
    return View("heads", about, ("attention",), pictures)


def numbers(trace: Trace, choice: Choice) -> View:
    """The arithmetic of one head for one query, with every number."""
    found = trace.calculation_of(choice)
    about = (
        "What one head computes for one token: positive numbers are violet, negative ones rust, darker with their "
        "magnitude. "
        f"{agreement(found)}"
    )
    picture = canvas_picture(title_of_calculation(found), partial(draw_calculation, found))
    return View("numbers", about, ("calculations",), [picture])


def positions(trace: Trace, choice: Choice) -> View:
    """The positional encodings as heatmaps."""
    if not trace.positions:
        raise UserError("this model has no positional encoding: it reads one token after the other")
    pictures = []
    for one in trace.positions:
        heading = f"{one.kind} positions of {', '.join(one.paths)}"
        pictures.append(canvas_picture(heading, partial(draw_positions, one.values, heading)))
    about = "The positional encoding that is added to the embeddings: a row per position, a column per dimension."
    return View("positions", about, ("positions",), pictures)


def beam(trace: TranslationTrace | CaptionTrace, choice: Choice) -> View:
    """The beam search as a tree."""
    about = (
        f"Beam search of width {trace.beam}: each column is a step with its open hypotheses, best first, and below "
        "them those that ended. The chosen hypothesis is highlighted."
    )
    picture = canvas_picture("beam search", partial(draw_tree, trace.search, title_of(trace)))
    return View("beam", about, ("search",), [picture])


def gates(trace: Trace, choice: Choice) -> View:
    """The gates and states of each recurrent layer."""
    if not trace.gates:
        raise UserError("this model has no gates: nothing in it is recurrent; try the view alignment or heads")
    layers = {one.layer for one in trace.gates}
    if choice.layer is not None and choice.layer not in layers:
        raise UserError(f"layer {choice.layer}: this model has the layers 0 to {max(layers)}")
    pictures = []
    for one in trace.gates:
        if choice.layer not in (None, one.layer):
            continue
        values = {name: torch.from_numpy(gate) for name, gate in one.values.items()}
        drawn = values, trace.tokens(one.side), one.path
        pictures.append(Picture(_gates_heading(one), partial(gates_svg, *drawn), partial(gates_figure, *drawn)))
    about = (
        "One panel per gate, one row per unit: positive values are violet, negative ones rust, darker with magnitude."
    )
    return View("gates", about, ("gates",), pictures)


def gradients(trace: Trace, choice: Choice) -> View:
    """The gradient norms of one output, on a linear scale and on a log scale, which shows where they vanish."""
    found = trace.gradients_of(choice.position)
    tokens = {side: trace.tokens(side) for side in (SOURCE, TARGET)}
    pictures = [
        canvas_picture(heading, partial(draw_gradients, found, tokens, log_scale))
        for heading, log_scale in (("gradients", False), ("gradients, log scale", True))
    ]
    about = (
        f"The gradient norm of the log-probability of output {found.position}, {isolated(shortened(found.token))}, "
        "at each step: the higher a bar, the more the output depends on that step."
    )
    return View("gradients", about, ("gradients",), pictures)


def ponder(trace: Trace, choice: Choice) -> View:
    """Adaptive computation time: the halting weight of each step, for each token."""
    if not trace.ponder:
        raise UserError("this model has no ponder time: only a Universal Transformer with halting does")
    pictures = []
    for one in trace.ponder:
        steps = [f"step {number}" for number in range(one.shares.shape[1])]
        tokens = [f"{isolated(token)} {time:.2f}" for token, time in zip(trace.tokens(one.side), one.times.tolist())]
        drawn = torch.from_numpy(np.ascontiguousarray(one.shares.T)), tokens, steps, one.path
        heading = f"ponder time of each {one.side} token"
        pictures.append(Picture(heading, partial(matrix_svg, *drawn), partial(matrix_figure, *drawn)))
    about = "The number beside a token is its ponder time in steps; the cells below are the weight of each step."
    return View("ponder", about, ("ponder",), pictures)


def why(trace: Trace, choice: Choice) -> View:
    """Attribution: which inputs made each output likely."""
    found = trace.attribution_of(choice)
    pictures = [canvas_picture("which inputs made it likely", partial(draw_attribution, found))]
    return View("why", about_attribution(found), ("attributions",), pictures)


def about_attribution(found: Attribution) -> str:
    """What the method does, and how to read the colours."""
    share = " The share of the source sums the sizes of its values." if found.has_prefix else ""
    return f"{sentence_of(found)} Violet made the output more likely, rust less; each row has its own scale.{share}"


def title_of(trace: Trace) -> str:
    """`source → target`."""
    return " → ".join(isolated(side.text) for side in trace.texts())


def _gates_heading(one: Gates) -> str:
    return f"layer {one.layer} of the {one.side}, {'backwards' if one.backwards else 'forwards'}"


def _index(chosen: int | None, count: int, what: str) -> int:
    return 0 if chosen is None else index_in(chosen, count, what)
