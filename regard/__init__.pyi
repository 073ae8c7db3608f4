# The public names for type checkers and editors; at run time __init__.py imports them on first use.
# tests/test_public_api.py keeps both in step.

from regard.chaining import chain as chain
from regard.documents.translation import translate_document as translate_document
from regard.engines.loading import load as load
from regard.ensembling import ensemble as ensemble
from regard.errors import UserError as UserError
from regard.evaluating import evaluate as evaluate
from regard.inspection.attribute import attribute as attribute
from regard.inspection.inspect import inspect as inspect
from regard.interchange import export as export
from regard.interchange.sources import import_model as import_model
from regard.layers.capture import capture as capture
from regard.runs import train as train
from regard.text.language_guesses import detect_language as detect_language

__version__: str
__all__ = [
    "UserError", "__version__", "attribute", "capture", "chain", "detect_language", "ensemble", "evaluate", "export",
    "import_model", "inspect", "load", "train", "translate_document",
]  # fmt: skip
