"""F11: how training and generation time of a recurrent network and a Transformer depend on sentence length.

Encoders of the same depth and about the same number of parameters train on the same number of tokens, split into fewer
and longer sentences: the work of a recurrent network stays the same, and only the number of sequential steps grows.
That number is also counted, in autograd's graph of a forward pass.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.decoder._base import Decoder
from regard.decoder.recurrent import RecurrentDecoder
from regard.decoder.transformer import TransformerDecoder
from regard.device import mixed_precision
from regard.encoder.recurrent import RecurrentEncoder
from regard.encoder.transformer import TransformerEncoder
from regard.lab._drawing import PALETTE, label_ends, panels
from regard.lab._experiment import Experiment, Numbers, Setting, Verdict
from regard.layers.capture import capture
from regard.types import BEGIN, Memory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Parallel"]


@dataclass(frozen=True)
class Recipe:
    """Sizes of the networks and of the inputs they are timed on."""

    lengths: tuple[int, ...]
    tokens: int
    """Tokens per training batch, at any sentence length."""
    width: int
    heads: int
    sentences: int
    """Sentences generated at once."""
    rounds: int
    least: float
    """Minimum seconds per round; short steps are repeated."""
    layers: int = 2
    vocabulary: int = 1000


SIZES = {
    "tiny": Recipe((8, 16, 32), tokens=64, width=16, heads=2, sentences=2, rounds=3, least=0.0),
    "small": Recipe((16, 32, 64, 128, 256), tokens=1024, width=128, heads=4, sentences=16, rounds=9, least=0.05),
    "full": Recipe(
        (32, 64, 128, 256, 512, 1024, 2048), tokens=16_384, width=512, heads=8, sentences=128, rounds=5, least=0.05
    ),
}
STEEPER = 0.5
SOURCE = 16
"""Positions of the memory that decoders attend to, the same for every length."""
READERS, WRITERS = ("LSTM", "RNN", "Transformer"), ("LSTM", "Transformer")
Reader = RecurrentEncoder | TransformerEncoder


class Parallel(Experiment):
    claim = (
        "RNNs are sequential, attention is parallel: at the same number of tokens, longer sentences slow the RNN down."
    )
    lecture = "F11"
    threshold = (
        "At a constant number of tokens a batch, the slope of log time against log length of a training step is at "
        "least 0.5 greater for the LSTM, and for the RNN, than for a Transformer with as many parameters (within 10%); "
        "this is a verdict on the device it was measured on."
    )
    code = (
        "regard.lab.parallel.training_step",
        "regard.lab.parallel.longest_chain",
        "regard.lab.parallel.write",
        "regard.layers.recurrence.Recurrence.forward",
        "regard.layers.cell._base.Cell.spelled_out",
        "regard.layers.attend.dot_product_attention",
    )
    timed = ("seconds",)

    def run(self, size: str, setting: Setting) -> Numbers:
        recipe, device = SIZES[size], setting.device
        torch.manual_seed(setting.seed)
        readers = {name: encoder.to(device) for name, encoder in encoders(recipe).items()}
        writers = {name: decoder.to(device).eval() for name, decoder in decoders(recipe).items()}
        chains: dict[str, list[int]] = {name: [] for name in readers}
        seconds: dict[str, dict[str, list[float]]] = {
            "batch": {name: [] for name in readers},
            "alone": {name: [] for name in readers},
            "writing": {name: [] for name in writers},
        }
        for done, length in enumerate(recipe.lengths):
            setting.progress(done, len(recipe.lengths), "timing")
            for name, encoder in readers.items():
                chains[name].append(chain(encoder, length, device))
            for kind, rows in (("batch", recipe.tokens // length), ("alone", 1)):
                works = {name: training_work(encoder, rows, length, device) for name, encoder in readers.items()}
                for name, taken in timed(works, device, recipe.rounds, recipe.least).items():
                    seconds[kind][name].append(taken)
            writing = {name: writing_work(decoder, recipe, length, device) for name, decoder in writers.items()}
            for name, taken in timed(writing, device, recipe.rounds // 2 + 1, 0.0).items():
                seconds["writing"][name].append(taken / length)
        setting.progress(len(recipe.lengths), len(recipe.lengths), "timing")
        return {
            "device": device.type,
            "lengths": list(recipe.lengths),
            "tokens": recipe.tokens,
            "sentences": recipe.sentences,
            "parameters": {
                "reading": {name: parameters(encoder) for name, encoder in readers.items()},
                "writing": {name: parameters(decoder) for name, decoder in writers.items()},
            },
            "chains": chains,
            "seconds": seconds,
        }

    def table(self, numbers: Numbers) -> list[list[str]]:
        head = ["measured", "network", "parameters", *map(str, numbers["lengths"]), "slope"]
        kinds = {
            "batch": f"step of {numbers['tokens']:,} tokens, ms",
            "alone": "step of one sentence, ms",
            "writing": f"token of {numbers['sentences']} sentences, ms",
        }
        rows = []
        for kind, title in kinds.items():
            counts = numbers["parameters"]["writing" if kind == "writing" else "reading"]
            for name, taken in numbers["seconds"][kind].items():
                times = [_digits(1000 * value) for value in taken]
                rows.append([title, name, f"{counts[name]:,}", *times, _slope_shown(slope(numbers, kind, name))])
        for name, lengths in numbers["chains"].items():
            steep = _slope_shown(_slope(numbers["lengths"], lengths))
            rows.append(["longest chain of operations", name, "-", *map(str, lengths), steep])
        return [head, *rows]

    def verdict(self, numbers: Numbers) -> Verdict:
        slopes = {name: slope(numbers, "batch", name) for name in READERS}
        # As they are shown: a page whose numbers say "0.50" must not say that it was less.
        steeper = {name: round(slopes[name] - slopes["Transformer"], 2) for name in ("LSTM", "RNN")}
        held = all(more >= STEEPER for more in steeper.values())
        lengths, chains = numbers["lengths"], numbers["chains"]

        def times(kind: str, name: str) -> str:
            taken = numbers["seconds"][kind][name]
            return _digits(taken[-1] / taken[0])

        found = [
            f"from {lengths[0]} to {lengths[-1]} tokens a sentence, a step on {numbers['tokens']:,} tokens takes "
            + ", ".join(
                f"{times('batch', name)} times as long with the {name} (slope {_slope_shown(slopes[name])})"
                for name in READERS
            ),
            "the longest chain of operations goes "
            + " and ".join(f"from {chains[name][0]} to {chains[name][-1]} in the {name}" for name in WRITERS),
            "writing, which both do one token after the other, a token costs "
            + " and ".join(f"{times('writing', name)} times as much with the {name}" for name in WRITERS),
        ]
        if not held and numbers["device"] == "cpu":
            found.insert(1, "this processor has little to gain from doing many things at once")
        return Verdict(held, "; ".join(found))

    def figure(self, numbers: Numbers) -> Figure:
        figure, (reading, writing) = panels(columns=2, width=5.8, height=4.0)
        lines = [("batch", name, "-", "") for name in READERS] + [("alone", name, "--", " alone") for name in READERS]
        _draw(reading, numbers, lines, f"Training step of {numbers['tokens']:,} tokens, and of one sentence alone")
        lines = [("writing", name, "-", "") for name in WRITERS]
        _draw(writing, numbers, lines, f"Writing a token of {numbers['sentences']} sentences")
        return figure


# ------------------------------------------------------------------------------------------------------- measuring


def encoders(recipe: Recipe) -> dict[str, Reader]:
    """A layer of each has about 8 D^2 weights: 4 gates with 2 each, one at twice the width, attention's 4 + 4."""
    depth = recipe.layers
    return {
        "LSTM": RecurrentEncoder(0, recipe.width, depth, "lstm", "forward", dropout=0.0),
        "RNN": RecurrentEncoder(0, 2 * recipe.width, depth, "rnn", "forward", dropout=0.0),
        "Transformer": TransformerEncoder(recipe.width, depth, recipe.heads, 2 * recipe.width, dropout=0.0),
    }


