"""`regard translate` with an untrained model: columns, JSON, standard input, terminals and interrupts."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess

import pytest

from regard.cli.terminal import Format
from regard.cli.translate import _with_line_number, translate

from .conftest import LINES, command, environment, regard


def printed(capfdbinary, *arguments, **options) -> list[str]:
    translate(*arguments, **options)
    out = capfdbinary.readouterr().out.decode()
    assert out.endswith("\n") or not out
    return out.split("\n")[:-1]


def test_one_line_for_each_text_and_the_same_alone(model, capfdbinary):
    together = printed(capfdbinary, [*LINES, "", "  "], model=[model])
    assert len(together) == len(LINES) + 2 and together[-2:] == ["", ""] and all(together[:-2])
    assert printed(capfdbinary, [LINES[1]], model=[model]) == [together[1]]
    assert printed(capfdbinary, ["\n".join(LINES)], model=[model]) == together[: len(LINES)]


def test_columns(model, capfdbinary):
    plain = printed(capfdbinary, LINES, model=[model])
    rows = [line.split("\t") for line in printed(capfdbinary, LINES, model=[model], scores=True, alignment=True)]
    assert [row[0] for row in rows] == plain
    for text, (output, score, links) in zip(LINES, rows):
        assert float(score) < 0
        for link in links.split():
            source, target = map(int, link.split("-"))
            assert source < len(text.split()) and target < len(output.split())


def test_n_best_gives_each_line_its_number_and_falling_scores(model, capfdbinary):
    rows = [row.split("\t") for row in printed(capfdbinary, LINES[:2], model=[model], n_best=3, beam=4, scores=True)]
    assert [number for number, _, _ in rows] == ["1"] * 3 + ["2"] * 3
    for first in (0, 3):
        scores = [float(score) for _, _, score in rows[first : first + 3]]
        assert scores == sorted(scores, reverse=True)
        assert len({text for _, text, _ in rows[first : first + 3]}) == 3


def test_json(model, capfdbinary):
    plain = printed(capfdbinary, [*LINES, ""], model=[model])
    options = {"model": [model], "format": Format.json, "n_best": 2, "alignment": True}
    trees = [json.loads(line) for line in printed(capfdbinary, [*LINES, ""], **options)]
    assert [tree["source"] for tree in trees] == [*LINES, ""]
    assert [tree["text"] for tree in trees] == plain
    for tree in trees[:-1]:
        assert {"score", "log_probability", "tokens", "finished", "alignment", "alternatives"} < set(tree)
        assert len(tree["alternatives"]) == 1 and tree["alternatives"][0]["score"] <= tree["score"]


def test_bytes_that_are_no_text_are_replaced_and_said(model, capfdbinary):
    translate([os.fsdecode(b"caf\xe9")], model=[model])
    out, err = capfdbinary.readouterr()
    assert out.count(b"\n") == 1
    assert err == b"regard: line 1 is not valid UTF-8; invalid bytes were replaced by U+FFFD\n"
    translate([os.fsdecode(b"caf\xe9")], model=[model], quiet=True)
    assert capfdbinary.readouterr().err == b""


def test_standard_input_gives_what_arguments_give(model, capfdbinary):
    wanted = printed(capfdbinary, LINES, model=[model])
    odd = ["\0", "mot " * 300, "a\u2028b", ""]
    done = regard("translate", "--model", model, input="\r\n".join([*LINES, *odd, *LINES]).encode())
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().split("\n")
    assert len(lines) == 2 * len(LINES) + len(odd) + 1 and lines[-1] == ""
    assert lines[: len(LINES)] == lines[-len(LINES) - 1 : -1] == wanted
    assert lines[len(LINES) + 3] == ""
    assert done.stderr.decode().startswith("regard: line 6 is longer than the model's")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.timeout(120)
def test_a_dialogue_through_pipes_and_ctrl_c(model):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command("translate", "--model", model), env=environment(), **pipes) as process:
        answers = []
        for text in [*LINES, *LINES]:
            process.stdin.write(text.encode() + b"\n")
            process.stdin.flush()
            answers.append(process.stdout.readline())
        assert answers[: len(LINES)] == answers[len(LINES) :] and all(answers)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr.read() == b""


@pytest.mark.timeout(120)
def test_a_terminal_is_told_what_to_do_and_is_not_steered(model):
    primary, secondary = pty.openpty()
    script = (
        "import regard, regard.cli, sys; from regard.task._base_translator import BaseTranslator, Translation\n"
        "BaseTranslator.translate = lambda self, texts, **_: [Translation(t, 'red \\x1b[31m' + t) for t in texts]\n"
        f"sys.argv = ['regard', 'translate', '--scores', '--model', {model!r}]; regard.cli.main()"
    )
    process = subprocess.Popen(
        [command()[0], "-c", script], env=environment(), stdin=secondary, stdout=secondary, stderr=subprocess.PIPE
    )
    os.close(secondary)
    assert b"Ctrl-D ends" in process.stderr.readline()
    os.write(primary, b"bonjour\n")
    seen = b""
    while seen.count(b"\n") < 2:  # the terminal's echo, then the answer
        seen += os.read(primary, 1000)
    os.write(primary, b"\x04")
    assert process.wait() == 0
    assert seen.replace(b"\r", b"") == b"bonjour\nred \\x1b[31mbonjour\t0.0000\n"
    os.close(primary)
    process.stderr.close()


def test_warnings_count_lines_from_the_beginning():
    assert _with_line_number("text 3 is too long", [1, 2, 3]) == "line 3 is too long"
    assert _with_line_number("text 3 is too long", [4001, 4003, 4005]) == "line 4005 is too long"
    assert _with_line_number("no text 3", [7, 8, 9]) == "no text 3"
