"""No command, nor its children, executes Python files of the current folder, such as a downloaded model's."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard.child_process import child_environment, python_command

ROOT = Path(__file__).parents[1]
PLANTED = ("torch", "json", "regard", "numpy", "typing", "asyncio", "sentencepiece", "sitecustomize", "fastapi")
CODE = """\
import os
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ran.txt"), "a") as file:
    file.write(__name__ + " ")
raise SystemExit(f"{__name__} of the current folder was executed")
"""
INSTALLED = [sys.executable, "-P", "-c", "from regard.cli import main; main()"]
"""As the installed `regard` starts: the script's folder is on the path, the current one is not."""
AS_MODULE = [sys.executable, "-m", "regard"]


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A model folder with Python files in it whose names are those of modules that we import."""
    folder = tmp_path / "hostile"
    _translator(folder)
    for name in PLANTED:
        (folder / f"{name}.py").write_text(CODE)
    return folder


def _translator(folder: Path) -> None:
    from regard.assemble import build_model, resolve_model
    from regard.config import Decoding, Recipe
    from regard.data.tokenizer.word import Word
    from regard.loading import model_files
    from regard.storage import write_folder

    shape = resolve_model({"layers": 1, "width": 16, "feed_forward": 16, "heads": 2})
    recipe = Recipe(
        source_language="fr",
        target_language="en",
        model=shape,
        tokenizer={"kind": "word"},
        decoding=Decoding(beam=1, max_length=3),
    )
    tokenizer = Word.train(["je suis là ."], seed=1)
    weights = dict(build_model(shape, len(tokenizer)).named_parameters())
    write_folder(folder, model_files(recipe, tokenizer, weights, "float32"))


def _environment() -> dict[str, str]:
    unset = ("OMP_NUM_THREADS", "PYTHONSAFEPATH", "PYTHONPATH")
    return {**{key: value for key, value in os.environ.items() if key not in unset}, "PYTHONPATH": str(ROOT)}


@contextmanager
def _started(folder: Path, command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, cwd=folder, env=_environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _serve(folder: Path, start: list[str], command: str) -> None:
    """Until the worker process has loaded the model."""
    options = ["--model", ".", "--port", "0", "--device", "cpu"]
    options += ["--only", "--no-open"] if command == "studio" else ["--workers", "1"]
    with _started(folder, [*start, command, *options]) as process:
        assert process.stderr
        said = []
        for line in process.stderr:
            said.append(line)
            if re.search(r"http://[\d.]+:\d+", line):
                break
        else:
            raise AssertionError("".join(said))
        if command == "studio":  # it says its address before its models are loaded
            _wait_for_worker(process.pid)


def _wait_for_worker(server: int) -> None:
    import psutil

    end = time.monotonic() + 60
    while time.monotonic() < end:
        for child in psutil.Process(server).children():
            if any("torch" in file.path for file in child.memory_maps()):
                return
        time.sleep(0.1)
    raise AssertionError("no worker imported torch")


def _run(folder: Path, start: list[str], *arguments: str, stdin: str = os.devnull) -> None:
    with open(stdin, "rb") as given:
        done = subprocess.run([*start, *arguments], cwd=folder, env=_environment(), stdin=given, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def _translate(folder: Path, start: list[str]) -> None:
    """Enough lines to be shared with a second process, where there is a second core."""
    (folder / "lines.txt").write_text("je suis là .\n" * 320)
    _run(folder, start, "translate", "--model", ".", "--device", "cpu", stdin=str(folder / "lines.txt"))


def _train(folder: Path, start: list[str]) -> None:
    """A corpus so large, for its part size, that a process of its own tokenises it."""
    for name in ("a", "b"):
        (folder / name).write_text("".join(f"{i} je suis là {i * 7919 % 1000} .\n" for i in range(6000)))
    settings = ["data.part=300", "data.window=200", "data.hold_out_valid=10", "data.drop_identical=false"]
    settings += ["tokenizer.size=320", "training.steps=2", "training.batch_tokens=200", "training.average=1"]
    settings += ["model.width=16", "model.heads=2", "model.layers=1", "model.feed_forward=16"]
    _run(folder, start, "train", "--source", "a", "--target", "b", "--output", "run", "--device", "cpu", *settings)


def _bench(folder: Path, start: list[str]) -> None:
    _run(folder, start, "bench", "cold-start", "--quick", "--device", "cpu")


COMMANDS: dict[str, Callable[[Path, list[str]], None]] = {
    "serve": lambda folder, start: _serve(folder, start, "serve"),
    "studio": lambda folder, start: _serve(folder, start, "studio"),
    "translate": _translate,
    "train": _train,
    "bench": _bench,
}


@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=[pytest.mark.slow] * (name == "bench")) for name in COMMANDS]
)
def test_commands_with_children_do_not_import_from_the_current_folder(hostile: Path, command: str) -> None:
    COMMANDS[command](hostile, INSTALLED)
    assert not (hostile / "ran.txt").exists(), (hostile / "ran.txt").read_text()


@pytest.mark.parametrize("command", ["serve", "translate"])
def test_nor_when_started_as_a_module(hostile: Path, command: str) -> None:
    """Python itself looks for `regard` in the current folder then; nothing else is taken from there."""
    (hostile / "regard.py").unlink()
    COMMANDS[command](hostile, AS_MODULE)
    assert not (hostile / "ran.txt").exists(), (hostile / "ran.txt").read_text()


@pytest.mark.slow
def test_nor_do_trainings_of_an_experiment(hostile: Path) -> None:
    options = ["--size", "tiny", "--jobs", "2", "--device", "cpu"]
    _run(hostile, INSTALLED, "lab", "length", *options)
    assert not (hostile / "ran.txt").exists(), (hostile / "ran.txt").read_text()


def test_the_planted_files_would_run(hostile: Path) -> None:
    """The control: this is what a child started without care does."""
    subprocess.run(
        [sys.executable, "-m", "json.tool"],
        cwd=hostile,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert "json" in (hostile / "ran.txt").read_text()


def test_a_child_and_its_own_children_are_safe(hostile: Path) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import json'], check=True); import json"
    subprocess.run(python_command("-c", code), cwd=hostile, env=child_environment(), check=True)
    assert not (hostile / "ran.txt").exists()


def _starts_python(tree: ast.AST) -> bool:
    return any(isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable" for node in ast.walk(tree))


def test_only_one_file_starts_python() -> None:
    """A new child that is started in another way fails here. (doctor only prints the interpreter's path.)"""
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "regard").rglob("*.py")
        if _starts_python(ast.parse(path.read_text()))
    }
    assert found == {"regard/child_process.py", "regard/cli/doctor.py"}
