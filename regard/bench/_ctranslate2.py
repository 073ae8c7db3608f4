"""The peer CTranslate2, in its fastest configuration. Imports no torch, as its users need none.

`python -m regard.bench._ctranslate2 FOLDER PROCESSES THREADS` translates standard input, where FOLDER is what
`regard export --format ctranslate2` wrote.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

Threads = tuple[int, int]
"""Parallel batches, and threads per batch (inter_threads and intra_threads)."""


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ways(sentences: int) -> list[Threads]:
    """The thread configurations worth trying for this many sentences; the fastest is the peer."""
    found = [(1, 1), (1, cores())]
    if sentences >= cores():
        found.append((cores(), 1))
    return list(dict.fromkeys(found))


def shown(threads: Threads) -> str:
    return f"{threads[0]} x {threads[1]}"


def decoding(
    folder: str, precision: str, source: list[list[str]], width: int, length: int, threads: list[int]
) -> Callable[[], list[list[str]]]:
    """Translates `source` into exactly `length` tokens per sentence, ignoring END."""
    import ctranslate2

    batches, each = threads
    translator = ctranslate2.Translator(folder, compute_type=precision, inter_threads=batches, intra_threads=each)

    def work() -> list[list[str]]:
        found = translator.translate_batch(
            source,
            beam_size=width,
            max_batch_size=-(-len(source) // batches),  # each batch at a time gets its share
            min_decoding_length=length,
            max_decoding_length=length,
        )
        return [result.hypotheses[0] for result in found]

    return work


def translate(folder: str, batches: int, each: int) -> None:
    """Standard input, line by line, with a beam of 4; it sorts by length itself."""
    import ctranslate2
    import sentencepiece

    translator = ctranslate2.Translator(folder, inter_threads=batches, intra_threads=each)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(Path(folder, "tokenizer.model")))
    lines = sys.stdin.buffer.read().decode().removesuffix("\n").split("\n")
    found = translator.translate_batch(pieces.encode(lines, out_type=str), beam_size=4, max_batch_size=32)
    texts = pieces.decode([result.hypotheses[0] for result in found])
    sys.stdout.buffer.write("".join(f"{text}\n" for text in texts).encode())


if __name__ == "__main__":
    translate(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
