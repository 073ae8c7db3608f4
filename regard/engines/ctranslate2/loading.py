"""Model folder -> a translator computed by CTranslate2; the converted model is cached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from regard.config import Recipe
from regard.data import tokenizer as tokenizers
from regard.engines.ctranslate2.cache import MODEL, Files, converted
from regard.engines.ctranslate2.translator import CTranslate2Translator, cores
from regard.errors import UserError
from regard.storage import WEIGHTS, Folder, read_folder

CONVERSION = 1
"""Incremented when the same model gives another conversion: older ones are then not used again."""


def load_translator(
    folder: Folder, recipe: Recipe, precision: str, with_torch: Callable[[], Any]
) -> CTranslate2Translator:
    """`precision`: "int8" or "auto" computes in int8, "float32" or "" in float32."""
    import ctranslate2

    tokenizer = read_tokenizer(folder)
    compute = "int8" if precision in ("int8", "auto") else "float32"

    def convert(out: BinaryIO) -> Files:
        return convert_folder(folder.path, recipe, tokenizer, out, compute)

    place, files = converted((folder.hash, compute, CONVERSION), convert)
    parallel = cores()
    last = int(recipe.model["decoder"]["layers"]) - 1

    def open_model(layer: int) -> ctranslate2.Translator:
        options: dict[str, Any] = {"compute_type": compute, "inter_threads": parallel, "intra_threads": 1}
        if place is not None and layer == last:
            return ctranslate2.Translator(str(place), **options)
        in_memory = dict(files)
        if place is not None:
            in_memory[MODEL] = (place / MODEL).read_bytes()
        if layer != last:
            from regard.engines.ctranslate2.conversion import with_alignment_layer

            in_memory[MODEL] = with_alignment_layer(in_memory[MODEL], layer)
        return ctranslate2.Translator(str(folder.path), files=in_memory, **options)

    return CTranslate2Translator(recipe, tokenizer, open_model, parallel, with_torch, "vmap.txt" in files)


def convert_folder(
    path: Path, recipe: Recipe, tokenizer: tokenizers.Tokenizer, out: BinaryIO, precision: str, exactly: bool = False
) -> Files:
    """Converts a model folder, whose files are checked by hash first.

    Unless `exactly` that precision is wanted, weights stored as int8 stay so: CTranslate2 widens them when it loads
    them, so that one conversion serves every precision.
    """
    from regard.engines.ctranslate2.conversion import convert
    from regard.engines.ctranslate2.stored_weights import StoredWeights

    folder = read_folder(path)
    weights = StoredWeights(folder.file(WEIGHTS))
    stored = "int8" if weights.int8 and not exactly else precision
    try:
        return convert(recipe, weights, tokenizer.pieces(range(len(tokenizer))), out, stored)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error.__cause__


def read_tokenizer(folder: Folder) -> tokenizers.Tokenizer:
    files = {name: folder.read(name) for name in folder.names if name.startswith("tokenizer")}
    try:
        return tokenizers.from_files(files)
    except (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())[:120]
        raise UserError(f"{folder.path}: its tokenizer files cannot be read ({why})") from error
