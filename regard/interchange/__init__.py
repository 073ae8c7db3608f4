"""Models of other programs: `read` has a file per format that is imported, `write` one per format that is exported
(`regard export --format NAME`), and `families` one per architecture of Hugging Face."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from regard.recipe import Recipe

OWN = "regard"
"""The format of our own model folders."""
FORMATS = "interchange/write"


def export(
    model: str | Path,
    output: str | Path,
    *,
    format: str = OWN,
    precision: str = "",
    source_language: str = "",
    target_language: str = "",
    shortlist: str | Path | Sequence[str | Path] = (),
) -> Path:
    """Writes a model into a new folder, smaller or for another program.

    Args:
        model: A shipped model, a model folder or a run.
        output: The folder to create.
        format: "regard", or a kind in the `interchange/write` folder, such as "ctranslate2" or "huggingface".
        precision: How weights are stored: "float32", "bfloat16" or "int8"; for ctranslate2 also "float16" or "int16".
            By default the format decides: int8, or float32 for huggingface.
        source_language: The source language, for a translator that states none.
        target_language: The target language, likewise.
        shortlist: Text files in the target language, plain or compressed, best those the model was trained on. A
            translator then writes only tokens that occur there, which is faster on a CPU. For a model with several
            target languages "de=FILE" names the language of a file. Without files the model keeps the shortlist that it
            has.

    Returns:
        The new folder.
    """
    from regard import registry
    from regard.errors import UserError, suggestion
    from regard.loading import export as for_regard

    formats = registry.kinds(FORMATS)
    if format != OWN and format not in formats:
        raise UserError(f"format: no '{format}'{suggestion(format, [OWN, *formats])}")
    if format == OWN and precision in ("float16", "int16"):
        raise UserError(
            f"precision {precision} needs the format ctranslate2; Regard's own folders keep weights in float32, "
            "bfloat16 or int8"
        )
    if format != OWN and (source_language or target_language):
        raise UserError(f"a folder for {format} does not state its languages; leave them out")
    if format != OWN and shortlist:
        raise UserError(f"a shortlist belongs into a folder of regard; export that first, and then for {format}")
    if Path(output).exists():
        raise UserError(f"{output} already exists; choose another folder")
    if format == OWN:
        others = _shortlist_file(model, [shortlist] if isinstance(shortlist, (str, Path)) else shortlist)
        return for_regard(model, output, precision or "int8", source_language, target_language, others)
    keywords = {"precision": precision} if precision else {}
    return cast(Path, registry.factory(FORMATS, format, "format")(model, output, **keywords))


def _shortlist_file(model: str | Path, texts: Sequence[str | Path]) -> dict[str, bytes]:
    """The file of a shortlist made from texts or, without any, of the model's own."""
    from itertools import chain

    from regard.data.corpus.reading import read_lines
    from regard.engines.ctranslate2 import shortlist
    from regard.engines.ctranslate2.limits import why_not
    from regard.engines.ctranslate2.loading import read_tokenizer
    from regard.errors import UserError
    from regard.find_model import find_model, read_recipe_of
    from regard.storage import read_folder

    folder = read_folder(find_model(model), hash_tensors=False)
    if not texts:
        return {shortlist.FILE: folder.file(shortlist.FILE).read_bytes()} if shortlist.FILE in folder.names else {}
    recipe = read_recipe_of(folder)
    of = _by_language(texts, recipe)
    if why := why_not(recipe) or shortlist.why_not_of(recipe, list(of)):
        raise UserError(f"{model}: it can have no such shortlist: {why}")
    tokenizer = read_tokenizer(folder).target
    lists = {code: shortlist.from_text(tokenizer, chain.from_iterable(map(read_lines, of[code]))) for code in of}
    shortlist.vmap(lists, recipe, tokenizer.names(range(len(tokenizer))))  # refuses what CTranslate2 could not read
    return {shortlist.FILE: shortlist.to_file(lists)}


def _by_language(texts: Sequence[str | Path], recipe: Recipe) -> dict[str, list[str]]:
    """The files by target language: de=FILE is German, and a file without a language is for all."""
    from regard.languages import internal

    targets = set(map(internal, recipe.languages.target))
    found: dict[str, list[str]] = {}
    for text in map(str, texts):
        before, equals, after = text.partition("=")
        code = internal(before) if equals and internal(before) in targets else ""
        found.setdefault(code, []).append(after if code else text)
    return found
