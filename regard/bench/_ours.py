"""Our side of the benchmarks on a CPU, in a process of its own. Imports no torch, as its users need none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from regard.bench._process import Work


def decoding(folder: str, precision: str, source: list[list[int]], width: int, length: int) -> Work:
    """Searches for outputs of exactly `length` tokens with a model that is loaded as a user would."""
    os.environ["REGARD_CACHE"] = str(Path(folder).parent / "cache")  # not the user's
    import regard

    translator: Any = regard.load(folder, device="cpu", task="translate", precision=precision, engine="ctranslate2")

    def work() -> list[list[int]]:
        found = [best.ids for best, *_ in translator.search(source, beam=width, max_length=length)]
        if any(len(ids) != length for ids in found):
            raise AssertionError(f"not every output has {length} tokens")
        return found

    return work


def translating(model: str, lines: list[str]) -> Work:
    """Translates lines, all at once."""
    import regard

    translator = regard.load(model, device="cpu", task="translate", precision="auto")
    return lambda: translator.translate(lines, beam=4)
