"""A tiny translator with several languages: random weights, and subword tokens of its own as language tags."""

from __future__ import annotations

from pathlib import Path

LINES = [
    "ich bin ein student .",
    "je suis étudiant .",
    "i am a student .",
    "من دانشجو هستم .",
    "wo ist der bahnhof ?",
    "où est la gare ?",
    "where is the station ?",
    "ایستگاه کجاست ؟",
]
LANGUAGES = ("de", "en", "fa", "fr")


def write_multilingual(folder: Path, seed: int = 3, target_tag: str = "source") -> Path:
    """A model folder. The tag of the target language stands before every source, as in OPUS-MT, or is the first token of
    every output (`target_tag="output"`), as in NLLB."""
    import torch

    from regard.assemble import build_model, resolve_model
    from regard.config import Decoding, Languages, Recipe
    from regard.data.tokenizer.subword import Subword
    from regard.loading import model_files
    from regard.storage import write_folder

    torch.manual_seed(seed)
    tree = resolve_model({"width": 16, "heads": 4, "feed_forward": 32, "layers": 2})
    tokenizer = Subword.train([*LINES, "0123456789"], seed=1, size=340, coverage=1.0)
    digits = [piece for piece in tokenizer.pieces(range(len(tokenizer))) if piece in "0123456789"]
    assert len(digits) >= len(LANGUAGES)
    model = build_model(tree, len(tokenizer))
    with torch.no_grad():  # fresh weights would answer every sentence alike
        for weight in model.parameters():
            weight.mul_(1.5)
    recipe = Recipe(
        model=tree,
        tokenizer={"kind": "subword"},
        languages=Languages(
            source=list(LANGUAGES),
            target=list(LANGUAGES),
            target_tag=target_tag,
            tags=dict(zip(LANGUAGES, digits)),
        ),
        decoding=Decoding(beam=4, max_length=12),
    )
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    write_folder(folder, model_files(recipe, tokenizer, weights, "float32"))
    return folder
