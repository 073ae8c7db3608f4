"""Decoding on the CPU: our translator, computed by CTranslate2, and CTranslate2 called directly, with the same weights.

32 tokens in, exactly 32 out, encoding included. Each side runs in its own process, in turns; CTranslate2 in several
thread configurations, of which the fastest is the peer. Neither has a vocabulary shortlist. Memory is what a process
had at most above an idle one that imported ctranslate2. The weights are random, and so is what they write: END is made
impossible, so that every output has full length, and a source repeats one token, so that outputs may repeat, too.
Besides our own base model: one of the same size with the parts of an imported OPUS-MT.
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
from regard.bench._marian import IMPORTED
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
        layers: dict[str, Any] = {"layers": 1} if setting.quick else {}
        yield from _rows(setting, preset, {"preset": preset, **layers}, vocabulary, ("float32", "int8"))
        yield from _rows(
            setting,
            f"{preset} as imported from Marian",
            {"preset": preset, **layers, **IMPORTED},
            vocabulary,
            ("int8",),
        )


def _rows(
    setting: Setting, shape: str, tree: dict[str, Any], vocabulary: int, precisions: tuple[str, ...]
) -> Iterator[Row]:
    sizes = (2,) if setting.quick else (1, 32)
    wanted = [
        (precision, sentences, width, name)
        for precision, sentences, width in product(precisions, sizes, (1, 4))
        if setting.wants(
            name := f"decode {shape}, {precision}, batch {sentences}, " + ("greedy" if width == 1 else f"beam {width}")
        )
    ]
    if not wanted:
        return
    idle = idle_mib("ctranslate2")
    with tempfile.TemporaryDirectory() as place:
        folder, pieces = random_model(Path(place), tree, vocabulary)
        for precision, sentences, width, name in wanted:
            exported = Path(place, precision)
            if not exported.exists():
                export(folder, exported, precision)
            setting.note(f"measuring {name} ...")
            ids = random_sources(vocabulary, sentences)
            words = [[pieces[i] for i in row] for row in ids]
            both: dict[str, Any] = {"precision": precision, "width": width, "length": LENGTH}
            us = MeasuredProcess(OURS, folder=str(folder), source=ids, **both)
            them = {
                peer.shown(way): MeasuredProcess(THEIRS, folder=str(exported), source=words, threads=way, **both)
                for way in peer.ways(sentences)
            }
            yield _row(name, sentences * LENGTH, us, them, idle, setting.quick)


def random_model(place: Path, tree: dict[str, Any], vocabulary: int) -> tuple[Path, list[str]]:
    """A new model folder with random weights, and its tokens. Its output layer is not tied to the embedding, else every
    output would repeat its first token."""
    tree = {**tree, "decoder": {**tree.get("decoder", {}), "tie": False}}
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
