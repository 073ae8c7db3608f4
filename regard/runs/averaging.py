"""One model with the mean weights of several: checkpoints of a run, or runs that began with the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.errors import UserError
from regard.find_model import find_model
from regard.loading import model_files, read_model
from regard.storage import read_folder, write_folder
from regard.training.checkpoints import average


def write_average(models: Sequence[str | Path], output: Path) -> Path:
    """Writes the model folder. Recipe and tokenizer are those of the last model; all must have the same parts and
    the same tokenizer, or the mean of their weights would mean nothing."""
    if len(models) < 2:
        raise UserError("name at least two models or checkpoints to average")
    if output.exists():
        raise UserError(f"{output} already exists; choose another folder")
    folders = [read_folder(find_model(model)) for model in models]
    read = [read_model(folder)[:2] for folder in folders]
    (recipe, codec), last = read[-1], models[-1]
    for model, (other, its_codec) in zip(models, read):
        if other.task != recipe.task or other.model != recipe.model:
            raise UserError(f"{model}: has other parts than {last}; only models of one shape can be averaged")
        if its_codec.files() != codec.files():
            raise UserError(
                f"{model}: has another tokenizer or other labels than {last}; its weights mean other things"
            )
    write_folder(output, model_files(recipe, codec, average(folders), "float32"))
    return output
