"""The peer CTranslate2, in its fastest configuration. Imports nothing of ours and no torch, as its users need neither.

`python _ctranslate2.py FOLDER BATCHES THREADS` translates standard input, where FOLDER is what
`regard export --format ctranslate2` wrote; with `argos` at the end it calls CTranslate2 as Argos Translate does.
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


def script(folder: Path, threads: Threads, *how: str) -> list[str]:
    """The command that translates standard input. It starts this file itself, not the package."""
    from regard.child_process import bare_python  # here: the script imports nothing of ours

    return bare_python(__file__, str(folder), *map(str, threads), *how)


def translate(folder: str, batches: int, each: int) -> None:
    """Standard input, line by line, with a beam of 4; it sorts by length itself."""
    import ctranslate2
    import sentencepiece

    translator = ctranslate2.Translator(folder, inter_threads=batches, intra_threads=each)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(Path(folder, "tokenizer.model")))
    found = translator.translate_batch(pieces.encode(_lines(), out_type=str), beam_size=4, max_batch_size=32)
    _write(pieces.decode([result.hypotheses[0] for result in found]))


def translate_like_argos(folder: str, batches: int, each: int) -> None:
    """The calls of Argos Translate 1.11 for a text: one batch a line. Its sentence detection, which takes time too, is
    left out, since every line is a sentence."""
    import ctranslate2
    import sentencepiece

    translator = ctranslate2.Translator(folder, inter_threads=batches, intra_threads=each)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(Path(folder, "tokenizer.model")))
    texts = []
    for line in _lines():
        (found,) = translator.translate_batch(
            [pieces.encode(line, out_type=str)],
            replace_unknowns=True,
            max_batch_size=32,
            batch_type="tokens",
            beam_size=4,
            num_hypotheses=1,
            length_penalty=0.2,
            return_scores=True,
        )
        texts.append(pieces.decode(found.hypotheses[0]))
    _write(texts)


def _lines() -> list[str]:
    return sys.stdin.buffer.read().decode().removesuffix("\n").split("\n")


def _write(texts: list[str]) -> None:
    sys.stdout.buffer.write("".join(f"{text}\n" for text in texts).encode())


if __name__ == "__main__":
    work = translate_like_argos if sys.argv[4:] == ["argos"] else translate
    work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
