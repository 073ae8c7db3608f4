"""Measures CPU time in a separate process, without the runtime type checks of the tests."""

import json
import subprocess
import sys
from textwrap import dedent

START = """
import json, time
spent = {}
def timed(name, work):
    start = time.process_time()
    work()
    spent[name] = time.process_time() - start
"""


def seconds(code):
    """CPU seconds of each `timed(name, work)` in the code, by name."""
    code = f"{START}{dedent(code)}\nprint(json.dumps(spent))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=500)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)
