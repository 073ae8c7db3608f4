"""AVX-512 is chosen where the CPU has all of it, and a choice of the user's stays."""

import os
from pathlib import Path

import pytest

from regard.engines.ctranslate2.instruction_set import NEEDED, SETTING, use_avx512_where_it_helps


@pytest.fixture
def cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(SETTING, raising=False)

    def described(flags: set[str]) -> Path:
        path = tmp_path / "cpuinfo"
        path.write_text(f"processor\t: 0\nflags\t\t: fpu {' '.join(sorted(flags))}\n\nprocessor\t: 1\n")
        return path

    return described


def setting() -> str | None:
    return os.environ.get(SETTING)


def test_a_cpu_with_vnni_uses_avx512(cpu):
    use_avx512_where_it_helps(cpu(NEEDED | {"avx2"}))
    assert setting() == "AVX512"


@pytest.mark.parametrize("missing", sorted(NEEDED))
def test_a_cpu_that_lacks_a_part_of_it_is_left_to_ctranslate2(cpu, missing):
    use_avx512_where_it_helps(cpu(NEEDED - {missing}))
    assert setting() is None


def test_a_setting_of_the_user_stays(cpu, monkeypatch):
    monkeypatch.setenv(SETTING, "AVX2")
    use_avx512_where_it_helps(cpu(NEEDED))
    assert setting() == "AVX2"


def test_a_system_that_does_not_describe_its_cpu(tmp_path, monkeypatch):
    monkeypatch.delenv(SETTING, raising=False)
    use_avx512_where_it_helps(tmp_path / "missing")
    assert setting() is None
