"""R24: what CTranslate2 cannot run is torch's, with its answer or its error; and torch is imported for nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from engines.conftest import LINES as ALL
from engines.conftest import ROOT, environment, refusal

import regard
from regard import engines
from regard.assemble import build_model, resolve_model
from regard.config import Recipe
from regard.data import tokenizer as tokenizers
from regard.engines.ctranslate2 import conversion
from regard.errors import UserError
from regard.loading import load, model_files
from regard.storage import read_folder, write_folder

LINES = ALL[:2]
SHAPE = {"width": 32, "heads": 4, "layers": 1, "feed_forward": 64, "dropout": 0.0}


def texts(model: Any, lines: list[str] = LINES) -> list[str]:
    return [one.text for one in model.translate(lines, beam=1, max_length=12)]


def loaded(place: Path, engine: str) -> tuple[Any, list[str]]:
    notes: list[str] = []
    return engines.load_with(place, "cpu", engine=engine, note=notes.append), notes


def another_kind(folder: Path, place: Path, **tree: Any) -> Path:
    """A model with parts of other kinds, and the tokenizer of this one."""
    origin = read_folder(folder)
    tokenizer = tokenizers.from_files({name: origin.read(name) for name in origin.names if "tokenizer" in name})
    shape = resolve_model({**SHAPE, **tree})
    torch.manual_seed(5)
    weights = {name: 2 * weight.detach() for name, weight in build_model(shape, len(tokenizer)).named_parameters()}
    write_folder(place, model_files(Recipe(model=shape), tokenizer, weights, "float32"))
    return place


# -------------------------------------------------------------------------------- kinds that CTranslate2 has not


@pytest.mark.parametrize(
    "tree, why",
    [
        ({"activation": "elu"}, "no activation elu"),
        ({"encoder": "recurrent"}, "encoder is of the kind recurrent"),
        ({"encoder": "universal", "decoder": "universal", "stem": {"position": "none"}}, "of the kind universal"),
        ({"decoder": "attentional"}, "decoder is of the kind attentional"),
        ({"decoder": {"attention": "additive"}}, "attention; this model's is additive"),
    ],
)
def test_models_of_other_kinds(tree, why, folder, tmp_path):
    place = another_kind(folder, tmp_path / "model", **tree)
    model, (note,) = loaded(place, "auto")
    assert model.engine == "torch" and texts(model) == texts(load(place, "cpu"))
    assert note.startswith("engine torch: CTranslate2 ") and why in note and "\n" not in note
    assert why in refusal(lambda: loaded(place, "ctranslate2"))


def test_a_source_longer_than_the_learned_positions_is_split(folder, tmp_path):
    place = another_kind(folder, tmp_path / "model", position={"kind": "learned", "length": 6})
    model, _ = loaded(place, "auto")
    said: list[str] = []
    long = " ".join(LINES)
    found = model.translate(long, beam=1, warn=said.append)
    assert model.engine == "ctranslate2" and found.text
    assert said[0].startswith("text 1 is longer than the model's 5 tokens and was split into")
    assert found.text == load(place, "cpu").translate(long, beam=1).text


def test_an_output_that_fills_the_learned_positions_is_aligned(folder, tmp_path):
    """Its scores and its alignment are computed by a forced pass, in which BEGIN takes a position."""
    place = another_kind(folder, tmp_path / "model", position={"kind": "learned", "length": 6})
    options: dict[str, Any] = {"beam": 1, "alignment": True}
    found, wanted = (loaded(place, engine)[0].translate("est", **options) for engine in ("auto", "torch"))
    assert len(found.tokens) == 5 and not found.finished
    assert found.tokens == wanted.tokens and found.attention == pytest.approx(wanted.attention, abs=1e-3)


# ------------------------------------------------------------------------------- CTranslate2 refuses when it loads


def refuse_two_lines(*arguments: object, **options: object) -> None:
    raise RuntimeError("out of\nluck")


def refuse_without_a_word(*arguments: object, **options: object) -> None:
    raise ValueError


def refuse_as_a_user_error(*arguments: object, **options: object) -> None:
    raise UserError("two tokens of this model are spelled alike")


@pytest.mark.parametrize(
    "fault, why",
    [
        (refuse_two_lines, "(out of luck)"),
        (refuse_without_a_word, "(ValueError)"),
        (refuse_as_a_user_error, "spelled alike"),
    ],
)
@pytest.mark.parametrize("where", ["converting", "loading"])
def test_a_model_that_ctranslate2_refuses(where, fault, why, folder, monkeypatch, run_regard):
    import ctranslate2

    wanted = texts(load(folder, "cpu"))
    module, name = (ctranslate2, "Translator") if where == "loading" else (conversion, "convert")
    monkeypatch.setattr(module, name, fault)
    model, (note,) = loaded(folder, "auto")
    assert model.engine == "torch" and texts(model) == wanted
    assert note.startswith("engine torch: CTranslate2 cannot load this model") and why in note
    assert why in refusal(lambda: loaded(folder, "ctranslate2"))
    translate = ("translate", "-m", folder, "--beam", 1, "--max-length", 12, "--precision", "float32", *LINES)
    assert run_regard(*translate) == ("\n".join(wanted) + "\n", "")
    assert run_regard(*translate, "--verbose") == ("\n".join(wanted) + "\n", f"regard: {note}\n")
    out, err = run_regard(*translate, "--engine", "ctranslate2", code=2)
    assert out == "" and err.count("\n") == 1 and why in err


# --------------------------------------------------------------------------------- CTranslate2 missing or unfit


def installed(version: str | None) -> Callable[[str], str | None]:
    real = metadata.version

    def found(name: str) -> str | None:
        if name != "ctranslate2":
            return real(name)
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    return found


@pytest.mark.parametrize("version", [None, "4.7.1", "3.24.0", "0", "", "unknown"])
def test_a_missing_or_unfit_version(version, folder, monkeypatch, run_regard):
    monkeypatch.setattr(metadata, "version", installed(version))
    monkeypatch.setitem(sys.modules, "ctranslate2", None)  # it must not be imported to find out
    why = "not installed" if version is None else f"ctranslate2 {version} is installed, and 4.8 or newer is needed"
    model, (note,) = loaded(folder, "auto")
    assert model.engine == "torch" and texts(model) == texts(load(folder, "cpu"))
    assert note.startswith("engine torch: ") and why in note
    assert why in refusal(lambda: loaded(folder, "ctranslate2"))
    (line,) = (line for line in run_regard("doctor")[0].split("\n") if line.startswith("engine "))
    assert "torch for Transformers" in line and why in line
    out, err = run_regard("translate", "-m", folder, *LINES)
    assert out.count("\n") == len(LINES) and err == ""
    assert run_regard("translate", "-m", folder, "--verbose", *LINES) == (out, f"regard: {note}\n")


@pytest.mark.parametrize("version", ["4.8", "4.8.0", "4.10rc1", "4.12.0.dev3", "5.0b1", "10.0"])
def test_versions_that_are_new_enough(version, monkeypatch):
    monkeypatch.setattr(metadata, "version", installed(version))
    assert engines.unfit() == ""


class Incomplete:
    """A package without what is needed."""


@pytest.mark.parametrize("module, why", [(None, "cannot be imported"), (Incomplete(), "incomplete")])
def test_an_installation_that_is_broken(module, why, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", module)
    model, (note,) = loaded(folder, "auto")
    assert model.engine == "torch" and why in note
    assert why in refusal(lambda: loaded(folder, "ctranslate2"))


def test_a_package_that_raises_when_imported(folder, tmp_path):
    """In processes of their own, as a user would meet it."""
    (tmp_path / "ctranslate2").mkdir()
    stub = "raise ImportError('libctranslate2.so: cannot open\\nshared object file')"
    (tmp_path / "ctranslate2" / "__init__.py").write_text(stub)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])

    def child(*words: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "regard", *words]
        done = subprocess.run(command, env=environment(PYTHONPATH=path), capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    why = "the package ctranslate2 cannot be imported (libctranslate2.so: cannot open shared object file)"
    how = ["-m", str(folder), "--beam", "1", "--max-length", "12", "--precision", "float32"]
    wanted = "\n".join(texts(load(folder, "cpu"))) + "\n"
    assert child("translate", *how, "--verbose", *LINES) == (0, wanted, f"regard: engine torch: {why}\n")
    code, out, err = child("translate", *how, "--engine", "ctranslate2", *LINES)
    assert (code, out) == (2, "") and err.count("\n") == 1 and why in err
    assert why in child("doctor")[1]


# -------------------------------------------------------------------------------------------------- without torch

COMMAND = """
import sys
sys.argv = ["regard", *sys.argv[1:]]
try:
    import regard.cli
    regard.cli.main()
