"""Tiny translators that say words: random weights, drawn again until a sentence gets several words for an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from studio.browsing import SHAPES

from regard.assemble import build_model, resolve_model
from regard.config import Decoding, Recipe
from regard.data.tokenizer.word import Word
from regard.loading import model_files
from regard.storage import write_folder
from regard.task.translate import Translator

SENTENCE = "elle a lu ce livre, deux fois."
HOSTILE = "<img src=x onerror=alert(1)> </script> {{7*7}}"
PERSIAN = "این کتاب خوب است 😀"
LINES = [SENTENCE, "je ne suis pas étudiant.", "où est la gare ?", "oui, bien sûr !", HOSTILE, PERSIAN]


def write_speaker(folder: Path, shape: str) -> Path:
    """A model folder. Marks are tokens of their own, so that words have several."""
    tokenizer = Word.train(LINES, seed=1)
    tree = resolve_model(SHAPES[shape])
    recipe = Recipe(
        model=tree,
        tokenizer={"kind": "word"},
        source_language="fr",
        target_language="en",
        decoding=Decoding(beam=4, max_length=9),
    )
    for seed in range(100):
        model = drawn(tree, len(tokenizer), seed)
        said = Translator(recipe, tokenizer, model, torch.device("cpu")).translate(SENTENCE, n_best=2)
        words = [len(one.text.split()) for one in (said, *said.alternatives)]
        if min(words) > 2 and len(said.tokens) > words[0]:
            weights = {name: weight.detach() for name, weight in model.named_parameters()}
            write_folder(folder, model_files(recipe, tokenizer, weights, "float32"))
            return folder
    raise AssertionError(f"no {shape} says anything")


def drawn(tree: dict[str, Any], words: int, seed: int) -> Any:
    """Larger weights than usual: with fresh ones every answer would be the same."""
    torch.manual_seed(seed)
    model = build_model(tree, words)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)
        if tree["decoder"]["kind"] not in ("transformer", "universal"):
            model.decoder.embedding.table.weight.mul_(8)
    return model