def decoders(recipe: Recipe) -> dict[str, Decoder]:
    """A Transformer layer with cross-attention has about 12 D^2 weights: three LSTM layers match two of them."""
    size, width = recipe.vocabulary, recipe.width
    return {
        "LSTM": RecurrentDecoder(size, 0, width, layers=recipe.layers * 3 // 2, dropout=0.0, bridge="copy"),
        "Transformer": TransformerDecoder(size, width, recipe.layers, recipe.heads, 2 * width, dropout=0.0),
    }


def parameters(model: nn.Module) -> int:
    return sum(weights.numel() for weights in model.parameters())


def training_step(encoder: Reader, x: Float[Tensor, "B T D"]) -> None:
    """Forward and backward; the gradients are left in the weights."""
    device = x.device.type
    precision = mixed_precision("auto", x.device)
    encoder.zero_grad()
    with torch.autocast(device, precision) if precision else contextlib.nullcontext():
        states = encoder(x, torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)).states
    states.float().square().mean().backward()


def training_work(encoder: Reader, rows: int, length: int, device: torch.device) -> Callable[[], None]:
    x = torch.randn(rows, length, encoder.width, device=device)
    return lambda: training_step(encoder, x)


def write(decoder: Decoder, memory: Memory, length: int) -> Tensor:
    """So many tokens, each the likeliest after those before, and the position the decoder came to."""
    with torch.inference_mode():
        state = decoder.start(memory, beams=1, capacity=length)
        ids = torch.full((len(memory), 1), BEGIN, device=memory.states.device)
        for _ in range(length):
            logits, state = decoder.step(ids, state)
            ids = logits.argmax(-1)
    return state.position


