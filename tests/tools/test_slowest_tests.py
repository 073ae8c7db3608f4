"""The table of slow tests comes from what pytest writes; and every test that docs/test-all.md names exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import slowest_tests
from tools.slowest_tests import BEGIN, END, PAGE, ROOT, read, table, with_table


def test_the_slowest_come_first(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room/test_a.py").write_text(
        "import time, pytest\n"
        "def test_quick(): pass\n"
        "@pytest.mark.parametrize('x', ['a|b'])\ndef test_slow(x): time.sleep(0.2)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=run.xml", "--rootdir=."]
    subprocess.run([*command, "-c", "/dev/null", "--import-mode=importlib", "room"], cwd=tmp_path, check=True)
    slow, quick = read([tmp_path / "run.xml"])
    assert slow.name == "room/test_a.py::test_slow[a|b]" and 0.2 <= slow.seconds < 20
    assert quick.name == "room/test_a.py::test_quick" and quick.seconds < slow.seconds
    lines = table([slow, quick], 1).splitlines()
    assert (
        lines[0].startswith("2 tests took ")
        and lines[-1] == f"| {slow.seconds:.1f} | `room/test_a.py::test_slow[a\\|b]` |"
    )
    assert len(lines) == 5


def test_the_table_goes_between_its_marks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert with_table(f"a\n{BEGIN}\nold\n{END}\nb\n", "new") == f"a\n{BEGIN}\nnew\n{END}\nb\n"
    with pytest.raises(SystemExit, match="has no"):
        with_table("a", "new")
    (tmp_path / "page.md").write_text(f"{BEGIN}{END}")
    (tmp_path / "run.xml").write_text(
        '<testsuites><testcase classname="tests.a" name="test_b" time="1.25"/></testsuites>'
    )
    monkeypatch.setattr(slowest_tests, "PAGE", tmp_path / "page.md")
    slowest_tests.main([str(tmp_path / "run.xml")])
    assert "| 1.2 | `tests/a.py::test_b` |" in (tmp_path / "page.md").read_text()


def test_every_test_on_the_page_exists() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", page)
    assert len(named) > 15
    for file, test in named:
        assert (ROOT / file).is_file(), file
        assert not test or f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"
