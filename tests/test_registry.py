"""Kinds are files: listings without imports, unknown names refused, kinds of other packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard.errors import UserError
from regard.registry import ROOT, build, create, factory, keywords, kinds

FAMILIES = [
    "stem",
    "encoder",
    "decoder",
    "model",
    "layers/attention",
    "layers/position",
    "layers/relative_position",
    "data/tokenizer",
    "training/schedule",
]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_listing_is_the_folder(family: str):
    files = {path.stem for path in (ROOT / family).glob("[!_]*.py")}
    assert files and set(kinds(family)) >= files


@pytest.mark.parametrize(("family", "kind"), [(f, k) for f in FAMILIES for k in kinds(f)])
def test_every_kind_is_a_factory_with_plain_keywords(family: str, kind: str):
    maker = factory(family, kind)
    assert callable(maker)
    variable = [p.name for p in keywords(maker).values() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    assert not variable, "the signature is the schema, so it must spell its keywords out"


def test_a_listing_imports_nothing_heavy():
    code = "import sys; from regard.registry import kinds; kinds('encoder'); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


@pytest.mark.parametrize(
    "kind",
    ["transformr", "../model/seq2seq", "os.system", "os", "_base", "__init__", "", ".", "/etc/passwd", "transformer\0"],
)
def test_a_name_that_is_not_listed_is_refused(kind: str):
    with pytest.raises(UserError, match="model.encoder.kind: no kind"):
        factory("encoder", kind, "model.encoder.kind")


def test_the_nearest_name_is_offered():
    with pytest.raises(UserError, match="did you mean 'transformer'"):
        factory("encoder", "transformr")


def test_an_unknown_keyword_is_refused_with_the_nearest():
    with pytest.raises(UserError, match=r"training\.schedule: .* takes no 'warmups'; did you mean 'warmup'\?"):
        create("training/schedule", "constant", "training.schedule", learning_rate=1.0, warmups=3, steps=3)


def test_build_takes_a_name_or_a_table_and_fills_in_what_is_offered():
    offered = {"learning_rate": 0.5, "warmup": 0, "steps": 9, "of_no_use": 1}
    assert build("training/schedule", "constant", **offered)(5) == 0.5
    assert build("training/schedule", {"kind": "constant"}, **offered)(5) == 0.5


def with_package(tmp_path: Path, points: str, code: str) -> subprocess.CompletedProcess[str]:
    """Runs code where a package with these entry points is installed."""
    (tmp_path / "elsewhere.py").write_text("__all__ = ['make']\ndef make(width: int = 3):\n    return width + 1\n")
    info = tmp_path / "elsewhere-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n")
    (info / "entry_points.txt").write_text(points)
    path = os.pathsep.join([str(tmp_path), str(Path(regard.__file__).parent.parent)])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


def test_another_package_adds_a_kind_by_entry_point(tmp_path: Path):
    code = "from regard.registry import *; print('odd' in kinds('layers/attention'), create('layers/attention', 'odd', width=4))"
    done = with_package(tmp_path, "[regard.layers.attention]\nodd = elsewhere\n", code)
    assert done.stdout == "True 5\n", done.stderr


def test_another_package_cannot_replace_a_built_in_kind(tmp_path: Path):
    points = "[regard.layers.attention]\nadditive = elsewhere\nodd = elsewhere\n"
    code = "from regard.registry import *; print(factory('layers/attention', 'additive').__module__, kinds('layers/attention'))"
    done = with_package(tmp_path, points, code)
    assert done.stdout.startswith("regard.layers.attention.additive ") and "'odd'" in done.stdout
    told = "the package 'elsewhere' registers layers/attention/additive, which is built in; its version is ignored"
    assert done.stderr.count(told) == 1


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "learned", "width": 3}, "m.p: Learned takes no 'width'"),
        ({"kind": "learned", "family": 3}, "m.p: Learned takes no 'family'"),
        ({"kind": "learned", "length": "x"}, "m.p.length: wants a whole number from 1 to 1,048,576, given 'x'"),
        ({"kind": "learned", "length": 10**9}, "m.p.length: wants a whole number from 1 to 1,048,576"),
        ({"kind": ["learned"]}, "m.p.kind: wants a name"),
    ],
)
def test_what_a_recipe_says_of_a_part_is_checked_before_it_is_made(spec, message):
    with pytest.raises(UserError, match=re.escape(message)):
        build("layers/position", spec, "m.p", width=8)