def writing_work(decoder: Decoder, recipe: Recipe, length: int, device: torch.device) -> Callable[[], Tensor]:
    rows, width = recipe.sentences, recipe.width
    final = [tuple(torch.zeros(rows, width, device=device) for _ in "hc") for _ in range(recipe.layers * 3 // 2)]
    mask = torch.ones(rows, SOURCE, dtype=torch.bool, device=device)
    memory = Memory(torch.randn(rows, SOURCE, width, device=device), mask, final)
    return lambda: write(decoder, memory, length)


def timed(
    works: Mapping[str, Callable[[], object]], device: torch.device, rounds: int, least: float
) -> dict[str, float]:
    """Seconds of each: the median of alternating rounds, after a warm-up."""

    def taken(work: Callable[[], object], calls: int) -> float:
        _wait(device)
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        _wait(device)
        return (time.perf_counter() - begin) / calls

    calls = {}
    for name, work in works.items():
        taken(work, 1)
        calls[name] = max(1, math.ceil(least / taken(work, 1)))
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            found[name].append(taken(work, calls[name]))
    return {name: statistics.median(each) for name, each in found.items()}


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.get_device_module(device).synchronize(device)


def chain(encoder: Reader, length: int, device: torch.device) -> int:
    """The longest chain of operations for one sentence, spelled out, as a fused one would hide many."""
    x = torch.zeros(1, length, encoder.width, device=device)
    with capture(encoder):
        states = encoder(x, torch.ones(1, length, dtype=torch.bool, device=device)).states
    return longest_chain(states)


def longest_chain(result: Tensor) -> int:
    """The depth of autograd's graph: the number of sequential operations."""
    depth: dict[object, int] = {}
    waiting = [(result.grad_fn, False)]
    while waiting:
        node, ready = waiting.pop()
        if node is None or node in depth:
            continue
        before = [earlier for earlier, _ in node.next_functions if earlier is not None]
        if ready:
            depth[node] = 1 + max((depth[earlier] for earlier in before), default=0)
        else:
            waiting += [(node, True), *((earlier, False) for earlier in before)]
    return depth[result.grad_fn] if result.grad_fn else 0


# --------------------------------------------------------------------------------------------------------- showing

COLOURS = {"LSTM": PALETTE[0], "RNN": PALETTE[1], "Transformer": PALETTE[2]}


def slope(numbers: Numbers, kind: str, name: str) -> float:
    """The exponent with which time grows with length: 0 is constant, 1 is linear."""
    return _slope(numbers["lengths"], numbers["seconds"][kind][name])


def _slope(lengths: list[int], values: list[float]) -> float:
    return statistics.linear_regression([math.log(x) for x in lengths], [math.log(y) for y in values]).slope


def _slope_shown(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # avoids -0.00


def _draw(axes: Axes, numbers: Numbers, lines: list[tuple[str, str, str, str]], title: str) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    lengths, labels, drawn = numbers["lengths"], [], []
    for kind, name, style, more in lines:
        taken = [1000 * value for value in numbers["seconds"][kind][name]]
        axes.plot(lengths, taken, style, color=COLOURS[name], marker="o", markersize=3.5)
        labels.append((taken[-1], f"{name}{more}, slope {_slope_shown(slope(numbers, kind, name))}", COLOURS[name]))
        drawn += taken
    axes.set(title=title, xlabel="tokens in a sentence", ylabel="milliseconds")
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, map(str, lengths))
    axes.xaxis.set_minor_locator(NullLocator())
    # At least a decade, lest a trifle look like a mountain; above it there is room for the names of the highest.
    decades = max(1.0, math.log10(max(drawn) / min(drawn)))
    middle = math.sqrt(min(drawn) * max(drawn))
    axes.set(yscale="log", ylim=(middle / 10 ** (0.55 * decades), middle * 10 ** (0.68 * decades)))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    label_ends(axes, labels)


def _digits(value: float) -> str:
    """Two or three digits, as precise as a timing is."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
