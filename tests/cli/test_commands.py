"""All commands: help without delay, mistakes in one line, the right exit code."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from regard import __version__
from regard.cli.doctor import doctor
from regard.cli.terminal import as_json, escape_control_characters, one_line, shown
from regard.cli.train import recipe_and_overrides
from regard.errors import UserError

from .conftest import environment, imported, regard


def test_help_comes_at_once_and_without_torch():
    out, modules = imported("--help")
    assert not {"torch", "numpy", "rich", "sacrebleu"} & modules
    for name in ("translate", "train", "evaluate", "serve", "models", "doctor"):
        assert f"  {name} " in out


def test_help_takes_less_than_a_third_of_a_second():
    regard("--help")  # compiles

    def seconds() -> float:
        """Processor time: what it takes on a machine that has nothing else to do."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    times = []
    for _ in range(5):
        begin = seconds()
        assert regard("--help").returncode == 0
        times.append(seconds() - begin)
    assert min(times) < 0.3


def test_version():
    assert regard("--version", text=True).stdout == f"regard {__version__}\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("regard tr", "track transcribe translate train"),
        ("regard translate --be", "--beam --beam-groups"),
        ("regard train sst2-l", "sst2-lstm"),
        ("regard train fr-en training.lea", "training.learning_rate="),
        ("regard train fr-en training.schedule=co", "constant cosine"),
        ("regard train fr-en model.encoder.cell=", "gru lstm rnn"),
        ("regard train fr-en training.steps=", ""),
    ],
)
def test_bash_completes_commands_options_recipes_and_settings(line, offered, tmp_path):
    """As bash calls the function: it replaces what follows the last `=`, so only that may come back."""
    named = environment(_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")  # whichever shell runs the tests
    show = [sys.executable, "-m", "regard", "--show-completion", "bash"]
    script = subprocess.run(show, env=named, capture_output=True, text=True).stdout
    asks = (
        f'COMP_LINE="{line}" COMP_POINT={len(line)}; _regard_completion "{tmp_path}/regard"; echo "${{COMPREPLY[*]}}"'
    )
    program = tmp_path / "regard"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -m regard\n")
    program.chmod(0o755)
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{asks}"], env=environment(), capture_output=True, text=True
    )
    assert done.stdout.split() == offered.split(), done.stderr


def test_models_and_doctor():
    assert regard("models").returncode == 0
    told = regard("doctor", text=True).stdout
    for word in (f"regard        {__version__}", "python", "torch", "sentencepiece", "ctranslate2", "cpu", "threads"):
        assert word in told


def test_doctor_says_of_a_missing_package_whether_it_is_needed(monkeypatch, capsys):
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    doctor()
    told = capsys.readouterr().out.splitlines()
    assert "sacremoses    not installed (optional)" in told and "sentencepiece not installed" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "--model", "fr-em", "x"], "no model 'fr-em'"),
        (["translate", "--model", "MODEL", "--device", "cdua", "x"], "device 'cdua' is not known"),
        (["translate", "--model", "MODEL", "--beam", "0", "x"], "--beam: wants a whole number from 1 to 1,000, given 0"),
        (["train"], "nothing to train on; give a recipe, or --source FILE and --target FILE"),
        (["train", "fr-em"], "no recipe 'fr-em'"),
        (["train", "--source", "a.fr", "--target", "a.en", "training.step=3"], "training: no key 'step'; did you mean 'steps'?"),
        (["train", "--source", "a.fr", "--target", "a.en", "--task", "sing"], "sing"),
        (["train", "--source", "no.fr", "--target", "no.en", "--output", "run"], "no.fr does not exist"),
        (["train", "a.toml", "b.toml"], "one recipe at a time, not a.toml and b.toml"),
        (["train", "--resume", "nowhere"], "nowhere: no run to resume"),
        (["train", "--resume", "run", "--source", "x"], "--resume goes on with a run as it is"),
        (["evaluate", "MODEL", "--source", "no\x1b[2J.fr", "--target", "no.en"], "no\\x1b[2J.fr does not exist"),
    ],
    ids=lambda value: " ".join(value).replace("\x1b", "ESC") if isinstance(value, list) else "",
)  # fmt: skip
def test_a_mistake_is_one_line_and_exit_code_two(arguments, message, model, tmp_path, monkeypatch, run_regard):
    monkeypatch.chdir(tmp_path)
    out, err = run_regard(*(model if word == "MODEL" else word for word in arguments), code=2)
    assert out == "" and err.startswith("regard: ") and message in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir()), "nothing half-written"


