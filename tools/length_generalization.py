"""Length generalization of the Transformer and the Universal Transformer: copy, reverse and add longer strings.

Both train on strings of 4 to 10 digits, with randomly shifted positions. Prints the share of strings that each model
gets right as a whole, by length, and the Universal Transformer's mean ponder time for a digit.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import regard
from regard.config import Recipe, apply_overrides
from regard.data.format.made_algorithm import algorithm_pairs
from regard.task.translate import Translator

SHARED = ["width=64", "heads=4", "feed_forward=128", "dropout=0.0", "position={kind = 'shifted', most = 10}"]
MODELS = {
    "transformer": [*SHARED, "layers=2"],
    "universal": [*SHARED, "layers=4", "encoder=universal", "decoder=universal", "stem={position = 'none'}"],
}
LENGTHS = (5, 10, 12, 15, 20)


def trained(task: str, kind: str, steps: int, folder: Path) -> Translator:
    count = max(500, 20 * steps)  # a string is seen once or twice
    settings = [
        f"data.format={{kind = 'made_algorithm', task = '{task}', count = {count}, shortest = 4, longest = 10}}",
        "data.drop_identical=false",
        "data.valid_limit=100",
        "tokenizer={kind = 'word', size = 100}",
        *(f"model.{setting}" for setting in MODELS[kind]),
        f"training.steps={steps}",
        f"training.warmup={max(1, steps // 10)}",
        "training.schedule=cosine",
        "training.learning_rate=2e-3",
        "training.batch_tokens=700",
        "training.label_smoothing=0.0",
        "training.average=1",
        f"training.validate_every={steps}",
        f"training.save_every={steps}",
    ]
    return regard.train(apply_overrides(Recipe(), settings), folder=folder / f"{task}-{kind}", quiet=True).model


def right(model: Translator, task: str, length: int, count: int) -> float:
    """The share of strings of this length that come out right."""
    pairs = list(algorithm_pairs(task, count, np.random.default_rng([7, length]), length, length))
    found = model.search([model.encode(source) for source, _ in pairs], beam=1, max_length=2 * length + 6)
    written = [model.tokenizer.decode(hypotheses[0].ids).strip() for hypotheses in found]
    return sum(text == target for text, (_, target) in zip(written, pairs)) / count


@torch.inference_mode()
def thought(model: Translator, task: str, length: int) -> float:
    """The mean ponder time of a digit that is read."""
    pairs = list(algorithm_pairs(task, 50, np.random.default_rng([7, length]), length, length))
    with regard.capture(model.model.encoder) as seen:
        model.search([model.encode(source) for source, _ in pairs], beam=1, max_length=2)
    return torch.cat([call.flatten() for call in seen["halting.ponder"]]).mean().item()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=["copy", "reverse", "addition"])
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--count", type=int, default=200, help="strings of each length")
    options = parser.parse_args(arguments)
    print("right at  model        " + "".join(f"{length:>8}" for length in LENGTHS) + "   thought at 10")
    with tempfile.TemporaryDirectory() as folder:
        for task in options.tasks:
            for kind in MODELS:
                model = trained(task, kind, options.steps, Path(folder))
                shares = "".join(f"{right(model, task, length, options.count):8.2f}" for length in LENGTHS)
                pondered = f"{thought(model, task, 10):10.1f}" if kind == "universal" else ""
                print(f"{task:9} {kind:12} {shares}{pondered}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
