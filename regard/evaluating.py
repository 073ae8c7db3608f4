"""Evaluates a model on labelled files, in the format of the model's own recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from regard import registry
from regard.config import Recipe, apply_overrides
from regard.data.corpus.reading import check_file, read_pairs, split_column
from regard.data.splitting import make_format
from regard.engines.loading import load
from regard.errors import UserError
from regard.evaluation.translation import Scores, corpus_scores
from regard.find_model import find_model, read_recipe_of
from regard.storage import read_folder
from regard.task._base_translator import BaseTranslator

if TYPE_CHECKING:
    from regard.task._base import Task

Pairs = tuple[list[str], list[str]]
File = str | Path

FORMATS = {
    "classify": {"text": "labelled_table", "image": "image_folder", "series": "uea", "clip": "clip_folder"},
    "tag": {"text": "conll"},
    "fill": {"text": "plain_lines"},
    "generate": {"": "running_text"},
    "caption": {"image": "captions"},
    "transcribe": {"sound": "spoken"},
    "forecast": {"series": "table"},
    "track": {"clip": "tracks"},
}
"""Default formats for models trained on synthetic data, by task and kind of input."""
TABLES = {"labelled_lines": "labelled_table", "spoken": "transcripts"}
"""The format that reads a .tsv of labels, for models whose own format has the labels elsewhere."""


@overload
def evaluate(
    model: Task | BaseTranslator | File, sources: Sequence[str], references: Sequence[str], /, **options: Any
) -> tuple[Scores, list[str]]: ...
@overload
def evaluate(
    model: Task | BaseTranslator | File, /, *files: File, device: str = "auto", engine: str = "auto", **options: Any
) -> dict[str, Any]: ...


def evaluate(
    model: Task | BaseTranslator | File, /, *given: Any, device: str = "auto", engine: str = "auto", **options: Any
) -> Any:
    """Scores a model on labelled examples.

    Args:
        model: A loaded model, or the name or path of one.
        given: Labelled files in the format the model was trained on; for a translator a source and a target file, or a
            .tsv file with both. Two lists, of sources and references, also return the translations. Without any, a run
            is scored on the test examples of its recipe.
        device: "auto", "cpu", "cuda" or "cuda:1".
        engine: "auto", "torch" or "ctranslate2", as in `load`.
        options: For translators, those of `Translator.translate`.

    Returns:
        The scores by name; for two lists, a pair of scores and translations.
    """
    if len(given) == 2 and not any(isinstance(one, (str, Path)) for one in given):
        sources, references = map(list, given)
        if len(sources) != len(references):  # before minutes of translation
            raise UserError(f"{len(sources)} sources but {len(references)} references; each text needs its own")
        translator = (
            model if isinstance(model, BaseTranslator) else load(_path(model), device, "translate", engine=engine)
        )
        outputs = [translation.text for translation in translator.translate(sources, **options)]
        return corpus_scores(outputs, references), outputs
    if not given and isinstance(model, (str, Path)):
        from regard.runs import test

        check_is_run(model)
        return test(model, device)
    files = check_files(given)
    task = load(model, device, engine=engine) if isinstance(model, (str, Path)) else model
    if isinstance(task, BaseTranslator):
        sources, references = read_texts(files)
        return asdict(evaluate(task, sources, references, **options)[0])
    if options:
        raise UserError(f"{', '.join(options)}: only translators take options of a search when they are evaluated")
    return task.judge(read_examples(task, files)).scores


def _path(model: Task | BaseTranslator | File) -> File:
    if not isinstance(model, (str, Path)):
        raise UserError(
            f"lists of sources and references are for translators; this model is made to {model.recipe.task}"
        )
    return model


def recipe_of(model: File) -> Recipe:
    """The recipe saved with a model, without its weights."""
    return read_recipe_of(read_folder(find_model(model)))


def check_is_run(model: File) -> None:
    """Refuses a model folder, which names no files; a run's recipe does."""
    folder = find_model(model)
    if (Path(model) / "recipe.toml").is_file() and folder != Path(model):
        return
    task = read_recipe_of(read_folder(folder)).task
    files = "SOURCE TARGET" if task == "translate" else "FILE"
    raise UserError(
        f"{model} is a model and names no files to test on; give labelled ones: regard evaluate {model} {files}"
    )


def check_files(files: Sequence[File], root: Path = Path("data")) -> list[Path]:
    """The files as given, or below the folder of data sets; missing ones are refused."""
    if not files:
        raise UserError("no files to evaluate on; name labelled ones")
    found = []
    for file in map(Path, files):
        here = file if split_column(file)[0].exists() or not split_column(root / file)[0].exists() else root / file
        if not here.is_dir():
            check_file(split_column(here)[0])
        found.append(here)
    return found


def read_texts(files: Sequence[Path]) -> Pairs:
    """The two sides of parallel text, from two files or one .tsv."""
    if len(files) > 2:
        raise UserError(f"a translator is scored on a source and a target file, not on {len(files)} files")
    pairs = list(read_pairs([files[0]], list(files[1:]), kept=True))
    return [source for source, _ in pairs], [target for _, target in pairs]


def read_examples(task: Task, files: Sequence[Path], settings: Sequence[str] = ()) -> Any:
    """Examples with their targets, read by the format of the model's recipe or by `data.format` settings."""
    recipe = task.recipe
    format = dict(recipe.data.format)
    kind = str(format.get("kind", ""))
    table = any(".tsv" in file.suffixes[-2:] for file in files)
    if not kind or kind.startswith("made_"):
        marked = {name: value for name, value in format.items() if name == "mark"}
        format = {"kind": _usual_format(task, kind)} | marked
    if table and format["kind"] in TABLES:
        format = {"kind": TABLES[str(format["kind"])]}
    data = apply_overrides(replace(recipe, data=replace(recipe.data, format=format)), settings).data
    examples = make_format(data).read(list(files), "all")
    if not examples:
        raise UserError(f"no examples in {', '.join(map(str, files))}, read as {data.format.get('kind')}")
    return examples


def _usual_format(task: Task, kind: str) -> str:
    plain = kind.removeprefix("made_")
    if plain != kind and plain in registry.kinds("data/format"):  # made_dna -> dna
        return plain
    formats = FORMATS.get(task.recipe.task, {})
    from regard.task._examples import ExampleTask

    if found := formats.get(task.pair.input.kind if isinstance(task, ExampleTask) else ""):
        return found
    raise UserError(
        f"this model was trained on data that the package makes ({kind}), and there is no file format of that kind; "
        "evaluate its run without files"
    )
