"""Runs before anything of ours is imported: types and shapes are checked at every call; and fixtures for all tests."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import checked
import jaxtyping
import pytest
from hypothesis import settings

jaxtyping.jaxtyped = checked.jaxtyped
hook = jaxtyping.install_import_hook("regard", "checked.checked")

# A busy machine must not fail a test, and the same examples must run for everybody.
settings.register_profile("regard", deadline=None, derandomize=True)
settings.load_profile("regard")

# A shell starts background jobs with SIGINT ignored, and children inherit that: no Ctrl-C test could pass.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Converted models go to a cache of this test run, not to the user's; worker processes inherit it.
if "REGARD_CACHE" not in os.environ:
    os.environ["REGARD_CACHE"] = tempfile.mkdtemp(prefix="regard-cache-")
    atexit.register(shutil.rmtree, os.environ["REGARD_CACHE"], ignore_errors=True)

LONG = ("learns", "lab", "serving", "studio", "training", "docs", "cli", "data")
"""Folders whose files take longest. They run first, so that no process is left with one of them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(here).parts[0]
        return LONG.index(folder) if folder in LONG else len(LONG)

    items.sort(key=place)


@pytest.fixture
def run_regard(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., tuple]:
    """Runs the command line in this process, checks its exit code and returns stdout and stderr."""
    from regard.cli import main

    def run(*words: object, code: int = 0, stdin: str | None = None) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, words)])
        if stdin is not None:
            reading, writing = os.pipe()
            os.write(writing, stdin.encode())
            os.close(writing)
            monkeypatch.setattr(sys, "stdin", os.fdopen(reading))
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = (stream.decode() for stream in capfdbinary.readouterr())
        assert (ended.value.code or 0) == code, err
        return out, err

    return run
