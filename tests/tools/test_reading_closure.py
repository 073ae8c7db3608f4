"""What one reads to follow the core stays small; and the script counts what it says it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import reading_closure
from tools.reading_closure import CLOSURES, Closure, counted


@pytest.mark.parametrize("name", CLOSURES)
def test_it_stays_within_its_limit(name: str) -> None:
    lines = counted(CLOSURES[name])
    assert sum(lines.values()) <= CLOSURES[name].limit, lines


def test_the_transformer_is_read_with_its_attention_and_its_types() -> None:
    lines = counted(CLOSURES["the Transformer's forward pass"])
    assert {"regard.layers.attention.multi_head", "regard.layers.feed_forward", "regard.types"} <= set(lines)
    assert not any(name.startswith(("regard.training", "regard.data", "regard.task")) for name in lines)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_closure, "ROOT", tmp_path)
    files = {
        "__init__.py": "",
        "a.py": "import torch\nfrom regard import b\nfrom regard.room.c import thing\n",
        "b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import regard.d\n",
        "room/__init__.py": "from .c import thing\n",
        "room/c.py": "try:\n    from .. import e\nexcept ImportError:\n    e = None\n\n\ndef thing():\n    from regard import d\n",
        "d.py": "x = 1\n",
        "e.py": "import regard.a\nimport regard.room\n",
    }
    for name, text in files.items():
        path = tmp_path / "regard" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_imports_of_ours_are_followed_at_module_level(package: None) -> None:
    lines = counted(Closure(("regard.a",), 0))
    assert lines == {"regard.a": 3, "regard.b": 3, "regard.e": 2, "regard.room": 1, "regard.room.c": 8}
    assert "regard.d" in counted(Closure(("regard.a",), 0), everywhere=True)


def test_what_is_left_out_and_what_lies_below(package: None) -> None:
    assert set(counted(Closure(("regard.a",), 0, without=("regard.room.c",)))) == {"regard.a", "regard.b"}
    assert set(counted(Closure(("regard.a",), 0, beyond=("regard.room.c",)))) == set()
    assert set(counted(Closure(("regard.a",), 0, beyond=("regard.b",)))) == {
        "regard.a", "regard.e", "regard.room", "regard.room.c"
    }  # fmt: skip


def test_a_module_that_is_gone_is_an_error(package: None) -> None:
    for closure in (Closure(("regard.x",), 0), Closure(("regard.a",), 0, without=("regard.x",))):
        with pytest.raises(SystemExit, match="there is no module regard.x"):
            counted(closure)
