"""The package as a whole: what it must never contain (S1), what importing it must never do (S20), and its wheel."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

import regard
from regard.assemble import build_model, resolve_model
from regard.config import recipe_from_toml, shipped_recipes
from regard.errors import UserError
from regard.pretrained import shipped_models
from tests.test_typing import SETTINGS

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "regard").rglob("*.py"))


# S1: nothing that runs what it reads


MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "joblib",
    "marshal",
    "shelve",
    "yaml",
    "code",
    "codeop",
}
CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "torch.load",
    "torch.jit.load",
    "np.load",
    "numpy.load",
    "os.system",
    "os.popen",
}
IMPORTERS = {"regard/__init__.py", "regard/registry.py", "regard/lab/_source.py"}
"""The files that import by name: the public names, the listing of a family folder, the code an experiment points to."""
RUNS_ITS_ARGUMENT = "regard/child_process.py"
"""Does what `python -c` does, with code that its parent process wrote."""


LOADS_TENSORS_ALONE = "regard/interchange/read/pytorch_bin.py"
"""Reads other people's pytorch_model.bin at import, with weights_only=True and in a process of its own."""


def offences(source: str, name: str = "") -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [f"imports {module}" for module in names if module.split(".")[0] in MODULES]
            if isinstance(node, ast.ImportFrom) and node.module in ("torch", "numpy", "os"):
                found += [f"imports {a.name}" for a in node.names if f"{node.module}.{a.name}" in CALLS]
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called == "exec" and name == RUNS_ITS_ARGUMENT:
                continue
            if called == "torch.load" and name == LOADS_TENSORS_ALONE:
                stated = {k.arg: ast.unparse(k.value) for k in node.keywords}
                found += [] if stated.get("weights_only") == "True" else ["loads more than tensors"]
                continue
            if called in CALLS or called.endswith(("import_module", "resolve_name")) and name not in IMPORTERS:
                found.append(f"calls {called}")
            found += [
                f"passes {k.arg}"
                for k in node.keywords
                if k.arg in ("allow_pickle", "shell", "weights_only", "trust_remote_code")
            ]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_that_could_run_what_it_reads(path: Path):
    assert offences(path.read_text(), path.relative_to(ROOT).as_posix()) == []


@pytest.mark.parametrize(
    "bad",
    [
        "import pickle", "from pickle import loads", "import torch\ntorch.load('x')", "from torch import load", "eval('1')",
        "import numpy as np\nnp.load('x')", "open(x, allow_pickle=True)", "import yaml", "importlib.import_module(config['kind'])", "pkgutil.resolve_name(config['kind'])",
        "subprocess.run(x, shell=True)", "def f():\n    import dill",
    ],
)  # fmt: skip
def test_the_check_can_fail(bad: str):
    assert offences(bad)


def test_only_tensors_are_ever_loaded_by_torch():
    good = "torch.load(file, weights_only=True)"
    assert not offences(good, LOADS_TENSORS_ALONE) and offences(good)
    for bad in ("torch.load(file)", "torch.load(file, weights_only=False)", "torch.load(file, weights_only=flag)"):
        assert offences(bad, LOADS_TENSORS_ALONE)


# S2: config is data


@pytest.mark.parametrize(
    "recipe",
    [
        '[model.encoder]\nactivation = "os.system"',
        '[model.encoder]\nkind = "os.system"',
        '[model]\nkind = "../../tmp/evil"',
        '[model]\nencoder = "subprocess.Popen"',
        '[model.decoder.attention]\nkind = "builtins.eval"',
        '[model]\n_target_ = "os.system"',
        '[model]\n"__class__" = "os.system"',
        '[model.encoder]\nposition = {kind = "__init__"}',
        "[model]\nlayers = 100000000000",
        "[model]\nlayers = -1",
        '[model]\nlayers = "3"',
        "[model.encoder]\nlayers = true",
    ],
)
def test_a_recipe_is_never_more_than_data(recipe: str):
    with pytest.raises(UserError):
        build_model(resolve_model(recipe_from_toml(recipe).model), 100)


# S20: importing touches nothing


AUDIT = """
import json, os, pkgutil, sys
seen = []
def watch(event, arguments):
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        seen.append(f"writes {arguments[0]}")
    elif event.startswith("socket.") and event != "socket.gethostname" or event in ("os.mkdir", "os.rename", "os.remove", "subprocess.Popen"):
        seen.append(f"{event} {arguments}")
sys.addaudithook(watch)
import importlib.util, regard
light = sorted({"torch", "numpy", "rich", "typer"} & set(sys.modules))
import regard.cli
dir(regard)
light += sorted({"torch", "numpy", "rich"} & set(sys.modules))
quiet = list(seen)
for module in pkgutil.walk_packages(regard.__path__, "regard."):
    needs_triton = module.name.endswith(("_kernel", "_kernels")) and importlib.util.find_spec("triton") is None
    if module.name != "regard.__main__" and not needs_triton:
        importlib.import_module(module.name)
print(json.dumps({"light": light, "quiet": quiet, "all": [event for event in seen if "regard" in event or "socket" in event]}))
"""


