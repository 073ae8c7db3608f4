"""Train and evaluate: from a recipe to a run's folder with a finished model in it. What is trained, the task knows.

RUN/recipe.toml    everything resolved          RUN/checkpoints/  to go on from
RUN/codec/         tokenizer, labels, ...       RUN/model/        the result, a model folder
RUN/metrics.jsonl  RUN/tensorboard/             RUN/data.json     fingerprints of the data
and what the task keeps: for translation RUN/pack/ and RUN/held_out/
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

import torch
from torch import nn

from regard import registry
from regard.assemble import (
    CODEC_FILES,
    EXAMPLE_SIZES,
    VECTORS,
    Uninitialised,
    assign_weights,
    begin_with_vectors,
    build_model,
    check_vectors,
    find_model,
    load,
    model_files,
    read_recipe_of,
    resolve_model,
    take_over,
    task_of,
    vectors_of,
)
from regard.config import (
    Data,
    Recipe,
    Training,
    apply_overrides,
    data_root,
    read_recipe,
    recipe_from_toml,
    tiny_form,
    to_toml,
)
from regard.data import tokenizer as tokenizers
from regard.data.corpus.pair_languages import with_languages
from regard.data.corpus.preparing import forget_held_out
from regard.data.corpus.reading import split_column
from regard.data.datasets import data_sets
from regard.data.fingerprints import fingerprints, read_fingerprints, refuse_changes, write_fingerprints
from regard.device import mixed_precision
from regard.errors import UserError, suggestion
from regard.evaluation.scores import SCORES
from regard.layers.compiling import compile_layers, has_triton
from regard.storage import read_folder, read_small, write_file, write_folder
from regard.task._base import Prepared
from regard.task._writing import longest_text
from regard.training.defaults import warnings, with_defaults
from regard.training.distributed import Ranks, together
from regard.training.loop import Trainer
from regard.training.progress import Listener, OtherRank, Quiet, Reporter
from regard.training.resuming import refuse_fixed_changes
from regard.types import Validation

PATHS = ("source", "target", "valid_source", "valid_target", "hold_out", "train", "valid", "test")
"""The keys of the data section that name files."""
Files = Sequence[str | Path] | str | Path
WORTH_COMPILING = 2000
"""Steps of a training that is longer than compiling takes."""
READING = ("stem", "encoder")
"""The parts that a model for another task can go on with."""


@dataclass
class Run:
    """A run and what came of it."""

    folder: Path
    reason: str
    """Why it ended: steps, minutes, patience or interrupted."""
    scores: dict[str, float] = field(default_factory=dict)
    """Of the finished model, on the validation examples."""
    speaks: bool = True
    """False in the processes that train along with the first, which speaks for all."""

    @cached_property
    def model(self) -> Any:
        """The finished model, ready to use: loaded when it is first asked for, and kept."""
        return load(self.folder)


def train(
    recipe: Recipe | str | Path | None = None,
    *overrides: str,
    task: str | None = None,
    source: Files | None = None,
    target: Files | None = None,
    valid_source: Files | None = None,
    valid_target: Files | None = None,
    start_from: str | Path | None = None,
    tiny: bool = False,
    steps: int | None = None,
    device: str | None = None,
    out: str | Path | None = None,
    folder: str | Path | None = None,
    resume: bool | str | Path = False,
    quiet: bool = False,
    report: Listener | None = None,
) -> Run:
    """Trains by a recipe (its file or name) or on two text files, as the command `regard train` does.

    Overrides are `"training.steps=200"` and the like; `task`, `valid_source`, `valid_target`, `start_from` (a model to
    fine-tune), `steps` and `device` are settings of the recipe by another name. `tiny` takes the recipe's form of
    seconds, on data made on the spot. `out` is the new run's folder (`folder` is its former name), and `resume` the
    folder of a run to go on with: one that a signal stopped, for example.
    Started by torchrun, all its processes train together; the first prepares and reports.
    """
    if folder is not None:
        if out is not None:
            raise UserError("out and folder are the same; give out alone")
        out = folder
    if resume and resume is not True:
        if recipe or source or target or out or start_from or tiny:
            raise UserError("resume goes on with a run as it is; it takes no recipe, source, target, start_from or out")
        out, resume = Path(resume), True
    named = {
        "task": task,
        "data.valid_source": _names(valid_source),
        "data.valid_target": _names(valid_target),
        "training.from": start_from and str(start_from),
        "training.steps": steps,
        "training.device": device,
    }
    # Texts, numbers and lists of JSON are TOML's too.
    changes = [*overrides, *(f"{key}={json.dumps(v, ensure_ascii=False)}" for key, v in named.items() if v is not None)]
    begun: list[tuple[Recipe, Prepared, Path, Listener]] = []
    fresh: list[Path] = []

    def begin() -> dict[str, Any]:
        notes: list[str] = []
        if resume:
            if out is None:
                raise UserError("to resume, say which run: regard train --resume RUN")
            place = Path(out)
            settled = _resumed(place, changes)
            _check_start(settled, ranks)
        else:
            given = recipe if isinstance(recipe, Recipe) else read_recipe(recipe) if recipe else Recipe()
            stated = apply_overrides(tiny_form(given) if tiny else given, changes)
            _check_start(stated, ranks)
            settled = settle(stated, source, target, notes.append)
            place = Path(out) if out else _new_folder(settled)
            if (place / "checkpoints").exists():
                raise UserError(f"{place} already holds a run; go on with --resume {place} or choose another folder")
        if not place.exists():
            fresh.append(place)
        listener = report or (Quiet() if quiet else Reporter(place, unit=task_of(settled).unit))
        for note in notes:
            listener.note(note)
        settled = _for_all(settled, ranks, listener)
        begun.append((settled, prepare(settled, place, bool(resume), listener), place, listener))
        return {"recipe": to_toml(settled), "place": str(place.absolute()), "files": _files(settled)}

    with together() as ranks:
        with _removed_if_refused(fresh):
            told = ranks.first(begin)
            started = begun[0] if begun else _joined(ranks, **told)
            trainer = _trainer(*started, bool(resume), ranks)
        return _fit(trainer, *started[:3], ranks)


def _check_start(recipe: Recipe, ranks: Ranks) -> None:
    """Refuses what the machine or the task cannot do before any data are read."""
    ranks.device(recipe.training.device)
    metric, scores = recipe.training.metric, SCORES.get(recipe.task)
    if metric and scores and metric not in scores:
        raise UserError(f"training.metric: validation gives no '{metric}'{suggestion(metric, scores)}")


@contextmanager
def _removed_if_refused(fresh: list[Path]) -> Iterator[None]:
    """A start that is refused leaves no folder behind; folders that were there before are not in `fresh`."""
    try:
        yield
    except UserError:
        for folder in fresh:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _names(files: Files | None) -> list[str] | None:
    return None if files is None else list(map(str, [files] if isinstance(files, (str, Path)) else files))


def _resumed(place: Path, overrides: Sequence[str]) -> Recipe:
    """The recipe of a run with the settings of it that may change; others are refused before anything is written."""
    saved = _saved_recipe(place)
    wanted = apply_overrides(saved, overrides)
    refuse_fixed_changes(place, saved, wanted)
    return _with_data_found(replace(wanted, training=with_defaults(wanted.training, bool(wanted.training.start_from))))


def _for_all(recipe: Recipe, ranks: Ranks, report: Listener) -> Recipe:
    """A step takes one batch at least for each process: also of one that resumes it with fewer, so it is saved so."""
    if ranks.size == 1:
        return recipe
    report.note(f"{ranks.size} processes train together")
    accumulate = recipe.training.accumulate
    if accumulate >= ranks.size:
        return recipe
    report.note(f"training.accumulate is raised from {accumulate} to {ranks.size}: one batch a step for each process")
    return replace(recipe, training=replace(recipe.training, accumulate=ranks.size))


def _joined(ranks: Ranks, recipe: str, place: str, files: list[Any]) -> tuple[Recipe, Prepared, Path, Listener]:
    """What another process prepared, read from where it wrote it."""
    settled, folder = recipe_from_toml(recipe), Path(place)
    if not (folder / "codec").is_dir():
        raise UserError(f"{folder} cannot be seen by rank {ranks.rank}; all machines must share the disk it is on")
    if (seen := _files(settled)) != files:
        path = next((mine[0] for mine, first in zip(seen, files) if mine != first), "data")
        raise UserError(f"{path} is not the same file for rank {ranks.rank}; all machines must share the disk it is on")
    known, same = _known_codec(settled, folder, resume=True)
    prepared = task_of(settled).prepare(settled, folder, known, same, Quiet().note)
    return settled, prepared, folder, OtherRank(ranks.rank)


def _files(recipe: Recipe) -> list[Any]:
    """The files of a recipe, with size and time: by these a corpus is known to be the one that was prepared."""
    paths = [Path(path.rpartition("#")[0] or path) for name in PATHS for path in getattr(recipe.data, name)]
    paths += map(Path, vectors_of(recipe.model).values())
    status = [(path, path.stat() if path.exists() else None) for path in paths]
    return [[str(path), s.st_size, s.st_mtime_ns] if s else [str(path), -1, -1] for path, s in status]


def settle(
    recipe: Recipe,
    source: Files | None = None,
    target: Files | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Recipe:
    """The recipe with nothing left open: paths found, defaults written out, `from` resolved, languages inferred."""
    task = task_of(recipe)
    data = replace(recipe.data)
    for name, given in (("source", source), ("target", target)):
        if given is not None:
            setattr(data, name, [str(Path(path).absolute()) for path in _names(given) or []])
    _refuse_missing_sets(recipe.data)
    recipe = _with_data_found(replace(recipe, data=data, model={**task.usual, **recipe.model}))
    _refuse_missing_files(recipe.data)
    stated, fine_tuning = recipe, False
    if recipe.training.start_from:
        recipe, fine_tuning = _continued(recipe)
    else:
        recipe = replace(recipe, tokenizer=tokenizers.settled(recipe.tokenizer), model=resolve_model(recipe.model))
    with (
        torch.device("meta"),
        Uninitialised(),
    ):  # parts that do not fit together are refused here, before anything is written
        model = build_model(recipe.model, **EXAMPLE_SIZES)
    _check_positions(model, recipe)
    recipe = _with_vectors_found(recipe)
    check_vectors(model, vectors_of(recipe.model))
    recipe = replace(recipe, training=with_defaults(recipe.training, fine_tuning))
    recipe = task.settle(recipe)
    return with_languages(recipe, stated, note) if recipe.task == "translate" else recipe


def _with_data_found(recipe: Recipe) -> Recipe:
    """Every path as an absolute one."""
    data = recipe.data
    found: dict[str, Any] = {name: [_found(path, data.root) for path in getattr(data, name)] for name in PATHS}
    return replace(recipe, data=replace(data, **found))


def _check_positions(model: nn.Module, recipe: Recipe) -> None:
    """Learned positions must reach as far as the longest text that is trained on."""
    positions = longest_text(model)
    if positions is not None and positions < recipe.data.max_length + 2:
        raise UserError(
            f"model.position: {positions} positions are too few for data.max_length={recipe.data.max_length}; "
            f"set its length to {recipe.data.max_length + 2} or more, or max_length lower"
        )


def _with_vectors_found(recipe: Recipe) -> Recipe:
    """Files of vectors are looked for where data are."""
    found = {part: _found(file, recipe.data.root) for part, file in vectors_of(recipe.model).items()}
    return replace(recipe, model={**recipe.model, **{p: recipe.model[p] | {VECTORS: f} for p, f in found.items()}})


def _continued(recipe: Recipe) -> tuple[Recipe, bool]:
    """What `training.from` brings along: all of a model for the same task, of another only what reads.

    The second value is True where all of it goes on: that is fine-tuning.
    """
    for stated in (recipe.model, *recipe.model.values()):
        if isinstance(stated, dict) and VECTORS in stated:
            raise UserError(f"model.{VECTORS}: training.from brings its own embeddings; leave out one of the two")
    origin = find_model(recipe.training.start_from)
    old = read_recipe_of(read_folder(origin))
    model = resolve_model(old.model)
    if old.task != recipe.task:
        _refuse_other_input(recipe, old.task, model)
        reading = {part: _taken(part, model[part], recipe.model, origin) for part in READING if part in model}
        model = resolve_model({**recipe.model, **reading})
    continued = replace(
        recipe,
        tokenizer=old.tokenizer,
        input=old.input,
        model=model,
        source_language=recipe.source_language or old.source_language,
        target_language=recipe.target_language or old.target_language,
        training=replace(recipe.training, start_from=str(origin)),
    )
    return continued, old.task == recipe.task


def _refuse_other_input(recipe: Recipe, task: str, model: Mapping[str, Any]) -> None:
    """Of a model for another task the stem and encoder are kept, so it must have them and read the same input."""
    start = recipe.training.start_from
    if not any(part in model for part in READING):
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


def _taken(part: str, old: dict[str, Any], stated: Mapping[str, Any], origin: Path) -> dict[str, Any]:
    """A part as it was, but for the dropout, which a recipe may choose anew."""
    own = stated.get(part, {})
    own = {"kind": own} if isinstance(own, str) else own
    if own.get("kind", old["kind"]) != old["kind"]:
        raise UserError(
            f"training.from: {origin} has the {part} '{old['kind']}', but the recipe says '{own['kind']}'; "
            f"leave out model.{part}.kind, or go on with another model"
        )
    return old | {name: value for name, value in {**stated, **own}.items() if "dropout" in name and name in old}


def prepare(recipe: Recipe, place: Path, resume: bool = False, report: Listener | None = None) -> Prepared:
    """Reads the data and learns what goes between them and the weights; a resumed run goes on with what it has.

    It is refused before anything is written where its data are not those it was begun with.
    """
    report = report or Quiet()
    paths = {name: getattr(recipe.data, name) for name in PATHS}
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
    """The codec files to go on with, and whether they are a model's for the same task."""
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
        if not files:
            raise UserError(f"tokenizer.path: no tokenizer in {path}; give the folder of a model")
        return files, False
    return {}, False