except SystemExit as ended:
    print("MODULES", *sys.modules)
    sys.exit(ended.code)
"""
LOAD = """
import sys
import regard
model = regard.load(sys.argv[1])
for translation in model.translate(sys.argv[2:], beam=1):
    print(translation.text)
print("MODULES", *sys.modules)
"""


def modules(code: str, *arguments: object) -> tuple[str, set[str]]:
    """What a process writes, and the packages that it has imported by its end."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    out, _, names = done.stdout.rpartition("MODULES ")
    return out, {name.partition(".")[0] for name in names.split()}


@pytest.mark.parametrize("way", ["translate", "load", "evaluate"])
def test_neither_converting_nor_translating_imports_torch(way, folder, tmp_path):
    for name in ("fr.txt", "en.txt"):
        (tmp_path / name).write_text("\n".join(LINES) + "\n")
    run = {
        "translate": (COMMAND, "translate", "--model", folder, *LINES),
        "load": (LOAD, folder, *LINES),
        "evaluate": (COMMAND, "evaluate", folder, tmp_path / "fr.txt", tmp_path / "en.txt"),
    }[way]
    out, converting = modules(*run)
    again, cached = modules(*run)
    assert out == again and out.count("\n") >= len(LINES)
    for names in (converting, cached):
        assert "ctranslate2" in names
        assert not names & {"torch", "transformers", "safetensors"}
    assert "numpy" in converting
    assert way == "evaluate" or "numpy" not in cached  # evaluate's scores need it


def test_torch_is_imported_where_it_is_needed(folder):
    """Else the test above could not fail."""
    _, names = modules(COMMAND, "translate", "--model", folder, "--engine", "torch", *LINES)
    assert "torch" in names
    assert regard.load(folder, device="cpu", engine="torch").engine == "torch"