def test_an_import_writes_nothing_and_opens_no_socket(tmp_path: Path):
    places = {"HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR"}
    environment = {
        **os.environ,
        **dict.fromkeys(places, str(tmp_path)),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run([sys.executable, "-c", AUDIT], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"light": [], "quiet": [], "all": []}
    assert list(tmp_path.iterdir()) == []


# The public names


def test_public_names_are_there_and_others_are_not():
    assert {"load", "train", "evaluate", "capture", "__version__"} <= set(dir(regard))
    for name in regard.__all__:
        assert getattr(regard, name)
    with pytest.raises(AttributeError, match="no attribute 'lood'"):
        regard.lood  # noqa: B018


def test_python_m_regard():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "regard", "--version"], env=environment, capture_output=True, text=True
    )
    assert done.stdout == f"regard {regard.__version__}\n"


# What it is installed from


def test_constraints_are_exact_pins_and_cover_what_is_required():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {re.split("==", line)[0].lower().replace("_", "-") for line in lines}
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line) for line in lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *project["optional-dependencies"]["docs"],
        *project["optional-dependencies"]["test"],
        *project["optional-dependencies"]["dev"],
    ]
    names = {re.match(r"[A-Za-z0-9-]+", requirement)[0].lower() for requirement in wanted}
    assert names - {"regard", "setuptools"} <= pins


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """An empty environment with our wheel in it; what we depend on is lent by this one, not downloaded."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "constraints.txt"):
        shutil.copy(ROOT / name, source)
    for name in ("regard", "recipes"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", place, source)
    run(sys.executable, "-m", "venv", "--without-pip", place / "venv")
    python = next(path for path in (place / "venv/bin/python", place / "venv/Scripts/python.exe") if path.exists())
    (wheel,) = place.glob("*.whl")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    # A path file adds the folder but does not read the path files in it: an editable install stays out of sight.
    Path(packages, "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def run(*words: str | Path, **options) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(list(map(str, words)), env=environment, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_installs_into_an_empty_environment(installed: Path, tmp_path: Path):
    place = run(installed, "-c", "import regard; print(regard.__file__)", cwd=tmp_path)
    assert Path(place).is_relative_to(installed.parents[1])
    assert run(installed.with_name("regard"), "--version", cwd=tmp_path) == f"regard {regard.__version__}\n"


def test_the_wheel_carries_every_file_the_recipes_and_the_models(installed: Path, tmp_path: Path):
    code = "import json, pathlib, regard; root = pathlib.Path(regard.__file__).parent; print(json.dumps(sorted("
    code += "p.relative_to(root).as_posix() for p in root.rglob('*') if p.is_file() and '__pycache__' not in p.parts)))"
    carried = set(json.loads(run(installed, "-c", code, cwd=tmp_path)))
    here = (ROOT / "regard").rglob("*")
    wanted = {p.relative_to(ROOT / "regard").as_posix() for p in here if p.is_file() and "__pycache__" not in p.parts}
    assert carried == wanted | {f"recipes/{path.name}" for path in (ROOT / "recipes").iterdir()}


def test_the_installed_package_finds_its_recipes_and_translates(installed: Path, tmp_path: Path):
    code = "from regard.config import *; print([read_recipe(name) and name for name in shipped_recipes()])"
    assert run(installed, "-c", code, cwd=tmp_path) == f"{list(shipped_recipes())}\n"
    assert run(installed.with_name("regard"), "translate", "Bonjour.", cwd=tmp_path).strip()
    listed = run(installed.with_name("regard"), "models", cwd=tmp_path).splitlines()[1:]
    assert [line.split()[0] for line in listed] == list(shipped_models())


USER_CODE = """
from typing import assert_type

import regard
from regard.task.translate import Translation

assert_type(regard.load("fr-en").translate("oui"), Translation)
regard.load("fr-en").translate("oui").txt  # type: ignore[attr-defined]
regard.lood("fr-en")  # type: ignore[attr-defined]
regard.train(tinny=True)  # type: ignore[call-arg]
"""


def test_a_type_checker_knows_the_api_in_a_users_own_project(installed: Path, tmp_path: Path):
    """The wheel carries py.typed and the stub; an ignore that is not needed is an error, so each mistake must be found."""
    pytest.importorskip("mypy")
    (tmp_path / "mine.py").write_text(USER_CODE)
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    words = ("-m", "mypy", "--python-executable", installed, "--strict", "mine.py")
    assert run(sys.executable, *words, cwd=tmp_path) == "Success: no issues found in 1 source file\n"


def test_every_dependency_is_listed_with_its_licence():
    listed = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in project["dependencies"]:
        assert re.search(rf"\b{re.match(r'[a-z0-9-]+', requirement)[0]}\b", listed)


def test_what_is_installed_here_is_locked_by_version_and_hash():
    """`make run` installs run.txt and torch, `make test` also dev.txt; `make lock` writes both from constraints.txt."""
    locked = {}
    for name in ("run", "dev"):
        text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
        entries = re.findall(
            r"^([\w.-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE
        )
        assert text == text.splitlines(keepends=True)[0] + "".join(f"{n}=={v} \\\n{hashes}" for n, v, hashes in entries)
        locked[name] = {_canonical(package): version for package, version, _ in entries}
    pins = (line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split())
    pinned = {_canonical(package): version for package, version in pins}
    assert locked["run"] | locked["dev"] | {"torch": pinned["torch"]} == pinned
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {_canonical(re.match(r"[\w.-]+", requirement)[0]) for requirement in project["dependencies"]}
    assert needed <= locked["run"].keys() | {"torch"}


def _canonical(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()
