"""Decoding on the CPU, ours and CTranslate2 with the same weights: 32 tokens in, exactly 32 out, encoding included.

Each side runs in its own process, in turns; CTranslate2 in several thread configurations, of which the fastest is the
peer. Neither has a vocabulary shortlist. Memory is what a process had at most above an idle one
that imported torch (ours) or ctranslate2 (theirs). Outputs of equal length rank alike under any length penalty.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.assemble import build_model
from regard.bench import _ctranslate2 as peer
from regard.bench._benchmark import Benchmark, Row, Setting, Work
from regard.bench._process import PAUSE, MeasuredProcess, idle_mib, take_turns
from regard.bench.decode import LENGTH, our_output
from regard.data.tokenizer._base import SPECIALS
from regard.interchange.ctranslate2 import write
from regard.layers.fast_linear import int8_is_fast, ready_for_use
from regard.loading import assign_weights
from regard.storage import write_file
from regard.types import END
from regard.weights import load_weights, save_weights

__all__ = ["CpuDecode"]

OURS = "from regard.bench._process import serve; from regard.bench.cpu_decode import ours; serve(ours)"
THEIRS = "from regard.bench._process import serve; from regard.bench._ctranslate2 import decoding; serve(decoding)"
WEIGHTS = "weights.safetensors"
READY: dict[str, Callable[[nn.Module], Any] | None] = {
    "float32": lambda model: ready_for_use(model, "float32", torch.device("cpu")),
    "int8": (lambda model: ready_for_use(model, "int8", torch.device("cpu"))) if int8_is_fast() else None,
}
"""By precision: a model with float32 weights -> what `our_output` decodes with."""


class CpuDecode(Benchmark):
    """Output tokens per second."""

    title = "decoding on the CPU"
    peer = "CTranslate2"
    needs = ("ctranslate2",)

    def rows(self, setting: Setting) -> Iterator[Row]:
        preset, vocabulary = ("tiny", 500) if setting.quick else ("base", 16_000)
        tree: dict[str, Any] = {"preset": preset, **({"layers": 1} if setting.quick else {})}
        model = build_model(tree, vocabulary).eval()
        pieces = SPECIALS + [f"t{i}" for i in range(len(SPECIALS), vocabulary)]
        idle = idle_mib("torch"), idle_mib("ctranslate2")
        with tempfile.TemporaryDirectory() as place:
            write_file(Path(place, WEIGHTS), save_weights(dict(model.named_parameters())))
            for precision, make in READY.items():
                if make is None:
                    setting.note(f"this CPU has no fast way in {precision}: its rows are left out")
                    continue
                exported = Path(place, precision)
                write(model, pieces, exported, precision)
                for sentences, width in product((2,) if setting.quick else (1, 32), (1, 4)):
                    search = "greedy" if width == 1 else f"beam {width}"
                    name = f"decode {preset}, {precision}, batch {sentences}, {search}"
                    if not setting.wants(name):
                        continue
                    setting.note(f"measuring {name} ...")
                    ids = torch.randint(len(SPECIALS), vocabulary, (sentences, LENGTH - 1)).tolist()
                    words = [[pieces[i] for i in row] for row in ids]
                    both: dict[str, Any] = {"precision": precision, "width": width, "length": LENGTH}
                    us = MeasuredProcess(OURS, folder=place, tree=tree, vocabulary=vocabulary, source=ids, **both)
                    them = {
                        peer.shown(way): MeasuredProcess(
                            THEIRS, folder=str(exported), source=words, threads=way, **both
                        )
                        for way in peer.ways(sentences)
                    }
                    yield _row(name, sentences * LENGTH, us, them, idle, setting.quick)


def _row(
    name: str,
    tokens: int,
    us: MeasuredProcess,
    them: dict[str, MeasuredProcess],
    idle: tuple[float | None, float | None],
    quick: bool,
) -> Row:
    with ExitStack() as stack:
        all_processes = [stack.enter_context(process) for process in (us, *them.values())]
        take_turns(all_processes, 2 if quick else 5, 0.0 if quick else PAUSE)
        best = min(them, key=lambda way: them[way].median())
        a, b = (tokens / side.median() for side in (us, them[best]))
        held = [_above(side.memory(), before) for side, before in zip((us, them[best]), idle)]
    return Row(name, a, b, a / b, held[0], held[1], {"its threads": best})


def ours(
    folder: str, tree: dict[str, Any], vocabulary: int, precision: str, source: list[list[int]], width: int, length: int
) -> Work:
    """Our side: loads the weights, prepares the model for a precision, decodes."""
    with torch.device("meta"):
        model = build_model(tree, vocabulary)
    assign_weights(model, load_weights(Path(folder, WEIGHTS)), folder)
    make = READY[precision]
    assert make is not None
    ready = make(model.eval())
    ids = torch.tensor([[*row, END] for row in source])
    return lambda: our_output(ready, ids, width, length)


def _above(peak: float | None, idle: float | None) -> float | None:
    return None if peak is None or idle is None else peak - idle
