"""The tests also run as a background job, under nohup and in a CI that ignores SIGINT: children can be interrupted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
INTERRUPTS_A_CHILD = """
import signal, subprocess, sys
assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN, "the shell did not ignore it"
import tests.conftest
child = subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
child.stdout.readline()
child.send_signal(signal.SIGINT)
try:
    print(child.wait(10))
finally:
    child.kill()
"""


def test_children_can_be_interrupted_where_whoever_started_the_tests_ignores_sigint() -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", INTERRUPTS_A_CHILD]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["-2"], done.stderr
