"""`regard translate --precision`: a simple sentence has the same translation in every precision."""

from __future__ import annotations

import pytest

from regard.cli.terminal import Precision
from regard.cli.translate import translate
from regard.layers.fast_linear import int8_is_fast
from regard.loading import load

from .conftest import regard

needs_int8 = pytest.mark.skipif(not int8_is_fast(), reason="this CPU has no AVX-512 VNNI, or this torch no int8 kernel")


TEXTS = ["Je suis étudiant.", "Où est la gare ?"]


@pytest.fixture(scope="module")
def as_trained() -> list[str]:
    found = [translation.text for translation in load("fr-en", device="cpu").translate(TEXTS)]
    assert "student" in found[0] and "station" in found[1]
    return found


@pytest.mark.parametrize("precision", ["auto", "float32", pytest.param("int8", marks=needs_int8)])
def test_a_simple_sentence_comes_out_the_same(precision, as_trained, capfdbinary):
    translate(TEXTS, device="cpu", precision=Precision(precision), quiet=True)
    assert capfdbinary.readouterr().out.decode().splitlines() == as_trained


def test_another_precision_is_refused_in_a_line():
    done = regard("translate", "--precision", "int4", "x", text=True)
    assert done.returncode == 2 and not done.stdout
    for word in ("--precision", "'int4'", "float32", "bfloat16", "int8"):
        assert word in done.stderr
    assert "Traceback" not in done.stderr
