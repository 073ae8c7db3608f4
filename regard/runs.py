"""Train and evaluate: from a recipe to a run's folder with a finished model in it.

RUN/recipe.toml    everything resolved          RUN/held_out/     pairs that were never trained on, as text
RUN/tokenizer/     learnt from the corpus       RUN/checkpoints/  to go on from
RUN/pack/          the corpus as numbers        RUN/model/        the result, a model folder
RUN/metrics.jsonl  RUN/tensorboard/
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from regard import registry
from regard.assemble import assign_weights, build_model, find_model, load, model_files, read_model, resolve_model
from regard.config import Recipe, apply_overrides, read_recipe, recipe_from_toml, to_toml
from regard.data.batching import Batches
from regard.data.corpus import read_pairs
from regard.data.corpus.filters import Filters
from regard.data.corpus.hold_out import HeldOut, choose
from regard.data.corpus.pack import Pack, fingerprint, open_pack, pack_pairs
from regard.data.flat import Sentences
from regard.data.normalise import plain
from regard.data.tokenizer._base import Tokenizer
from regard.device import mixed_precision
from regard.errors import UserError, suggestion
from regard.evaluation.translation import Scores, corpus_scores
from regard.storage import read_folder, write_file
from regard.task.translate import Translator, longest_text
from regard.training.loop import Trainer
from regard.training.progress import Listener, Quiet, Reporter, Validation

Pair = tuple[str, str]


@dataclass
class Run:
    """A run and what came of it."""

    folder: Path
    reason: str
    """Why it ended: steps, minutes, patience or interrupted."""
    scores: dict[str, float] = field(default_factory=dict)
    """Of the finished model, on the validation pairs."""

    @property
    def model(self) -> Translator:
        return load(self.folder)


def train(
    recipe: Recipe | str | Path | None = None,
    *overrides: str,
    source: Sequence[str | Path] | str | Path | None = None,
    target: Sequence[str | Path] | str | Path | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    quiet: bool = False,
    report: Listener | None = None,
) -> Run:
    """Trains by a recipe (its file or name) or on two text files; `resume` goes on with the run in `folder`.

    Overrides are `"training.steps=200"` and the like. A run that a signal stopped can be resumed.
    """
    if resume:
        if folder is None:
            raise UserError("to resume, say which run: regard train --resume RUN")
        place = Path(folder)
        settled = apply_overrides(_saved_recipe(place), overrides)
    else:
        given = recipe if isinstance(recipe, Recipe) else read_recipe(recipe) if recipe else Recipe()
        settled = settle(apply_overrides(given, overrides), source, target)
        place = Path(folder) if folder else _new_folder(settled)
        if (place / "checkpoints").exists():
            raise UserError(f"{place} already holds a run; go on with --resume {place} or choose another folder")
    report = report or (Quiet() if quiet else Reporter(place))
    tokenizer, pack, valid = prepare(settled, place, resume, report.note)
    return _fit(settled, tokenizer, pack, valid, place, resume, report)


def settle(
    recipe: Recipe,
    source: Sequence[str | Path] | str | Path | None = None,
    target: Sequence[str | Path] | str | Path | None = None,
) -> Recipe:
    """The recipe with nothing left open: paths found, defaults of tokenizer and model written out, `from` resolved."""
    tasks = registry.kinds("task")
    if recipe.task not in tasks:
        raise UserError(f"task: no '{recipe.task}'{suggestion(recipe.task, tasks)}")
    data = replace(recipe.data)
    for name, given in (("source", source), ("target", target)):
        if given is not None:
            paths = [given] if isinstance(given, (str, Path)) else given
            setattr(data, name, [str(Path(path).absolute()) for path in paths])
    for name in ("source", "target", "valid_source", "valid_target", "hold_out"):
        setattr(data, name, [_found(path, data.root) for path in getattr(data, name)])
    if not data.source:
        raise UserError("data.source: nothing to train on; give --source FILE and --target FILE, or a recipe")
    recipe = replace(recipe, data=data)
    start = recipe.training.start_from
    if start:
        origin = find_model(start)
        old = recipe_from_toml(read_folder(origin).read("recipe.toml").decode(), where=f"{origin}/recipe.toml")
        recipe = replace(
            recipe,
            tokenizer=old.tokenizer,
            model=old.model,
            source_language=recipe.source_language or old.source_language,
            target_language=recipe.target_language or old.target_language,
            training=replace(recipe.training, start_from=str(origin)),
        )
    else:
        recipe = replace(recipe, tokenizer=_settled_tokenizer(recipe.tokenizer), model=resolve_model(recipe.model))
    with torch.device("meta"):  # parts that do not fit together are refused here, before anything is written
        build_model(recipe.model, vocabulary=8)
    read_pairs(data.source, data.target)  # and so are files that are not there
    return recipe


def prepare(
    recipe: Recipe, place: Path, resume: bool = False, note: Callable[[str], None] = lambda text: None
) -> tuple[Tokenizer, Pack, list[Pair]]:
    """Holds out, learns the tokenizer and packs the corpus, and gives these and the validation pairs.

    A resumed run goes on with the tokenizer it has; the pack is made again only where what it was made of has changed.
    """
    valid, held = _held_out(recipe, place, note)
    tokenizer = _tokenizer(recipe, place, held, resume, note)
    data = recipe.data
    chosen = {
        name: getattr(data, name)
        for name in ("max_length", "max_ratio", "drop_duplicates", "drop_identical", "drop_wrong_script")
    }
    withheld = [data.hold_out, data.hold_out_valid, data.hold_out_test, data.plain_source]
    inputs = [*data.source, *data.target, *data.valid_source, *data.valid_target]
    mark = fingerprint(inputs, {**chosen, "withheld": withheld}, tokenizer.files())
    pack = open_pack(place / "pack", mark)
    if pack is None:
        tidy = plain if data.plain_source else str
        pack = pack_pairs(
            read_pairs(data.source, data.target),
            lambda texts: tokenizer.encode_many([tidy(text) for text in texts]),
            tokenizer.encode_many,
            place / "pack",
            vocabulary=len(tokenizer),
            filters=Filters(**chosen),
            held_out=held,
            fingerprint=mark,
            progress=_every(200_000, lambda lines: note(f"reading the corpus: {lines:,} lines")),
        )
    write_file(place / "recipe.toml", to_toml(recipe).encode())  # last: what is refused on the way leaves no run
    dropped = ", ".join(f"{name} {count:,}" for name, count in pack.dropped.items() if count) or "none"
    note(f"{len(pack):,} pairs to train on of {pack.about['read']:,}; dropped: {dropped}")
    return tokenizer, pack, valid


def _fit(
    recipe: Recipe, tokenizer: Tokenizer, pack: Pack, valid: list[Pair], place: Path, resume: bool, report: Listener
) -> Run:
    settings = recipe.training
    torch.manual_seed(recipe.seed)
    model = build_model(recipe.model, len(tokenizer), settings.label_smoothing)
    positions = longest_text(model)
    if positions is not None and positions < recipe.data.max_length + 2:
        raise UserError(
            f"model.position: {positions} positions are too few for data.max_length={recipe.data.max_length}; "
            f"set its length to {recipe.data.max_length + 2} or more, or max_length lower"
        )
    if settings.start_from:  # also when resuming: the run may have been killed before its first checkpoint
        assign_weights(model, read_folder(Path(settings.start_from)).weights(), settings.start_from)
    alpha = float(recipe.tokenizer.get("sampling", 0.0))

    def resample(sentences: Sentences, seeds: np.ndarray) -> Sentences:
        return tokenizer.resample(sentences, seeds, alpha)

    batches = Batches(
        pack,
        batch_tokens=settings.batch_tokens,
        seed=recipe.seed,
        window=recipe.data.window,
        workers=recipe.data.workers,
        sample=(resample, resample) if alpha else None,
    )
    saved = _without_paths(recipe)
    trainer = Trainer(
        model,
        batches,
        place,
        settings,
        seed=recipe.seed,
        model_files=lambda weights: model_files(saved, tokenizer, weights, "float32"),
        validate=Validator(recipe, tokenizer, valid) if valid else None,
        report=report,
    )
    if resume:
        trainer.resume()
    result = trainer.fit()
    return Run(place, result.reason, result.scores)


class Validator:
    """Translates the validation pairs greedily and scores them; also the loss a token, without label smoothing."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, pairs: Sequence[Pair]):
        step = max(1, len(pairs) // recipe.data.valid_limit)
        self.recipe, self.tokenizer, self.pairs = recipe, tokenizer, pairs[::step][: recipe.data.valid_limit]

    def __call__(self, model: nn.Module) -> Validation:
        device = next(model.parameters()).device
        dtype = mixed_precision(self.recipe.training.precision, device)
        translator = Translator(self.recipe, self.tokenizer, model, device)
        with torch.autocast(device.type, dtype, enabled=dtype is not None):
            sources = [source for source, _ in self.pairs]
            found = translator.translate(sources, beam=1, batch_tokens=self.recipe.training.batch_tokens)
            loss = translator.loss(self.pairs, self.recipe.training.batch_tokens)
        outputs = [translation.text for translation in found]
        references = [reference for _, reference in self.pairs]
        scores = corpus_scores(outputs, references)
        shown = range(0, len(outputs), max(1, len(outputs) // max(1, self.recipe.training.samples)))
        samples = [(*self.pairs[i], outputs[i]) for i in shown][: self.recipe.training.samples]
        return Validation(
            {"bleu": scores.bleu, "chrf": scores.chrf, "loss": loss},
            [(source, output, reference) for source, reference, output in samples],
        )


def evaluate(
    model: Translator | str | Path, sources: Sequence[str], references: Sequence[str], **options: Any
) -> tuple[Scores, list[str]]:
    """The scores of a model's translations against the references, and the translations."""
    translator = model if isinstance(model, Translator) else load(model)
    outputs = [translation.text for translation in translator.translate(sources, **options)]
    return corpus_scores(outputs, references), outputs


def _saved_recipe(place: Path) -> Recipe:
    if not (place / "recipe.toml").is_file():
        raise UserError(f"{place}: no run to resume (no recipe.toml in it)")
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


def _settled_tokenizer(given: dict[str, Any]) -> dict[str, Any]:
    options = dict(given)
    kind = options.pop("kind", "subword")
    maker = cast(type[Tokenizer], registry.factory("data/tokenizer", kind, "tokenizer.kind"))
    known = {n: p for n, p in registry.keywords(maker.train).items() if n not in ("lines", "seed")}
    for name in options:
        if name not in known and name != "path":
            raise UserError(f"tokenizer: no key '{name}'{suggestion(name, [*known, 'kind', 'path'])}")
    defaults = {n: p.default for n, p in known.items() if p.default is not inspect.Parameter.empty}
    return {"kind": kind, **defaults, **options}


def _held_out(recipe: Recipe, place: Path, note: Callable[[str], None]) -> tuple[list[Pair], HeldOut]:
    """The validation pairs, and all pairs (those for testing too) that training must avoid."""
    data, folder = recipe.data, place / "held_out"
    named = list(read_pairs(data.valid_source, data.valid_target)) if data.valid_source else []
    wanted = data.hold_out_valid if data.hold_out_valid >= 0 else 0 if named else 1000
    for path in data.hold_out:
        if path not in data.source:
            raise UserError(f"data.hold_out: {path} is not among data.source{suggestion(path, data.source)}")
    files = [
        (source, target)
        for source, target in zip(data.source, data.target or data.source)
        if source in data.hold_out or not data.hold_out
    ]
    valid, test = [], []
    if wanted or data.hold_out_test:
        valid, test = choose(read_pairs(*map(list, zip(*files))), [wanted, data.hold_out_test])
        for name, pairs in (("valid", valid), ("test", test)):
            for side, ending in enumerate(("source", "target")):
                if pairs:
                    write_file(folder / f"{name}.{ending}", "".join(f"{pair[side]}\n" for pair in pairs).encode())
        note(f"held out: {len(valid):,} pairs to validate and {len(test):,} to test, in {folder}")
    return [*valid, *named], HeldOut([*valid, *test, *named])


def _every(count: int, tell: Callable[[int], None]) -> Callable[[int], None]:
    """Tells a count of lines each time it passed another `count`."""
    told = 0

    def hear(lines: int) -> None:
        nonlocal told
        if lines // count > told:
            told = lines // count
            tell(lines)

    return hear


def _tokenizer(recipe: Recipe, place: Path, held: HeldOut, resume: bool, note: Callable[[str], None]) -> Tokenizer:
    options = dict(recipe.tokenizer)
    maker = cast(type[Tokenizer], registry.factory("data/tokenizer", options.pop("kind"), "tokenizer.kind"))
    path = options.pop("path", None)
    folder = place / "tokenizer"
    if recipe.training.start_from:
        tokenizer = read_model(read_folder(Path(recipe.training.start_from)))[1]
    elif path or (resume and folder.is_dir()):
        files = {file.name: file.read_bytes() for file in sorted(Path(path or folder).glob("tokenizer*"))}
        if not files:
            raise UserError(f"tokenizer.path: no tokenizer in {path or folder}; give the folder of a model")
        tokenizer = maker.from_files(files)
    else:
        note("learning the tokenizer from the training text")
        tidy = plain if recipe.data.plain_source else str

        def lines() -> Iterator[str]:
            for source, target in read_pairs(recipe.data.source, recipe.data.target):
                if not held.has(source, target):
                    yield tidy(source)
                    yield target

        tokenizer = maker.train(lines(), seed=recipe.seed, **options)
    for name, content in tokenizer.files().items():
        write_file(folder / name, content)
    return tokenizer


def _without_paths(recipe: Recipe) -> Recipe:
    """What is saved with a model names no files of the machine it was trained on."""
    empty: dict[str, Any] = {n: [] for n in ("source", "target", "valid_source", "valid_target", "hold_out")}
    return replace(
        recipe,
        data=replace(recipe.data, root="data", **empty),
        tokenizer={name: value for name, value in recipe.tokenizer.items() if name != "path"},
        training=replace(recipe.training, start_from=""),
    )
