"""docs/serving.md with a server behind it: its Python blocks and its curl commands are run as they stand there.

Only the port is another one. A command's output is compared where the page shows it, and must not be an error elsewhere.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.test_snippets import FENCE, ROOT, run
from serving.running import Running, environment, running_server

PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:5000"
NEEDS_MORE = ("Authorization", "@")
"""Commands with these need a key, or a file and a model for it."""


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running_server("--workers", "1", "--device", "cpu") as url:
        yield url


def test_python(server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    assert PAGE.count("```python") >= 4
    run(PAGE.replace(ADDRESS, server), "serving.md")


def commands() -> list[tuple[str, str]]:
    """Each curl of the console blocks, and what the page says it prints."""
    found = []
    for block in FENCE.finditer(PAGE):
        if block["language"] == "console":
            for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block["body"], re.M):
                if command.startswith("curl ") and not any(word in command for word in NEEDS_MORE):
                    found.append((command, output))
    return found


@pytest.mark.parametrize(("command", "output"), commands())
def test_curl(command: str, output: str, server: Running) -> None:
    if not shutil.which("curl"):
        pytest.skip("curl is not on this machine")
    done = subprocess.run(
        command.replace(ADDRESS, server), shell=True, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    tree = json.loads(done.stdout)
    assert "error" not in tree
    assert not output or done.stdout.strip() == output.strip()


def test_there_are_commands_to_run() -> None:
    assert len(commands()) >= 5


def test_every_option_on_the_page_exists() -> None:
    from typer.main import get_command

    from regard.cli import app

    known = {
        name for command in get_command(app).commands.values() for option in command.params for name in option.opts
    }
    blocks = [line for block in FENCE.finditer(PAGE) for line in block["body"].splitlines() if "regard" in line]
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", "\n".join([FENCE.sub("", PAGE), *blocks])))
    assert named and not named - known - {"--help"}
