# The public names for type checkers and editors; at run time __init__.py imports them on first use.
# tests/test_public_api.py keeps both in step.

from pathlib import Path
from typing import Any, Literal, overload

from regard.errors import UserError as UserError
from regard.evaluating import evaluate as evaluate
from regard.inspection.inspect import inspect as inspect
from regard.interchange import export as export
from regard.layers.capture import capture as capture
from regard.runs import train as train
from regard.task.caption import Captioner
from regard.task.classify import Classifier
from regard.task.fill import Filler
from regard.task.forecast import Forecaster
from regard.task.generate import Generator
from regard.task.tag import Tagger
from regard.task.track import Tracker
from regard.task.transcribe import Transcriber
from regard.task.translate import Translator

__version__: str
__all__ = ["UserError", "__version__", "capture", "evaluate", "export", "inspect", "load", "train"]

Translators = Literal["fr-en", "fr-en-bahdanau", "fr-en-luong", "fr-en-plain", "fr-en-universal"]
Generators = Literal["shakespeare", "shakespeare-lstm"]
"""Shipped models whose task a type checker knows by their name."""

@overload
def load(
    name: Translators = "fr-en", device: str = "auto", task: Literal[""] = "", precision: str = "", engine: str = "auto"
) -> Translator: ...
@overload
def load(
    name: Generators, device: str = "auto", task: Literal[""] = "", precision: str = "", engine: str = "auto"
) -> Generator: ...
@overload
def load(
    name: Literal["fashion"], device: str = "auto", task: Literal[""] = "", precision: str = "", engine: str = "auto"
) -> Classifier: ...
@overload
def load(
    name: Literal["shapes"], device: str = "auto", task: Literal[""] = "", precision: str = "", engine: str = "auto"
) -> Captioner: ...
@overload
def load(
    name: str | Path, device: str = "auto", *, task: Literal["translate"], precision: str = "", engine: str = "auto"
) -> Translator: ...
@overload
def load(
    name: str | Path, device: str = "auto", *, task: Literal["classify"], precision: str = "", engine: str = "auto"
) -> Classifier: ...
@overload
def load(
    name: str | Path, device: str = "auto", *, task: Literal["tag"], precision: str = "", engine: str = "auto"
) -> Tagger: ...
@overload
def load(
    name: str | Path, device: str = "auto", *, task: Literal["generate"], precision: str = "", engine: str = "auto"
) -> Generator: ...
@overload
def load(
    name: str | Path, device: str = "auto", *, task: Literal["forecast"], precision: str = "", engine: str = "auto"
) -> Forecaster: ...
@overload
def load(
    name: str | Path, device: str = "auto", *, task: Literal["caption"], precision: str = "", engine: str = "auto"
) -> Captioner: ...
@overload
def load(
    name: str | Path, device: str = "auto", *, task: Literal["transcribe"], precision: str = "", engine: str = "auto"
) -> Transcriber: ...
@overload
def load(
    name: str | Path, device: str = "auto", *, task: Literal["track"], precision: str = "", engine: str = "auto"
) -> Tracker: ...
@overload
def load(
    name: str | Path, device: str = "auto", *, task: Literal["fill"], precision: str = "", engine: str = "auto"
) -> Filler: ...
@overload
def load(name: str | Path, device: str = "auto", task: str = "", precision: str = "", engine: str = "auto") -> Any: ...
