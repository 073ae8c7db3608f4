"""Small translators with random weights and several languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from regard.assemble import build_model, resolve_model
from regard.config import recipe_from_dict
from regard.data.tokenizer.sentencepiece import SentencePiece
from regard.loading import model_files
from regard.storage import write_folder
from regard.types import END
from tests.data.imported_text import model as sentencepiece_model
from tests.data.imported_text import pieces_of

CODES = ("de", "fr", "fa")
TAGS = {code: f"<2{code}>" for code in CODES}
TREE: dict[str, Any] = {"width": 32, "layers": 2, "heads": 2, "feed_forward": 32, "dropout": 0.0}


def make(folder: Path, *, seed: int = 1, separate: bool = False, **recipe: Any) -> Path:
    """A model folder. `recipe` has the section languages, or other keys of a recipe."""
    source, target = sentencepiece_model(size=200), sentencepiece_model(size=180, seed=2)
    tokens = [*dict.fromkeys([*pieces_of(source), *pieces_of(target)]), *TAGS.values()]
    kinds = {"target_tokens": [*TAGS.values(), *pieces_of(target)]} if separate else {}
    tokenizer = SentencePiece(source, tokens, target_model=target, hidden=list(TAGS.values()), **kinds)
    sizes = tokenizer.sizes()
    tree = resolve_model({**TREE, "decoder": {"tie": False}, **({"share": False} if separate else {})})
    given = {
        "task": "translate",
        "model": tree,
        "tokenizer": {"kind": "sentencepiece"},
        "data": {"plain_source": False, "max_length": 40},
        "decoding": {"max_length": 12, "beam": 2},
    }
    made = recipe_from_dict(given | recipe)
    torch.manual_seed(seed)
    network = build_model(tree, **sizes)
    with torch.no_grad():  # livelier than fresh weights: outputs depend on every token
        for weights in network.parameters():
            if weights.dim() > 1:
                weights.mul_(2.5)
        network.decoder.output.weight[END] = 0  # else many an output would be empty
    write_folder(folder, model_files(made, tokenizer, dict(network.named_parameters()), "float32"))
    return folder


def many_to_many(**more: Any) -> dict[str, Any]:
    """The section of a model that is told both languages by tags, as M2M100 is."""
    return {
        "source": list(CODES),
        "target": list(CODES),
        "source_tag": "before",
        "target_tag": "output",
        "tags": TAGS,
        **more,
    }
