"""Prepares the data of a run: reads them, learns the codec (tokenizer, labels, ...), and fingerprints the files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.config import Recipe, recipe_from_toml
from regard.data.corpus.preparing import forget_held_out
from regard.data.fingerprints import fingerprints, read_fingerprints, refuse_changes, write_fingerprints
from regard.errors import UserError
from regard.find_model import read_recipe_of
from regard.loading import CODEC_FILES, task_of
from regard.runs.data_paths import data_paths
from regard.storage import read_folder, read_small, write_file
from regard.task._base import Prepared
from regard.training.listener import Listener, Quiet
from regard.training.progress import OtherRank
from regard.training.ranks import Ranks
from regard.word_vectors import WORDS_OF, vectors_of


def prepare(recipe: Recipe, place: Path, resume: bool = False, report: Listener | None = None) -> Prepared:
    """Reads the data and learns the codec; a resumed run keeps its own.

    Refuses to resume, before anything is written, if the data are not those the run was started with.
    """
    report = report or Quiet()
    paths = data_paths(recipe.data)
    found, begun = fingerprints(paths), read_fingerprints(place) if resume else None
    if resume:
        if begun is None:
            report.note(f"{place} was begun without fingerprints of its data: whether they changed cannot be compared")
        else:
            refuse_changes(place, begun, found, paths)
    else:
        forget_held_out(place)
    known, same = _known_codec(recipe, place, resume)
    prepared = task_of(recipe).prepare(recipe, place, known, same, report.note)
    for name, content in prepared.codec.files().items():
        write_file(place / "codec" / name, content)
    if begun is None:
        write_fingerprints(place, found)
    return prepared


def _known_codec(recipe: Recipe, place: Path, resume: bool) -> tuple[Mapping[str, bytes], bool]:
    """The codec files to start with, and whether they are those of a model for the same task."""
    folder, path = place / "codec", recipe.tokenizer.get("path")
    if resume and folder.is_dir():
        return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}, True
    if start := recipe.training.start_from:
        origin = read_folder(Path(start))
        old = read_recipe_of(origin)
        files = {name: origin.read(name) for name in origin.names if name.startswith(CODEC_FILES)}
        return files, old.task == recipe.task
    if path:
        files = {file.name: read_small(file) for file in sorted(Path(path).glob("tokenizer*"))}
        return files, False
    return {}, False


def join(ranks: Ranks, recipe: str, place: str, files: list[Any]) -> tuple[Recipe, Prepared, Path, Listener]:
    """Reads what rank 0 prepared, on another rank."""
    resolved, folder = recipe_from_toml(recipe), Path(place)
    if not (folder / "codec").is_dir():
        raise UserError(f"{folder} cannot be seen by rank {ranks.rank}; all machines must share the disk it is on")
    if (seen := data_files(resolved)) != files:
        path = next((mine[0] for mine, first in zip(seen, files) if mine != first), "data")
        raise UserError(f"{path} is not the same file for rank {ranks.rank}; all machines must share the disk it is on")
    known, same = _known_codec(resolved, folder, resume=True)
    prepared = task_of(resolved).prepare(resolved, folder, known, same, Quiet().note)
    return resolved, prepared, folder, OtherRank(ranks.rank)


def data_files(recipe: Recipe) -> list[Any]:
    """The files of a recipe with size and time, to compare whether all ranks see the same ones."""
    named = [path for paths in data_paths(recipe.data).values() for path in paths]
    paths = [Path(path.rpartition("#")[0] or path) for path in named]
    paths += map(Path, filter(None, [*vectors_of(recipe.model).values(), recipe.tokenizer.get(WORDS_OF)]))
    status = [(path, path.stat() if path.exists() else None) for path in paths]
    return [[str(path), s.st_size, s.st_mtime_ns] if s else [str(path), -1, -1] for path, s in status]