def _trainer(recipe: Recipe, prepared: Prepared, place: Path, report: Listener, resume: bool, ranks: Ranks) -> Trainer:
    """A trainer at its first step, or where a resumed run was stopped."""
    settings = recipe.training
    torch.manual_seed(recipe.seed)
    model = build_model(recipe.model, **prepared.codec.sizes(), label_smoothing=settings.label_smoothing)
    _check_positions(model, recipe)
    if (vectors := vectors_of(recipe.model)) and not (resume and any((place / "checkpoints").glob("step-*"))):
        begin_with_vectors(model, vectors, prepared.codec, report.note if ranks.is_first else Quiet().note)
    fine_tuning = False
    if settings.start_from:  # also when resuming: the run may have been killed before its first checkpoint
        origin = read_folder(Path(settings.start_from))
        old = read_recipe_of(origin)
        fine_tuning = old.task == recipe.task
        if fine_tuning:
            assign_weights(model, origin.weights(), settings.start_from)
        else:
            taken = take_over(model, origin.weights(), settings.start_from)
            if ranks.is_first:
                report.note(f"{taken:,} weights taken over from {settings.start_from}")
    saved = _without_paths(recipe)
    trainer = Trainer(
        model,
        prepared.stream,
        place,
        settings,
        seed=recipe.seed,
        model_files=lambda weights: model_files(saved, prepared.codec, weights, "float32"),
        validate=(lambda model: judge(recipe, prepared.codec, model, prepared.valid)) if prepared.valid else None,
        report=report,
        ranks=ranks,
        fine_tuning=fine_tuning,
    )
    if _compiles(settings, trainer.device, report):
        compile_layers(model)
        if getattr(model, "cuda_graphable", False):
            trainer.record()
    if resume:
        trainer.resume()
    if ranks.is_first:
        for text in warnings(settings, prepared.stream):
            report.note(text)
    # Last, so that a setting that anything above refuses does not replace those the run was begun with.
    ranks.first(lambda: write_file(place / "recipe.toml", to_toml(recipe).encode()))
    return trainer


