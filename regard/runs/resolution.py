"""Resolves a recipe before a run starts: finds its files, fills in defaults, and refuses what cannot work.

Nothing is written here. `training.from` brings along the parts of the model that training starts from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import registry
from regard.assemble import EXAMPLE_SIZES, VECTORS, build_model, resolve_model
from regard.config import Data, Recipe, data_root
from regard.data import tokenizer as tokenizers
from regard.data.corpus.pair_languages import with_languages
from regard.data.corpus.reading import check_file, split_column
from regard.data.corpus.shards import is_url, listed
from regard.data.datasets import data_sets
from regard.errors import UserError
from regard.find_model import find_model, read_recipe_of
from regard.loading import Uninitialised, task_of
from regard.runs.checks import check_data, check_model, check_tokenizer
from regard.runs.data_paths import data_paths, with_paths
from regard.storage import read_folder
from regard.task._writing import longest_text
from regard.training.defaults import with_defaults
from regard.word_vectors import WORDS_OF, check_vectors, vectors_of

READING_PARTS = ("stem", "encoder")
"""The parts that a model for another task can start from."""
Files = Sequence[str | Path] | str | Path


def resolve(
    recipe: Recipe,
    source: Files | None = None,
    target: Files | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Recipe:
    """The recipe with all values resolved: absolute paths, defaults, the model of `training.from`, languages."""
    task = task_of(recipe)
    data = replace(recipe.data)
    for name, files in (("source", source), ("target", target)):
        if files is not None:
            setattr(data, name, [path if is_url(path) else str(Path(path).absolute()) for path in file_names(files)])
    check_data(replace(recipe, data=data), task)
    check_tokenizer(recipe)
    check_model(replace(recipe, model={**task.usual, **recipe.model}), str(task.usual.get("kind", "seq2seq")))
    _refuse_missing_sets(recipe.data)
    recipe = with_absolute_paths(replace(recipe, data=data, model={**task.usual, **recipe.model}))
    shards = replace(recipe.data, source=listed(recipe.data.source), target=listed(recipe.data.target))
    recipe = replace(recipe, data=shards)
    _refuse_missing_files(recipe.data)
    stated, fine_tuning = recipe, False
    if recipe.training.start_from:
        recipe, fine_tuning = _starting_from(recipe)
    else:
        recipe = replace(recipe, tokenizer=tokenizers.resolved(recipe.tokenizer), model=resolve_model(recipe.model))
    with torch.device("meta"), Uninitialised():  # refuses parts that do not fit together
        model = build_model(recipe.model, **EXAMPLE_SIZES)
    check_positions(model, recipe)
    recipe = _with_vector_paths(recipe)
    check_vectors(model, vectors_of(recipe.model))
    recipe = replace(recipe, training=with_defaults(recipe.training, fine_tuning))
    recipe = task.resolve(recipe)
    return with_languages(recipe, stated, note) if recipe.task == "translate" else recipe


def with_absolute_paths(recipe: Recipe) -> Recipe:
    """The recipe with absolute paths to its data."""
    root = recipe.data.root
    return replace(recipe, data=with_paths(recipe.data, lambda path: _absolute(path, root)))


def check_positions(model: nn.Module, recipe: Recipe) -> None:
    """Refuses learned positions that do not reach the longest training text."""
    positions = longest_text(model)
    if positions is not None and positions < recipe.data.max_length + 2:
        longer = f"set its length to {recipe.data.max_length + 2} or more, or max_length lower"
        if recipe.training.start_from:  # whose positions stay
            longer = f"set data.max_length={max(1, positions - 2)}"
        raise UserError(
            f"model.position: {positions} positions are too few for data.max_length={recipe.data.max_length}; {longer}"
        )


def _with_vector_paths(recipe: Recipe) -> Recipe:
    """Files of word vectors are found as data files are."""
    found = {part: _absolute(file, recipe.data.root) for part, file in vectors_of(recipe.model).items()}
    if words := recipe.tokenizer.get(WORDS_OF):
        recipe = replace(recipe, tokenizer=recipe.tokenizer | {WORDS_OF: _absolute(words, recipe.data.root)})
        check_file(Path(recipe.tokenizer[WORDS_OF]))
    return replace(recipe, model={**recipe.model, **{p: recipe.model[p] | {VECTORS: f} for p, f in found.items()}})


def _starting_from(recipe: Recipe) -> tuple[Recipe, bool]:
    """The recipe with the model of `training.from`: all of it for the same task, else only stem and encoder.

    The second value is True for fine-tuning, where the whole model is kept.
    """
    for stated in (recipe.model, *recipe.model.values()):
        if isinstance(stated, dict) and VECTORS in stated:
            raise UserError(f"model.{VECTORS}: training.from brings its own embeddings; leave out one of the two")
    origin = find_model(recipe.training.start_from)
    old = read_recipe_of(read_folder(origin))
    model = resolve_model(old.model)
    if old.task != recipe.task:
        _refuse_other_input(recipe, old.task, model)
        kept = {part: _kept_part(part, model[part], recipe.model, origin) for part in READING_PARTS if part in model}
        model = resolve_model({**recipe.model, **kept})
    combined = replace(
        recipe,
        tokenizer=old.tokenizer,
        input=old.input,
        model=model,
        source_language=recipe.source_language or old.source_language,
        target_language=recipe.target_language or old.target_language,
        languages=old.languages if old.task == recipe.task else recipe.languages,
        decoding=replace(
            recipe.decoding,
            suppress=recipe.decoding.suppress or old.decoding.suppress,
            suppress_first=recipe.decoding.suppress_first or old.decoding.suppress_first,
        ),
        data=replace(recipe.data, plain_source=recipe.data.plain_source and old.data.plain_source),
        training=replace(recipe.training, start_from=str(origin)),
    )
    return combined, old.task == recipe.task


def _refuse_other_input(recipe: Recipe, task: str, model: Mapping[str, Any]) -> None:
    """Refuses a model for another task without stem and encoder, or whose stem reads another kind of input."""
    start = recipe.training.start_from
    if not any(part in model for part in READING_PARTS):
        raise UserError(
            f"training.from: {start} is made to {task} and has no encoder that a model to {recipe.task} could go on "
            "with; start from another model"
        )
    stated = recipe.model.get("stem", {})
    kind = stated if isinstance(stated, str) else stated.get("kind", "tokens" if recipe.task == "translate" else "")
    if not kind or "stem" not in model:
        return
    own, other = (registry.factory("stem", name, "model.stem.kind").reads for name in (kind, model["stem"]["kind"]))  # type: ignore[attr-defined]
    if own != other:
        raise UserError(
            f"training.from: {start} is made to {task} and reads {other}, but a model to {recipe.task} reads {own} "
            f"here; start from a model that reads {own}"
        )


def _kept_part(part: str, old: dict[str, Any], stated: Mapping[str, Any], origin: Path) -> dict[str, Any]:
    """A part as it was, except for the dropout, which the recipe may change."""
    own = stated.get(part, {})
    own = {"kind": own} if isinstance(own, str) else own
    if own.get("kind", old["kind"]) != old["kind"]:
        raise UserError(
            f"training.from: {origin} has the {part} '{old['kind']}', but the recipe says '{own['kind']}'; "
            f"leave out model.{part}.kind, or go on with another model"
        )
    return old | {name: value for name, value in {**stated, **own}.items() if "dropout" in name and name in old}


def _absolute(path: str, root: str) -> str:
    """An absolute path: relative to data.root, or to the current folder if the file exists only there."""
    if is_url(path):
        return path
    rooted, bare = Path(root) / path, Path(path)
    there = [p for p in (rooted, bare) if Path(str(p).rpartition("#")[0] or p).exists() or p.exists()]
    return str((there or [rooted])[0].absolute())


def _refuse_missing_sets(data: Data) -> None:
    """Refuses missing files of known data sets with the command that fetches them."""
    paths = [
        path for named in data_paths(data).values() for path in named if not (Path(path).is_absolute() or is_url(path))
    ]
    lacking = [path.rpartition("#")[0] or path for path in paths]
    lacking = [path for path in lacking if not Path(_absolute(path, data.root)).exists()]
    if wanted := [name for name in dict.fromkeys(path.split("/")[0] for path in lacking) if name in data_sets()]:
        into = "" if data.root == data_root() else f" --data {data.root}"
        commands = "; ".join(f"regard data get {name}{into}" for name in wanted)
        raise UserError(f"{_absolute(lacking[0], data.root)} does not exist; get the data with: {commands}")


def _refuse_missing_files(data: Data) -> None:
    for path in (path for named in data_paths(data).values() for path in named):
        if not is_url(path) and not Path(path).exists() and not split_column(path)[0].exists():
            raise UserError(f"data: {path} does not exist; name another file, or say where data are with --data FOLDER")


def file_names(files: Files) -> list[str]:
    return list(map(str, [files] if isinstance(files, (str, Path)) else files))
