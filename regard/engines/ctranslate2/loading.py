"""Model folder -> a translator computed by CTranslate2; the converted model is cached."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import Recipe
from regard.data import tokenizer as tokenizers
from regard.directions import tag_of
from regard.engines.ctranslate2.cache import Files, converted, in_memory
from regard.engines.ctranslate2.translator import CTranslate2Translator, cores
from regard.errors import UserError
from regard.safetensors_header import read_header
from regard.storage import WEIGHTS, Folder, read_folder

if TYPE_CHECKING:
    import ctranslate2

SHORTLIST = "shortlist.safetensors"
"""A file of the model folder (shortlist.py)."""
CONVERSION = 1
"""Incremented when the same model gives another conversion: older ones are then not used again."""


def load_translator(
    folder: Folder, recipe: Recipe, precision: str, with_torch: Callable[[], Any], threads: int = 0
) -> CTranslate2Translator:
    """`precision`: "int8" or "auto" computes in int8, "float32" or "" in float32. `threads`: 0 is one per core."""
    tokenizer = read_tokenizer(folder)
    compute = "int8" if precision in ("int8", "auto") else "float32"

    parallel = threads or cores()
    options: dict[str, Any] = {"compute_type": compute, "inter_threads": parallel, "intra_threads": 1}
    last = int(recipe.model["decoder"]["layers"]) - 1
    by_tag = _tags_of_shortlists(folder, recipe, tokenizer)

    def open_model(layer: int) -> ctranslate2.Translator:
        def convert(out: BufferedIOBase) -> Files:
            return convert_folder(folder.path, recipe, tokenizer, out, compute, layer=layer)

        parts = (folder.hash, compute, CONVERSION, *([] if layer == last else [layer]))
        place, files = converted(parts, convert)
        try:
            if place is not None:
                del files
                opened = _opened(str(place), **options)
                if layer != last:  # the first is opened before there is anything to serve
                    _return_free_memory()
                return opened
        except (RuntimeError, ValueError):  # another process has just removed it
            files = in_memory(convert)
        return _opened(str(folder.path), files=files, **options)

    translator = CTranslate2Translator(recipe, tokenizer, open_model, parallel, with_torch, by_tag)
    translator.folder = folder.path
    return translator


def _tags_of_shortlists(folder: Folder, recipe: Recipe, tokenizer: tokenizers.Tokenizer) -> frozenset[int] | None:
    """The source tokens that choose among shortlists; none if one is for all languages; None without a shortlist."""
    if SHORTLIST not in folder.names:
        return None
    named = read_header(folder.file(SHORTLIST)).tensors  # the lists themselves are read when the model is converted
    codes = [name.partition(".")[2] for name in named if "." in name]
    return frozenset(i for code in codes if (i := tokenizer.id_of(tag_of(recipe, code))) is not None)


def _return_free_memory() -> None:
    """The C library keeps what reading and converting a model has freed: up to 20 MB of a worker."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def _opened(path: str, **options: Any) -> ctranslate2.Translator:
    """CTranslate2 sets the number of OpenMP's threads for the thread that opens a model, to `intra_threads`. One of its
    own opens it: otherwise torch would compute with one thread from then on."""
    import ctranslate2

    with ThreadPoolExecutor(1) as own:
        return own.submit(ctranslate2.Translator, path, **options).result()


def convert_folder(
    path: Path,
    recipe: Recipe,
    tokenizer: tokenizers.Tokenizer,
    out: BufferedIOBase,
    precision: str,
    exactly: bool = False,
    layer: int | None = None,
) -> Files:
    """Converts a model folder, whose files are checked by hash first.

    The attention of a decoder `layer`, by default the last, is what the converted model returns.

    Unless `exactly` that precision is wanted, weights stored as int8 stay so: CTranslate2 widens them when it loads
    them, so that one conversion serves every precision.
    """
    from regard.engines.ctranslate2 import shortlist
    from regard.engines.ctranslate2.conversion import convert
    from regard.engines.ctranslate2.stored_weights import StoredWeights

    folder = read_folder(path)
    weights = StoredWeights(folder.file(WEIGHTS))
    stored = "int8" if weights.int8 and not exactly else precision
    target = tokenizer.target
    pieces = target.names(range(len(target)))
    separate = "source_vocabulary" in tokenizer.sizes()
    source_pieces = tokenizer.names(range(len(tokenizer))) if separate else None
    named = SHORTLIST in folder.names
    lists = shortlist.read(folder.file(SHORTLIST), recipe, len(pieces)) if named else None
    try:
        files = convert(recipe, weights, pieces, out, stored, layer, source_pieces)
        return files if lists is None else {**files, shortlist.VMAP: shortlist.vmap(lists, recipe, pieces)}
    except UserError as error:
        raise UserError(f"{path}: {error}") from error.__cause__


def read_tokenizer(folder: Folder) -> tokenizers.Tokenizer:
    files = {name: folder.read(name) for name in folder.names if name.startswith("tokenizer")}
    try:
        return tokenizers.from_files(files)
    except (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())[:120]
        raise UserError(f"{folder.path}: its tokenizer files cannot be read ({why})") from error