def _fit(trainer: Trainer, recipe: Recipe, prepared: Prepared, place: Path, ranks: Ranks) -> Run:
    result = trainer.fit()

    def learn_errors() -> None:
        if result.model and prepared.valid:
            finished = task_of(recipe)(recipe, prepared.codec, trainer.model, trainer.device)
            if finished.learn_errors(prepared.valid):
                saved = _without_paths(recipe)
                write_folder(result.model, model_files(saved, prepared.codec, trainer.weights, "float32"))

    ranks.first(learn_errors)
    return Run(place, result.reason, result.scores, ranks.is_first)


def _compiles(settings: Training, device: torch.device, report: Listener) -> bool:
    """Whether to compile layers; a wish that cannot be met costs one line. Layers in shares are not compiled."""
    if settings.compile not in ("auto", "always", "never"):
        raise UserError(f"training.compile: no '{settings.compile}'; use auto, always or never")
    wanted = device.type == "cuda" and settings.steps >= WORTH_COMPILING
    if settings.compile == "never" or settings.shard or not (wanted or settings.compile == "always"):
        return False
    if device.type == "cuda" and not has_triton():
        report.note("layers are not compiled: Triton is not here; pip install triton")
        return False
    return True


def judge(recipe: Recipe, codec: Any, model: nn.Module, examples: Any) -> Validation:
    """What the task finds of a model, at the precision it is trained with."""
    device = next(model.parameters()).device
    dtype = mixed_precision(recipe.training.precision, device)
    with torch.autocast(device.type, dtype, enabled=dtype is not None):
        return task_of(recipe)(recipe, codec, model, device).judge(examples)


