"""Torch's threads sleep while they wait, unless the user decided otherwise (docs/speed.md, Threads on a CPU)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from regard.child_process import child_environment, python_command

SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
SHOW = f"import os; print([os.environ.get(name) for name in {SETTINGS}])"


def run(code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a child whose environment has these of the settings and no other."""
    environment = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment | settings, capture_output=True, text=True, check=True)


def test_regard_sets_the_policy_on_import() -> None:
    assert run(SHOW).stdout.strip() == "[None, None, None]"
    assert run(f"import regard; {SHOW}").stdout.strip() == "['PASSIVE', None, None]"


@pytest.mark.parametrize(
    "name, value", [("OMP_WAIT_POLICY", "ACTIVE"), ("GOMP_SPINCOUNT", "7"), ("KMP_BLOCKTIME", "1")]
)
def test_a_users_setting_wins(name: str, value: str) -> None:
    expected = [value if each == name else None for each in SETTINGS]
    assert run(f"import regard; {SHOW}", **{name: value}).stdout.strip() == str(expected)


def test_children_inherit_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    done = subprocess.run(
        python_command("-c", SHOW), env=child_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['PASSIVE', None, None]"


@pytest.mark.skipif(sys.platform != "linux", reason="libgomp prints its settings; other runtimes do so differently")
@pytest.mark.parametrize("settings, policy", [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_torch_obeys_it(settings: dict[str, str], policy: str) -> None:
    """OpenMP prints what it has read. Every way in imports torch after `regard`."""
    shown = run("import regard.device", OMP_DISPLAY_ENV="TRUE", **settings).stderr
    assert f"OMP_WAIT_POLICY = '{policy}'" in shown
