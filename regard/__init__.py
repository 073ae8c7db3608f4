"""Regard: sequence models that show where they look.

    regard.load("fr-en").translate("Je suis étudiant.")

load          a model by name or folder, ready to use: `.translate`, `.classify`, `.generate`, ...
translate_document   a translated copy of a document: docx, pptx, html, md, srt, ...
train         train a model from a recipe or from two text files
evaluate      score a model on labelled examples
chain         translators one after the other, through a third language
ensemble      translators whose probabilities are averaged at every step
attribute     which inputs made a model's output likely: source words, words written before, patches
inspect       run a model on one input and keep what it computed, to draw or to read
capture       record the tensors inside any model while it runs
detect_language  which language a text is in, as guesses with probabilities
export        write a model smaller, or for another program
import_model  make a model folder of a model in another program's format
UserError     the exception every user mistake raises: one line that says what to do

The names are imported on first use, so `import regard` is fast. Its only side effect is OMP_WAIT_POLICY (below). Type
checkers and editors read the names from `regard/__init__.pyi`.
"""

import importlib
import os

# Import nothing here that is not loaded already, not even `typing`: __main__.py runs after this file, and until then
# `python -m regard` would import it from the current folder.

# OpenMP reads this once, when torch is loaded. Threads that wait for the next operation then sleep instead of spinning:
# on a busy machine spinning threads take the processor from those that they wait for (docs/speed.md).
if not any(name in os.environ for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")):
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

__version__ = "0.1.0"
__all__ = [
    "UserError", "__version__", "attribute", "capture", "chain", "detect_language", "ensemble", "evaluate", "export",
    "import_model", "inspect", "load", "train", "translate_document",
]  # fmt: skip

_HOMES = {
    "UserError": "regard.errors",
    "attribute": "regard.inspection.attribute",
    "capture": "regard.layers.capture",
    "chain": "regard.chaining",
    "detect_language": "regard.text.language_guesses",
    "ensemble": "regard.ensembling",
    "evaluate": "regard.evaluating",
    "export": "regard.interchange",
    "import_model": "regard.interchange.sources",
    "inspect": "regard.inspection.inspect",
    "load": "regard.engines.loading",
    "train": "regard.runs",
    "translate_document": "regard.documents.translation",
}
"""Public name -> the module that defines it."""


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names only, for tab completion."""
    return sorted(__all__)