def test(run: str | Path, device: str = "auto") -> dict[str, float]:
    """The scores of a run's finished model on the examples its recipe keeps for testing."""
    recipe = _saved_recipe(Path(run))
    if begun := read_fingerprints(Path(run)):
        paths = {name: getattr(recipe.data, name) for name in PATHS}
        refuse_changes(Path(run), begun, fingerprints(paths), paths)
    examples = task_of(recipe).tests(recipe)
    if not examples:
        raise UserError(f"{run}: its recipe names nothing to test on; set data.test (translators: --source)")
    return load(run, device).judge(examples).scores


def cross_validate(
    recipe: Recipe, folds: int, folder: str | Path | None = None, quiet: bool = False, device: str = "auto"
) -> tuple[dict[str, tuple[float, float]], Path]:
    """Trains once for each fold and tests on it; the mean and the spread of every score over the folds."""
    found: list[dict[str, float]] = []
    with together() as ranks:
        place = Path(ranks.first(lambda: str(folder or _new_folder(recipe))))
        for fold in range(folds):
            one = apply_overrides(recipe, [f"data.folds={folds}", f"data.fold={fold}"])
            run = train(one, folder=place / f"fold-{fold}", quiet=quiet)
            if run.reason == "interrupted":
                raise KeyboardInterrupt
            found.append(ranks.first(partial(test, place / f"fold-{fold}", device)))
    return {name: (mean(s[name] for s in found), pstdev(s[name] for s in found)) for name in found[0]}, place


