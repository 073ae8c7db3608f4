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
from regard.inspection.draw.gradients import Scale, draw_gradients
from regard.inspection.draw.head_grid import Block, draw_grid
from regard.inspection.draw.heatmap import matrix_figure, matrix_svg
from regard.inspection.draw.logit_lens import draw_logit_lens
from regard.inspection.draw.model_map import draw_map
from regard.inspection.draw.positions import ROWS, cosine_similarity, draw_positions
from regard.inspection.draw.signed_bars import draw_signed_bars
from regard.inspection.draw.style import isolated, shortened
from regard.inspection.draw.view import Picture, View, canvas_picture
from regard.inspection.trace.attribution import Attribution
from regard.inspection.trace.base import KINDS, SOURCE, TARGET, Choice, Gates, Trace, index_in
from regard.inspection.trace.image import CaptionTrace
from regard.inspection.trace.translation import TranslationTrace


def heads(trace: Trace, choice: Choice) -> View:
    """All attention heads, or those of one layer, as small heatmaps; one head of each kind as lines between tokens."""
    if not trace.attention:
        raise UserError("this model has no attention, so it has no heads; try the view gates")
    kinds = [kind for kind in KINDS if trace.of_kind(kind)]
    if (choice.layer is not None or choice.head is not None) and choice.attention not in kinds:
        raise UserError(f"this model has no attention '{choice.attention}'{suggestion(choice.attention, kinds)}")
    only = choice.layer if choice.head is None else None  # a layer alone: all its heads
    if only is not None:
        index_in(only, len(trace.of_kind(choice.attention)), "layer")
    blocks: list[Block] = [
        (KINDS[kind], kind, layers)
        for kind in kinds
        if (layers := {n: one.weights for n, one in enumerate(trace.of_kind(kind)) if only in (None, n)})
    ]
    name = "all layers and heads" if only is None else f"all heads of layer {only}"
    pictures = [canvas_picture(name, partial(draw_grid, blocks, title_of(trace)))]
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
        pictures.insert(0, one) if own and choice.head is not None else pictures.append(one)
    about = (
        "Each small matrix is one attention head: a row per attending token (query), a column per token that it "
        "attends to (key). As lines, the attending token is on the right. The stronger the colour, the larger the "
        "weight."
    )
    return View("heads", about, ("attention",), pictures)


def numbers(trace: Trace, choice: Choice) -> View:
    """The arithmetic of one head for one query, with every number."""
    found = trace.calculation_of(choice)
    about = (
        "What one head computes for one token: purple is positive, orange negative; the stronger the colour, the "
        "larger the magnitude. "
        f"{agreement(found)}"
    )
    picture = canvas_picture(title_of_calculation(found), partial(draw_calculation, found))
    return View("numbers", about, ("calculations",), [picture])


def model_map(trace: Trace, choice: Choice) -> View:
    """The blocks of the model, with the input at the top and the output at the bottom."""
    if trace.map is None:
        raise UserError("this trace has no map of its model; record it again")
    tokens = {SOURCE: trace.tokens(SOURCE), TARGET: trace.tokens(TARGET)}
    outputs = trace.outputs() or trace.texts()[-1].words
    draw = partial(draw_map, trace.map, tokens, outputs, title_of(trace), choice.layer or 0)
    about = (
        "The blocks of the model in the order in which data flows through them; beside an arrow is the size of what "
        "flows along it, tokens x numbers."
    )
    return View("map", about, ("map",), [canvas_picture(f"{trace.map.parameters:,} parameters", draw)])


def positions(trace: Trace, choice: Choice) -> View:
    """The positional encodings as heatmaps, or with a position, how similar all others are to it."""
    if not trace.positions:
        raise UserError("this model has no positional encoding: it reads one token after the other")
    pictures = []
    for one in trace.positions:
        heading = f"{one.kind} positions of {', '.join(one.paths)}"
        draw = partial(draw_positions, one.values, heading)
        if choice.position is not None:
            chosen = index_in(choice.position, min(len(one.values), ROWS), "position")
            heading = f"similarity to position {chosen}"
            found = {"cosine": cosine_similarity(one.values[:ROWS], chosen)}
            labels = list(map(str, range(len(found["cosine"]))))
            draw = partial(draw_signed_bars, "regard-similarity", heading, found, labels, chosen)
        pictures.append(canvas_picture(heading, draw))
    about = (
        "The positional encoding that is added to the embeddings: a row per position, a column per dimension. "
        "Purple is positive, orange negative."
    )
    return View("positions", about, ("positions",), pictures)


