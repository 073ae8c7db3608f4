"""R23: many processes share the cache of converted models, and any of them may be killed while it converts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from engines.conftest import LINES, entries, environment

# ---------------------------------------------------------------------------------------------- many processes

WAITS_THEN_TRANSLATES = """
import json, sys
import ctranslate2, numpy
from regard.engines import load_with as load
from regard.engines.ctranslate2 import conversion, loading, translator
made, convert = [], loading.convert_folder
def counted(*arguments, **options):
    made.append(1)
    return convert(*arguments, **options)
loading.convert_folder = counted
print("ready", flush=True)
sys.stdin.readline()
model = load(sys.argv[1], device="cpu", engine="ctranslate2")
print(json.dumps([len(made), [one.text for one in model.translate(sys.argv[2:], beam=1)]]))
"""


@pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.slow)])
def test_many_processes_start_at_once_on_an_empty_cache(count, folder, own_cache, right):
    command = [sys.executable, "-c", WAITS_THEN_TRANSLATES, str(folder), *LINES[:3]]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    started = [subprocess.Popen(command, env=environment(), text=True, **pipes) for _ in range(count)]
    try:
        for process in started:
            assert process.stdout.readline() == "ready\n"
        for process in started:
            process.stdin.write("\n")
            process.stdin.flush()
        found = [process.communicate()[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert [process.returncode for process in started] == [0] * count, found
    counts, texts = zip(*map(json.loads, found))
    assert all(each == right for each in texts)
    assert sum(counts) == 1
    assert len(entries(own_cache)) == 1


# ------------------------------------------------------------------------------------------------------ killed

KILLED_AT_EVERY_MOMENT = """
import json, os, signal, shutil, sys
import ctranslate2, numpy
from pathlib import Path
from regard.engines import load_with as load
from regard.engines.ctranslate2 import conversion, loading, translator

folder, every, right = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
lines = sys.argv[4:]
place = Path(os.environ["REGARD_CACHE"]) / "ctranslate2"
WATCHED = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.utime", "os.listdir", "os.scandir")

def die_at(moment):
    seen = 0
    def hook(event, arguments):
        nonlocal seen
        if event in WATCHED and str(arguments[0]).startswith((folder, str(place))):
            seen += 1
            if seen == moment:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)

def translated(moment):
    "The signal that ended a forked process which translates, or 0."
    child = os.fork()
    if child == 0:
        try:
            die_at(moment)
            model = load(folder, device="cpu", engine="ctranslate2")
            found = [one.text for one in model.translate(lines, beam=1)]
            os._exit(0 if found == right else 3)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(4)
    status = os.waitpid(child, 0)[1]
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WTERMSIG(status)

moment, leftovers = 1, 0
while translated(moment) == signal.SIGKILL:
    found = {path.name for path in place.iterdir()} if place.exists() else set()
    leftovers += any(name.startswith(".") for name in found)
    assert translated(0) == 0
    names = sorted(path.name for path in place.iterdir())
    assert len(names) == 2 and names[1] == "lock", names
    shutil.rmtree(place)
    moment += every
print(json.dumps([moment, leftovers]))
"""


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_process_killed_while_it_converts_leaves_work_for_the_next(every, folder, own_cache, right):
    """Killed before each of its operations on files; the next process answers and cleans up."""
    command = [sys.executable, "-c", KILLED_AT_EVERY_MOMENT, str(folder), str(every), json.dumps(right), *LINES[:3]]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    moments, leftovers = json.loads(done.stdout)
    assert moments > 40 and leftovers > 40 / every  # it was killed in the midst of writing, too
