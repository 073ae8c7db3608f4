"""Makes regard/language_ngrams.bin: which language short texts are in, by letter n-grams.

    python tools/language_ngrams.py --source "Tatoeba (CC BY 2.0 FR)" en=en-fr.tsv.gz#1 fr=en-fr.tsv.gz#2

Learns from pieces of the lines: single words, few words, whole lines. Lines of the files of --without are left out.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard.data.corpus.reading import read_lines
from regard.language_ngrams import FILE, features

ROWS = 65536
LINES, PIECES, EPOCHS, BATCH = 60_000, 240_000, 5, 512
"""Lines and pieces of each language, passes over the pieces, pieces of a batch."""
LENGTHS, SHARES = (1, 2, 3, 4, 6, 9, 60), (0.3, 0.2, 0.12, 0.1, 0.1, 0.08, 0.1)
"""Words of a piece, and the share of the pieces that have so many."""
_LETTER = re.compile(r"[^\W\d_]")


def lines_of(files: Sequence[str], without: set[str], random: np.random.Generator) -> list[str]:
    """Lines drawn from all files, each of them with the same share."""
    found: list[str] = []
    for file in files:
        own = sorted({line.strip() for line in read_lines(file)} - without)
        take = min(len(own), LINES // len(files))
        found += [own[index] for index in random.choice(len(own), take, replace=False)]
    return found


def pieces_of(lines: Sequence[str], random: np.random.Generator) -> list[str]:
    """Pieces of lines; half of the single words are drawn from the distinct ones, so that rare words count, too."""
    vocabulary = sorted({word.strip(".,;:!?\"'«»“”„()") for line in lines for word in line.split()})
    vocabulary = [word for word in vocabulary if _LETTER.search(word)]
    found: list[str] = []
    while len(found) < PIECES:
        length = LENGTHS[random.choice(len(LENGTHS), p=SHARES)]
        if length == 1 and random.random() < 0.5:
            found.append(vocabulary[random.integers(len(vocabulary))])
            continue
        words = lines[random.integers(len(lines))].split()
        start = random.integers(max(1, len(words) - length + 1))
        piece = " ".join(words[start : start + length])
        if _LETTER.search(piece):
            found.append(piece)
    return found


def learn(pieces: Sequence[Sequence[str]], random: np.random.Generator) -> tuple[np.ndarray, float]:
    """The weights as signed bytes, and what 1 stands for."""
    texts = [(piece, label) for label, own in enumerate(pieces) for piece in own]
    rows = [np.fromiter(features(text, ROWS), np.int64) for text, _ in texts]
    labels = torch.tensor([label for _, label in texts])
    bag = nn.EmbeddingBag(ROWS, len(pieces), mode="sum")
    nn.init.zeros_(bag.weight)
    optimizer = torch.optim.Adagrad(bag.parameters(), lr=0.3)
    for epoch in range(EPOCHS):
        order, total = random.permutation(len(texts)), 0.0
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            flat = torch.from_numpy(np.concatenate([rows[index] for index in chosen]))
            sizes = torch.tensor([len(rows[index]) for index in chosen])
            scores = bag(flat, sizes.cumsum(0) - sizes) / sizes.sqrt()[:, None]
            loss = nn.functional.cross_entropy(scores, labels[chosen]) + 2e-7 * bag.weight.square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(chosen)
        print(f"epoch {epoch + 1}: loss {total / len(texts):.4f}", flush=True)
    weights = bag.weight.detach().numpy()
    weights = weights - weights.mean(1, keepdims=True)
    scale = float(np.quantile(np.abs(weights), 0.9999)) / 127
    return np.clip(np.round(weights / scale), -127, 127).astype(np.int8), scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="LANGUAGE=FILE[#COLUMN]")
    parser.add_argument("--without", nargs="*", default=[], metavar="FILE[#COLUMN]", help="lines to leave out")
    parser.add_argument("--source", required=True, help="what the texts are, and their licence; goes into the header")
    parser.add_argument("-o", "--output", type=Path, default=FILE)
    options = parser.parse_args()
    random = np.random.default_rng(1)
    torch.manual_seed(1)
    without = {line.strip() for file in options.without for line in read_lines(file)}
    by_language: dict[str, list[str]] = {}
    for given in options.files:
        language, _, file = given.partition("=")
        by_language.setdefault(language, []).append(file)
    pieces = [pieces_of(lines_of(files, without, random), random) for files in by_language.values()]
    weights, scale = learn(pieces, random)
    header = {"languages": list(by_language), "rows": ROWS, "scale": scale, "source": options.source}
    options.output.write_bytes(json.dumps(header).encode() + b"\n" + weights.tobytes())


if __name__ == "__main__":
    main()
