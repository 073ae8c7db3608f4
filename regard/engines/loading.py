"""`regard.load`: a model by name or folder, computed by the fastest engine that can."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from regard.engines import load_with

if TYPE_CHECKING:
    from regard.task.caption import Captioner
    from regard.task.classify import Classifier
    from regard.task.fill import Filler
    from regard.task.forecast import Forecaster
    from regard.task.generate import Generator
    from regard.task.tag import Tagger
    from regard.task.track import Tracker
    from regard.task.transcribe import Transcriber
    from regard.task.translate import Translator

Translators = Literal["fr-en", "five-languages", "fr-en-bahdanau", "fr-en-luong", "fr-en-plain", "fr-en-universal"]
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
def load(
    name: str | Path = "fr-en", device: str = "auto", task: str = "", precision: str = "", engine: str = "auto"
) -> Any:
    """Loads a model, ready to use.

    Args:
        name: A shipped model (`regard models` lists them), or the path of a model folder or a run.
        device: "auto", "cpu", "cuda" or "cuda:1".
        task: What the model must be for, such as "translate". A model for anything else is refused, and type checkers
            know what is returned.
        precision: Packs the weights for use only: "float32", "bfloat16", "int8" (on the CPU) or "auto", the fastest of
            these on the device. By default the model stays as it was trained.
        engine: "torch", "ctranslate2" (translators on a CPU, without torch) or "auto", the faster one that can run the
            model. What looks inside a model (`inspect`, `capture`) loads torch by itself.

    Returns:
        A `Translator`, `Classifier`, `Generator`, ...: an object whose method has the name of its task.
    """
    return load_with(name, device, task, precision, engine)