def beam(trace: TranslationTrace | CaptionTrace, choice: Choice) -> View:
    """The beam search as a tree."""
    about = (
        f"Beam search of width {trace.beam}: each column is a step with its open hypotheses, best first, and below "
        "them those that ended. Below a token is the log-probability of its hypothesis; of one that ended also its "
        "score, the log-probability divided by the length penalty. The best score wins: it is highlighted."
    )
    picture = canvas_picture("beam search", partial(draw_tree, trace.search, title_of(trace)))
    return View("beam", about, ("search",), [picture])


def gates(trace: Trace, choice: Choice) -> View:
    """The gates and states of each recurrent layer, or those of one unit of it along the text."""
    if not trace.gates:
        raise UserError("this model has no gates: nothing in it is recurrent; try the view alignment or heads")
    layers = {one.layer for one in trace.gates}
    if choice.layer is not None and choice.layer not in layers:
        raise UserError(f"layer {choice.layer}: this model has the layers 0 to {max(layers)}")
    pictures = []
    for one in trace.gates:
        if choice.layer not in (None, one.layer):
            continue
        if choice.unit is not None:
            unit = index_in(choice.unit, next(iter(one.values.values())).shape[1], "unit")
            heading = f"unit {unit} of {_gates_heading(one)}"
            along = {name: gate[:, unit] for name, gate in one.values.items()}
            draw = partial(draw_signed_bars, "regard-unit", heading, along, trace.tokens(one.side))
            pictures.append(canvas_picture(heading, draw))
            continue
        values = {name: torch.from_numpy(gate) for name, gate in one.values.items()}
        drawn = values, trace.tokens(one.side), one.path
        pictures.append(Picture(_gates_heading(one), partial(gates_svg, *drawn), partial(gates_figure, *drawn)))
    about = (
        "One panel per gate, one row per unit: purple is positive, orange negative; the stronger the colour, the "
        "larger the magnitude."
    )
    return View("gates", about, ("gates",), pictures)


def gradients(trace: Trace, choice: Choice) -> View:
    """The gradient norms of one output on three scales: shared by all layers, one per panel, and logarithmic."""
    found = trace.gradients_of(choice.position)
    tokens = {side: trace.tokens(side) for side in (SOURCE, TARGET)}
    scales: dict[str, Scale] = {
        "gradients": "shared",
        "gradients, one scale per panel": "own",
        "gradients, logarithmic scale": "logarithmic",
    }
    pictures = [
        canvas_picture(heading, partial(draw_gradients, found, tokens, scale)) for heading, scale in scales.items()
    ]
    about = (
        f"The gradient norm of the log-probability of output {found.position}, {isolated(shortened(found.token))}, "
        "at each step: the higher a bar, the more the output depends on that step."
    )
    return View("gradients", about, ("gradients",), pictures)


def logit_lens(trace: Trace, choice: Choice) -> View:
    """What the model would write after each layer."""
    lens = trace.lens()
    about = (
        "The state after each layer, projected to the vocabulary as if it were the last: the likeliest token at each "
        "position, the stronger the colour, the more likely; underlined where it is the one that the model writes "
        "in the end."
    )
    picture = canvas_picture("logit lens", partial(draw_logit_lens, lens, title_of(trace)))
    return View("logit-lens", about, ("logit_lens",), [picture])


def ponder(trace: Trace, choice: Choice) -> View:
    """Adaptive computation time: the halting weight of each step, for each token."""
    if not trace.ponder:
        raise UserError("this model has no ponder time: only a Universal Transformer with halting does")
    pictures = []
    for one in trace.ponder:
        steps = [f"step {number}" for number in range(1, one.shares.shape[1] + 1)]
        tokens = [
            f"{isolated(token)} {steps_and_remainder(time, shares)}"
            for token, time, shares in zip(trace.tokens(one.side), one.times.tolist(), one.shares)
        ]
        drawn = torch.from_numpy(np.ascontiguousarray(one.shares.T)), tokens, steps, one.path
        heading = f"ponder time of each {one.side} token"
        pictures.append(Picture(heading, partial(matrix_svg, *drawn), partial(matrix_figure, *drawn)))
    about = (
        "Beside a token: how many steps it took before it halted, plus the remainder, which is the weight of its last "
        "step. Their sum is the ponder time. The cells are the weight of each step; those of a token sum to one."
    )
    return View("ponder", about, ("ponder",), pictures)


def steps_and_remainder(ponder_time: float, shares: np.ndarray) -> str:
    """`4 + 0.56`: the steps of a token and its remainder; their sum is the ponder time."""
    steps = int(np.flatnonzero(shares).max(initial=0)) + 1
    return f"{steps} + {max(0.0, ponder_time - steps):.2f}"


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
