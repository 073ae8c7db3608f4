"""Decoding on the CPU: our translator, computed by CTranslate2, and CTranslate2 called directly, with the same weights.

32 tokens in, exactly 32 out, encoding included. Each side runs in its own process, in turns; CTranslate2 in several
thread configurations, of which the fastest is the peer. Neither has a vocabulary shortlist. Memory is what a process
had at most above an idle one that imported ctranslate2. The weights are random, and so is what they write: END is made
impossible, so that every output has full length, and a source repeats one token, so that outputs may repeat, too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import torch

from regard.assemble import build_model, resolve_model
from regard.bench import _ctranslate2 as peer
from regard.bench._benchmark import Benchmark, Row, Setting
from regard.bench._process import PAUSE, MeasuredProcess, idle_mib, take_turns
from regard.config import recipe_from_dict
from regard.data.tokenizer._base import SPECIALS
from regard.data.tokenizer.word import Word
from regard.interchange.write.ctranslate2 import export
from regard.loading import model_files
from regard.storage import write_folder

__all__ = ["CpuDecode"]

LENGTH = 32
OURS = "from regard.bench._process import serve; from regard.bench._ours import decoding; serve(decoding)"
THEIRS = "from regard.bench._process import serve; from regard.bench._ctranslate2 import decoding; serve(decoding)"
GOAL = 0.97


class CpuDecode(Benchmark):
    """Output tokens per second."""

    title = "decoding on the CPU"
    peer = "CTranslate2"
    needs = ("ctranslate2",)

    def rows(self, setting: Setting) -> Iterator[Row]:
        preset, vocabulary = ("tiny", 500) if setting.quick else ("base", 16_000)
        idle = idle_mib("ctranslate2")
        with tempfile.TemporaryDirectory() as place:
            folder, pieces = random_model(Path(place), preset, vocabulary, 1 if setting.quick else None)
            for precision in ("float32", "int8"):
                exported = export(folder, Path(place, precision), precision)
                for sentences, width in product((2,) if setting.quick else (1, 32), (1, 4)):
                    search = "greedy" if width == 1 else f"beam {width}"
                    name = f"decode {preset}, {precision}, batch {sentences}, {search}"
                    if not setting.wants(name):
                        continue
                    setting.note(f"measuring {name} ...")
                    ids = random_sources(vocabulary, sentences)
                    words = [[pieces[i] for i in row] for row in ids]
                    both: dict[str, Any] = {"precision": precision, "width": width, "length": LENGTH}
                    us = MeasuredProcess(OURS, folder=str(folder), source=ids, **both)
                    them = {
                        peer.shown(way): MeasuredProcess(
                            THEIRS, folder=str(exported), source=words, threads=way, **both
                        )
                        for way in peer.ways(sentences)
                    }
                    yield _row(name, sentences * LENGTH, us, them, idle, setting.quick)


def random_model(place: Path, preset: str, vocabulary: int, layers: int | None = None) -> tuple[Path, list[str]]:
    """A new model folder with random weights, and its tokens. Its output layer is not tied to the embedding, else every
    output would repeat its first token."""
    tree: dict[str, Any] = {"preset": preset, "decoder": {"tie": False}, **({"layers": layers} if layers else {})}
    model = build_model(tree, vocabulary)
    decoder: Any = model.decoder
    with torch.no_grad():  # the first of the last values is always 1, and subtracts 100 from every special token
        norm, output = decoder.layers[-1].around_feed_forward.norm, decoder.output.weight
        norm.weight[0], norm.bias[0] = 0, 1
        output[:, 0], output[: len(SPECIALS)] = 0, 0
        output[: len(SPECIALS), 0] = -100
    tokenizer = Word([f"▁t{i}" for i in range(len(SPECIALS), vocabulary)])
    recipe = recipe_from_dict({"task": "translate", "model": resolve_model(tree)})
    folder = place / "model"
    write_folder(folder, model_files(recipe, tokenizer, dict(model.named_parameters()), "float32"))
    return folder, tokenizer.pieces(range(vocabulary))


def random_sources(vocabulary: int, sentences: int) -> list[list[int]]:
    """One token over and over: an output may repeat itself as often as its source, and those of random weights do."""
    return [[i] * LENGTH for i in torch.randint(len(SPECIALS), vocabulary, (sentences,)).tolist()]


def _row(
    name: str, tokens: int, us: MeasuredProcess, them: dict[str, MeasuredProcess], idle: float | None, quick: bool
) -> Row:
    with ExitStack() as stack:
        all_processes = [stack.enter_context(process) for process in (us, *them.values())]
        take_turns(all_processes, 2 if quick else 5, 0.0 if quick else PAUSE)
        best = min(them, key=lambda way: them[way].median())
        a, b = (tokens / side.median() for side in (us, them[best]))
        held = [_above(side.memory(), idle) for side in (us, them[best])]
    return Row(name, a, b, a / b, held[0], held[1], {"its threads": best}, f">= {GOAL}", a / b >= GOAL)


def _above(peak: float | None, idle: float | None) -> float | None:
    return None if peak is None or idle is None else peak - idle