def test_a_mistake_has_its_exit_code_outside_too():
    done = regard("train", "fr-em", text=True)
    assert done.returncode == 2 and done.stderr.startswith("regard: no recipe 'fr-em'")


def test_a_wrong_option_is_explained():
    done = regard("translate", "--beem", "3", text=True)
    assert done.returncode == 2 and "--beam" in done.stderr and "Traceback" not in done.stderr


def test_a_bug_keeps_its_traceback():
    code = "import regard.engines, regard.cli, sys; regard.engines.load_with = lambda *a, **k: 1 / 0; sys.argv = ['regard', 'translate', 'x']"
    done = subprocess.run(
        [sys.executable, "-c", code + "; regard.cli.main()"], env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr and "Traceback" in done.stderr


def test_what_is_a_recipe_and_what_a_setting(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert recipe_and_overrides(["fr-en", "a.b=1", "c=2"]) == ("fr-en", ["a.b=1", "c=2"])
    assert recipe_and_overrides(["a.b=1"]) == (None, ["a.b=1"])
    Path("x=1.toml").touch()
    assert recipe_and_overrides(["x=1.toml", "a=2"]) == ("x=1.toml", ["a=2"])
    with pytest.raises(UserError, match="one recipe at a time"):
        recipe_and_overrides(["one", "two"])


@pytest.mark.parametrize(
    "number", [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200B, 0x2060, 0xFEFF, 0x9B, 0xE0041]
)
def test_characters_that_reorder_or_hide_text_are_spelled_out(number: int):
    shown = escape_control_characters(f"a{chr(number)}b")
    assert shown.isascii() and shown.isprintable() and f"{number:x}" in shown


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cخواهم",  # Persian: ZWNJ keeps two letters apart
        "👩\u200d💻 ❤\ufe0f",  # one emoji made of two, and one in colour
        "שלום (C++)\u200f, مرحبا\u061c",  # marks that put a bracket on its side
        "ខ្ញុំ\u200bជា\u200bនិស្សិត",  # Khmer: words end with a zero-width space
        "Donau\u00addampfschiff 葛\U000e0100城",  # a soft hyphen; a variant of a Chinese character
    ],
)
def test_text_of_every_script_stays_readable(text: str):
    assert escape_control_characters(text) == text


def test_results_are_escaped_on_a_terminal_and_exact_in_a_pipe(monkeypatch):
    text = "a\u202eb\tc\x1b[2J\nd"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    assert shown(text) == text
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert shown(text) == "a\\u202eb\tc\\x1b[2J\nd"


def test_text_cannot_steer_a_terminal_or_break_a_line():
    assert escape_control_characters("a\x1b[31mb\x9b2Jc\x07\u200dé") == "a\\x1b[31mb\\x9b2Jc\\x07\u200dé"
    assert (
        escape_control_characters("a\u202eb\u2066c\U000e0041d\u2028e\udce9f")
        == "a\\u202eb\\u2066c\\U000e0041d\\u2028e\\udce9f"
    )
    assert one_line("a\tb\r\nc\u2028d\x85e") == "a b c d e"
    unsafe = "\u202e\u2069\u200b\U000e0041\x7f"
    assert as_json(unsafe).isascii() and json.loads(as_json(unsafe)) == unsafe
    assert as_json({"é": "\x1b\x9b\u2028\ud800"}) == '{"é": "\\u001b\\u009b\\u2028\\ud800"}'
