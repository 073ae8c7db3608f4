"""The public names, called from Python."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.inspection import trace as inspection_traces
from regard.inspection.trace.base import Trace
from regard.runs import Run
from tests.task.seers import captioner, classifier, picture, saved

ROOT = Path(__file__).parents[1]
LINES = ["le chat dort", "le chien mange", "la fille lit", "un chat lit", "une fille dort", "le chien dort"] * 4
SMALL = ["model.preset=tiny", "model.width=8", "model.heads=2", "model.layers=1", "tokenizer.kind=word"]
SMALL += ["training.warmup=1", "training.precision=float32", "training.validate_every=2", "training.save_every=2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return regard.train(
        "sentiment-lstm", "data.valid_limit=4", tiny=True, steps=2, device="cpu", out=tmp_path_factory.mktemp("r") / "r", quiet=True
    )  # fmt: skip


def test_only_public_names_are_offered() -> None:
    assert dir(regard) == sorted(regard.__all__)
    assert regard.UserError.__module__ == "regard.errors"
    for name in dir(regard):
        assert getattr(regard, name) is not None


def test_the_stub_names_what_is_imported_on_first_use() -> None:
    """Type checkers read __init__.pyi, Python reads _HOMES: both must say the same."""
    tree = ast.parse((ROOT / "regard" / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.asname == alias.name for node in imports for alias in node.names), "X as X exports X"
    assert {alias.name: node.module for node in imports for alias in node.names} == regard._HOMES
    (listed,) = (node.value for node in tree.body if isinstance(node, ast.Assign))
    assert ast.literal_eval(listed) == regard.__all__


def test_help_shows_every_public_name_with_its_docstring() -> None:
    page = io.StringIO()
    with contextlib.redirect_stdout(page):
        help(regard)
    for name in regard._HOMES:
        first_line = getattr(regard, name).__doc__.partition("\n")[0]
        assert name in regard.__doc__ and first_line in page.getvalue(), name


def test_a_runs_model_is_loaded_once_so_that_it_can_be_watched(run: Run) -> None:
    assert run.model is run.model
    with regard.capture(run.model.model) as seen:
        run.model.classify("a wonderful film")
    assert any("encoder" in name for name in seen)
    assert len(repr(run)) < 1000


def test_train_takes_what_the_command_takes(tmp_path: Path) -> None:
    for name, lines in (("a.fr", LINES), ("a.en", LINES[::-1]), ("b.fr", LINES[:3]), ("b.en", LINES[3:6])):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    first = regard.train(
        None,
        *SMALL,
        source=tmp_path / "a.fr",
        target=str(tmp_path / "a.en"),
        valid_source=tmp_path / "b.fr",
        valid_target=[tmp_path / "b.en"],
        steps=2,
        device="cpu",
        out=tmp_path / "first",
        quiet=True,
    )
    assert first.folder == tmp_path / "first" and "bleu" in first.scores
    recipe = (first.folder / "recipe.toml").read_text()
    assert str(tmp_path / "b.fr") in recipe and "steps = 2" in recipe
    tuned = regard.train(
        source=[tmp_path / "b.fr"], target=[tmp_path / "b.en"], start_from=first.folder, steps=1, device="cpu", out=tmp_path / "tuned", quiet=True
    )  # fmt: skip
    assert tuned.model.recipe.model == first.model.recipe.model
    more = regard.train(None, "training.steps=4", resume=first.folder, quiet=True)
    assert more.folder == first.folder and more.reason == "steps"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resume": "runs/x", "source": "a.fr"}, "resume goes on with a run as it is"),
        ({"resume": "runs/x", "tiny": True}, "resume goes on with a run as it is"),
        ({"resume": True}, "say which run"),
        ({"out": "a", "folder": "b"}, "give out alone"),
        ({"recipe": "no-such-recipe"}, "no-such-recipe"),
        ({"tiny": True}, "tiny"),
        ({"recipe": "sentiment-lstm", "tiny": True, "task": "clasify"}, "did you mean 'classify'"),
    ],
)
def test_train_refuses_in_one_line(options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(regard.UserError, match=message):
        regard.train(quiet=True, **options)
    assert list(tmp_path.iterdir()) == []


def test_export_writes_a_folder_that_can_be_loaded(run: Run, tmp_path: Path) -> None:
    folder = regard.export(run.folder, tmp_path / "small", precision="float32")
    again = regard.load(folder, task="classify", device="cpu")
    assert again.classify("a film").probabilities == pytest.approx(run.model.classify("a film").probabilities, abs=1e-5)
    with pytest.raises(regard.UserError, match="already exists"):
        regard.export(run.folder, folder)
    with pytest.raises(regard.UserError, match="no 'ctranslate'; did you mean 'ctranslate2'"):
        regard.export(run.folder, tmp_path / "other", format="ctranslate")
    with pytest.raises(regard.UserError, match="CTranslate2 runs models that translate"):
        regard.export(run.folder, tmp_path / "other", format="ctranslate2")


def test_evaluate_takes_one_text_or_many_and_counts_before_it_works() -> None:
    translator = regard.load("fr-en-plain", device="cpu")
    scores, outputs = regard.evaluate(translator, ["oui"], ["yes"], max_length=5)
    assert len(outputs) == 1 and scores.bleu >= 0
    translator.translate = None  # type: ignore[method-assign, assignment]
    with pytest.raises(regard.UserError, match="2 sources but 1 references"):
        regard.evaluate(translator, ["oui", "non"], ["yes"])


def looks() -> dict[str, Any]:
    return {
        "translator": lambda: regard.inspect("fr-en-plain", "Je suis étudiant.", device="cpu"),
        "language model": lambda: regard.inspect("shakespeare-lstm", "To be or not to be, that is the question: " * 2, device="cpu"),
        "picture": lambda: classifier().inspect(picture()),
        "caption": lambda: captioner().inspect(picture(16, 16, 3)),
    }  # fmt: skip


@pytest.mark.parametrize("kind", looks())
def test_what_inspect_gives_is_one_short_line(kind: str) -> None:
    shown = repr(looks()[kind]())
    assert len(shown) < 200 and "\n" not in shown and "array(" not in shown


def test_every_kind_of_trace_has_the_short_repr() -> None:
    for module in pkgutil.iter_modules(inspection_traces.__path__, f"{inspection_traces.__name__}."):
        importlib.import_module(module.name)
    kinds, waiting = [], [Trace]
    while waiting:
        kinds.append(waiting.pop())
        waiting += kinds[-1].__subclasses__()
    assert len(kinds) > 4 and all(kind.__repr__ is Trace.__repr__ for kind in kinds)


WRONG_TEXTS = """
import regard
for name in ("fr-en-plain", "shakespeare-lstm"):
    model = regard.load(name, device="cpu")
    for wrong in (5, None, b"oui", ["oui"]):
        for look in (model.inspect, lambda given: regard.inspect(model, given)):
            try:
                look(wrong)
            except regard.UserError as error:
                assert str(error).startswith("this model takes a text (str); not "), error
            else:
                raise AssertionError(wrong)
print("all refused")
"""


def test_inspect_refuses_what_is_no_text(tmp_path: Path) -> None:
    """In a process of its own: here the type checker of the tests would be the first to refuse."""
    done = subprocess.run([sys.executable, "-c", WRONG_TEXTS], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "all refused\n", done.stderr


def test_a_saved_model_named_by_its_path_is_refused_for_another_task(tmp_path: Path) -> None:
    folder = saved(classifier(), tmp_path / "model")
    with pytest.raises(regard.UserError, match="made to classify, not to caption"):
        regard.load(folder, task="caption")
