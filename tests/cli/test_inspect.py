"""`regard inspect`: every form of file, and one line for every mistake."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from .conftest import regard

BEGINNINGS = {"html": b"<!doctype html>", "svg": b"<svg ", "png": b"\x89PNG", "json": b"{"}


@pytest.mark.parametrize("ending", BEGINNINGS)
def test_every_form(model, tmp_path, ending) -> None:
    file = tmp_path / f"seen.{ending}"
    done = regard("inspect", model, "je suis étudiant.", "-o", str(file))
    assert done.returncode == 0, done.stderr
    assert file.read_bytes().startswith(BEGINNINGS[ending]) and done.stdout == b""
    assert done.stderr.startswith(b"regard: ") and done.stderr.count(b"\n") == 1
    if ending == "svg":
        ElementTree.fromstring(file.read_bytes())
    if ending == "json":
        tree = json.loads(file.read_bytes())
        assert tree["source"]["text"] == "je suis étudiant." and len(tree["attention"]) == 3 and tree["search"]


def test_mistakes_are_one_line(model, tmp_path) -> None:
    out = str(tmp_path / "x.svg")
    for arguments, said in [
        ((model, "oui", "-o", str(tmp_path / "x.gif")), b".html, .svg, .png, .json"),
        ((model, "", "-o", out), b"nothing to inspect"),
        ((model, "oui", "-o", out, "--view", "gates"), b"no gates"),
        ((model, "oui", "-o", out, "--view", "heads", "--head", "7"), b"heads 0 to 1"),
        ((str(tmp_path), "oui", "-o", out), b"no model"),
    ]:
        done = regard("inspect", *arguments)
        assert done.returncode == 2 and said in done.stderr and done.stderr.count(b"\n") == 1, done.stderr
    assert not list(tmp_path.iterdir())