def _saved_recipe(place: Path) -> Recipe:
    if not (place / "recipe.toml").is_file():
        raise UserError(f"{place}: no run to resume or to test (no recipe.toml in it)")
    return read_recipe(place / "recipe.toml")


def _new_folder(recipe: Recipe) -> Path:
    """runs/NAME, or runs/NAME-2 and so on when that is taken."""
    name = recipe.name or "-".join(filter(None, (recipe.source_language, recipe.target_language))) or recipe.task
    folder, count = Path("runs") / name, 1
    while folder.exists():
        count += 1
        folder = Path("runs") / f"{name}-{count}"
    return folder


def _found(path: str, root: str) -> str:
    """Paths of a recipe start at data.root; one that is not there but exists as it stands is taken so."""
    rooted, bare = Path(root) / path, Path(path)
    there = [p for p in (rooted, bare) if Path(str(p).rpartition("#")[0] or p).exists() or p.exists()]
    return str((there or [rooted])[0].absolute())


def _refuse_missing_sets(data: Data) -> None:
    """Where files of known data sets are missing, says how to get them."""
    paths = [path for name in PATHS for path in getattr(data, name) if not Path(path).is_absolute()]
    lacking = [path.rpartition("#")[0] or path for path in paths]
    lacking = [path for path in lacking if not Path(_found(path, data.root)).exists()]
    if wanted := [name for name in dict.fromkeys(path.split("/")[0] for path in lacking) if name in data_sets()]:
        into = "" if data.root == data_root() else f" --data {data.root}"
        commands = "; ".join(f"regard data get {name}{into}" for name in wanted)
        raise UserError(f"{_found(lacking[0], data.root)} does not exist; get the data with: {commands}")


def _refuse_missing_files(data: Data) -> None:
    for path in (path for name in PATHS for path in getattr(data, name)):
        if not Path(path).exists() and not split_column(path)[0].exists():
            raise UserError(f"data: {path} does not exist; name another file, or say where data are with --data FOLDER")


def _without_paths(recipe: Recipe) -> Recipe:
    """What is saved with a model names no files of the machine it was trained on."""
    empty: dict[str, Any] = {name: [] for name in PATHS}
    return replace(
        recipe,
        data=replace(recipe.data, root="data", **empty),
        tokenizer={name: value for name, value in recipe.tokenizer.items() if name != "path"},
        model={name: _plain_part(value) for name, value in recipe.model.items()},
        training=replace(recipe.training, start_from=""),
    )


def _plain_part(value: Any) -> Any:
    """A part of a model without the file its embedding began with: that is in its weights now."""
    return {key: inner for key, inner in value.items() if key != VECTORS} if isinstance(value, dict) else value
