"""Runs: train by a recipe, test the result. What the command line and Python call.

RUN/recipe.toml    all values resolved          RUN/checkpoints/  to resume from
RUN/codec/         tokenizer, labels, ...       RUN/model/        the result, a model folder
RUN/metrics.jsonl  RUN/tensorboard/             RUN/data.json     fingerprints of the data
RUN/launch         the torchrun that began it
and what the task stores: for translation RUN/pack/ and RUN/held_out/

    training_run.py  `train`, from start to end   resolution.py   fills in and checks the recipe
    preparation.py   reads the data               setup.py        builds the trainer
    restarts.py      by torchrun                  testing.py      `test` and `cross_validate`
"""

from regard.runs.preparation import prepare as prepare
from regard.runs.resolution import resolve as resolve
from regard.runs.testing import cross_validate as cross_validate
from regard.runs.testing import test as test
from regard.runs.training_run import Run as Run
from regard.runs.training_run import train as train
