"""The views of a translation, and those that other looks share: which pictures each is made of, in words and marks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from regard.errors import UserError, suggestion
from regard.inspection.draw.arithmetic import agreement, called, worked
from regard.inspection.draw.attention_lines import lines
from regard.inspection.draw.beam_tree import tree
from regard.inspection.draw.canvas import Sheet
from regard.inspection.draw.gates import gates_figure, gates_svg
from regard.inspection.draw.gradients import gradients
from regard.inspection.draw.head_grid import Block, grid
from regard.inspection.draw.heatmap import matrix_figure, matrix_svg
from regard.inspection.draw.positions import positions as positions_sheet
from regard.inspection.draw.steps import steps
from regard.inspection.draw.style import isolated
from regard.inspection.trace.base import CROSS, KINDS, Choice, Gates, Picture, Shown, View
from regard.inspection.trace.translation import Look, among


def _alignment(seen: Look, choice: Choice) -> View:
    if not seen.of_kind(CROSS):
        raise UserError("this model has no attention, so nothing says which word came from which; try the view gates")
    sides = {
        "words": (seen.word_matrix(choice.layer, choice.head), seen.source.words, seen.target.words),
        "tokens": (seen.token_matrix(choice.layer, choice.head), seen.source.tokens, seen.target.tokens),
    }
    found = []
    for name, (weights, columns, rows) in sides.items():
        given = torch.from_numpy(weights), columns, rows
        found.append(Picture(f"between {name}", partial(matrix_svg, *given), partial(matrix_figure, *given)))
    about = "The darker a cell, the more the model looked at the word above it when it wrote the word at its left."
    return View("alignment", about, ("matrices",), found[::-1] if choice.tokens else found)


def heads(seen: Shown, choice: Choice) -> View:
    if not seen.attention:
        raise UserError("this model has no attention, so it has no heads; try the view gates")
    kinds = [kind for kind in KINDS if seen.of_kind(kind)]
    blocks: list[Block] = [(KINDS[kind], kind, [layer.weights for layer in seen.of_kind(kind)]) for kind in kinds]
    chosen = choice.layer is not None or choice.head is not None
    if chosen and choice.attention not in kinds:
        raise UserError(f"this model has no attention '{choice.attention}'{suggestion(choice.attention, kinds)}")
    found = [drawn("all layers and heads", partial(grid, blocks, _title(seen)))]
    for kind in [choice.attention, *(kind for kind in kinds if kind != choice.attention)]:
        if kind not in kinds:
            continue
        own = kind == choice.attention
        layer = _picked(choice.layer if own else None, len(seen.of_kind(kind)), "layer")
        weights = seen.of_kind(kind)[layer].weights
        head = _picked(choice.head if own else None, len(weights), "head")
        heading = f"{KINDS[kind]}, layer {layer}, head {head}"
        draw = partial(lines, weights[head], seen.keys(kind), seen.queries(kind), heading)
        one = replace(
            drawn(KINDS[kind], draw, partial(draw, every=True)),
            kind=kind,
            layer=layer,
            head=head,
            layers=len(seen.of_kind(kind)),
            heads=len(weights),
        )
        found.insert(0, one) if own and chosen else found.append(one)
    about = (
        "Each head looks for something of its own. A small matrix is a head, its rows look at its columns; as lines, "
        "who looks is on the right."
    )
    return View("heads", about, ("attention",), found)


def positions(seen: Shown, choice: Choice) -> View:
    if not seen.positions:
        raise UserError("this model has no positions: it reads one token after the other")
    found = []
    for one in seen.positions:
        heading = f"{one.kind} positions of {', '.join(one.paths)}"
        found.append(drawn(heading, partial(positions_sheet, one.values, heading)))
    about = "What is added to a token to say where it stands: a row is a position, a column one number of its vector."
    return View("positions", about, ("positions",), found)


def _beam(seen: Look, choice: Choice) -> View:
    about = (
        f"The search kept {seen.beam} ways open, best on top; a line leads from a way to what it went on with, and the "
        "one that was chosen is in ink. Below stand those that ended."
    )
    return View("beam", about, ("search",), [drawn("the search", partial(tree, seen.search, _title(seen)))])


def gates(seen: Shown, choice: Choice) -> View:
    if not seen.gates:
        raise UserError("this model has no gates: nothing in it is recurrent; try the view alignment or heads")
    layers = {one.layer for one in seen.gates}
    if choice.layer is not None and choice.layer not in layers:
        raise UserError(f"layer {choice.layer}: this model has the layers 0 to {max(layers)}")
    wanted = [one for one in seen.gates if choice.layer in (None, one.layer)]
    found = []
    for one in wanted:
        given = {name: torch.from_numpy(values) for name, values in one.values.items()}, seen.tokens(one.side), one.path
        found.append(Picture(_called(one), partial(gates_svg, *given), partial(gates_figure, *given)))
    about = (
        "A panel is a gate, a row in it one unit: ink is above zero, rust below, and the farther from zero the darker."
    )
    return View("gates", about, ("gates",), found)


def ponder(seen: Shown, choice: Choice) -> View:
    if not seen.ponder:
        raise UserError("this model does not ponder: only a universal one with halting does")
    found = []
    for one in seen.ponder:
        steps = [f"step {number}" for number in range(one.shares.shape[1])]
        tokens = [f"{isolated(token)} {time:.2f}" for token, time in zip(seen.tokens(one.side), one.times.tolist())]
        given = torch.from_numpy(np.ascontiguousarray(one.shares.T)), tokens, steps, one.path
        heading = f"how long it thought about each token of the {one.side}"
        found.append(Picture(heading, partial(matrix_svg, *given), partial(matrix_figure, *given)))
    about = "Beside a token stands how long the model thought about it; below, how much each step of that counted."
    return View("ponder", about, ("ponder",), found)


def _steps(seen: Look, choice: Choice) -> View:
    weights = seen.token_matrix(choice.layer, choice.head) if seen.of_kind(CROSS) else None
    given = seen.target.tokens, seen.probabilities, seen.alternatives, seen.source.tokens, weights, _title(seen)
    looked = "where it looked just then, " if weights is not None else "(it has no attention, so it looked nowhere) "
    about = f"A row is a step: the token that was written, how sure the model was of it, {looked}and what else it "
    about += "thought of."
    return View("steps", about, ("alternatives", "ids", "matrices"), [drawn("step by step", partial(steps, *given))])


def numbers(seen: Shown, choice: Choice) -> View:
    found = seen.calculation_of(choice)
    about = (
        "How one token looked, number by number: ink is above zero, rust below, and the farther from zero the darker. "
        f"{agreement(found)}"
    )
    return View("numbers", about, ("calculations",), [drawn(called(found), partial(worked, found))])


VIEWS: dict[str, Callable[[Any, Choice], View]] = {
    "alignment": _alignment,
    "heads": heads,
    "steps": _steps,
    "numbers": numbers,
    "positions": positions,
    "beam": _beam,
    "gates": gates,
    "gradients": gradients,
    "ponder": ponder,
}


def drawn(heading: str, draw: Callable[[], Sheet], for_svg: Callable[[], Sheet] | None = None) -> Picture:
    return Picture(heading, lambda: (for_svg or draw)().svg(), lambda: draw().figure())


def _title(seen: Shown) -> str:
    return " → ".join(isolated(side.text) for side in seen.texts())


def _called(one: Gates) -> str:
    return f"layer {one.layer} of the {one.side}, {'from the end' if one.backwards else 'from the beginning'}"


def _picked(wanted: int | None, count: int, what: str) -> int:
    return 0 if wanted is None else among(wanted, count, what)
