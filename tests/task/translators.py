"""Small untrained translators of every family of decoders, whose choices are clear."""

from __future__ import annotations

from pathlib import Path

import torch

from regard.assemble import build_model, resolve_model
from regard.config import Recipe
from regard.data.tokenizer.character import Character
from regard.loading import model_files
from regard.storage import write_folder
from regard.task.translate import Translator

FAMILIES = {
    "transformer": {"heads": 2},
    "bahdanau": {"encoder": "recurrent", "decoder": "attentional"},
    "luong": {
        "encoder": "recurrent",
        "decoder": {"kind": "attentional", "cell": "lstm", "order": "after", "attention": "multiplicative"},
    },
    "seq2seq": {"encoder": "recurrent", "decoder": "recurrent"},
    "ssru": {"heads": 2, "decoder": "ssru"},
    "universal": {"heads": 2, "encoder": "universal", "decoder": "universal"},
}
ATTENDING = {name: tree for name, tree in FAMILIES.items() if name != "seq2seq"}
TEXTS = ["abc def", "fed", "ab ihg cdefab", "a"]


def translator_of(tree: dict, seed: int = 4, alphabet: str = "abcdef ghi", layers: int = 1) -> Translator:
    tokenizer = Character.train([alphabet], seed=1)
    torch.manual_seed(seed)
    resolved = resolve_model({"width": 16, "layers": layers, **tree})
    model = build_model(resolved, len(tokenizer))
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return Translator(Recipe(model=resolved), tokenizer, model, torch.device("cpu"))


def saved(translator: Translator, folder: Path) -> Path:
    weights = {name: weight.detach() for name, weight in translator.model.named_parameters()}
    write_folder(folder, model_files(translator.recipe, translator.tokenizer, weights, "float32"))
    return folder
