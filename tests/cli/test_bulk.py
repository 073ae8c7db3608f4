"""`--input FILE --output FOLDER` of the commands that answer lines: what standard input gives, and mistakes in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.cli.bulk import bulk_file, model_for
from regard.errors import UserError


def whole(folder: Path) -> str:
    return "".join(path.read_text() for path in sorted(folder.glob("[!.]*")))


@pytest.mark.parametrize("options", [(), ("--json",), ("--n-best", "2", "--scores")])
def test_names_of_pictures(options: tuple[str, ...], tmp_path: Path, run_regard, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    shards = 1 if options == ("--json",) else 2  # its probabilities depend on the batch, in the last digits
    draw = np.random.default_rng(1)
    for number in range(3):
        Image.fromarray(draw.integers(0, 255, (64, 64, 3), np.uint8)).save(f"{number}.png")
    Path("not.png").write_text("no picture")
    names = ["0.png", "", "1.png", "2.png"]
    Path("names.txt").write_text("".join(f"{name}\n" for name in names))
    wanted, _ = run_regard("caption", "shapes", *options, stdin=Path("names.txt").read_text())
    _, told = run_regard("caption", "shapes", *options, "--input", "names.txt", "-o", "out", "--shards", shards)
    assert whole(Path("out")) == wanted
    assert told.splitlines() == [
        "regard: counting the lines of names.txt",
        f"regard: all 4 lines are in out (shards: {shards})",
    ]
    Path("bad.txt").write_text("0.png\nno.png\nnot.png\n")
    _, told = run_regard("caption", "shapes", *options, "--input", "bad.txt", "-o", "bad")
    lines = told.splitlines()
    assert "line 2 is left empty" in lines[1] and "no.png does not exist" in lines[1]
    assert "line 3 is left empty" in lines[2] and "not.png" in lines[2]
    alone, _ = run_regard("caption", "shapes", *options, stdin="0.png\n\n\n")
    assert whole(Path("bad")) == alone


def test_generate_continues_every_line(tmp_path: Path, run_regard) -> None:
    (tmp_path / "in").write_text("To be\n\nOr not\n")
    options = ("generate", "shakespeare", "--length", 6)
    run_regard(*options, "--input", tmp_path / "in", "-o", tmp_path / "out", "--seed", 3)
    lines = whole(tmp_path / "out").splitlines()
    for number, prompt in enumerate(["To be", "", "Or not"]):
        alone, _ = run_regard(*options, prompt, "--seed", 3 + number)
        assert lines[number] == alone.removesuffix("\n").replace("\n", " ")
    other = ("--input", tmp_path / "in", "-o", tmp_path / "out")
    assert "was started with seed 3, not 4" in run_regard(*options, *other, "--seed", 4, code=2)[1]
    assert "leave out --count" in run_regard(*options, *other, "--count", 2, code=2)[1]
    assert "is a folder; name a file" in run_regard(*options, "x", "-o", tmp_path / "out", code=2)[1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"output": Path("out")}, "needs both --input FILE and --output FOLDER"),
        ({"on": "auto"}, "--on, --column and --key are for a corpus"),
        ({"column": "text"}, "--on, --column and --key are for a corpus"),
        ({"input": "in", "output": Path("out"), "given": ["x"]}, "give either text or --input"),
        ({"input": "in", "output": Path("out"), "key": "id"}, "--column and --key are for work on Ray"),
        ({"input": "in", "output": Path("out"), "on": "there"}, "'there' is no address"),
        ({"input": "in", "output": Path("out")}, "in does not exist"),
    ],
)
def test_options_that_do_not_go_together(given, words: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    usual = dict.fromkeys(("given", "input", "output", "shards", "on", "column", "key"))
    with pytest.raises(UserError, match=words) as caught:
        bulk_file(**usual | given)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


def test_a_folder_is_named_in_full_for_other_machines(tmp_path: Path, monkeypatch) -> None:
    from regard.find_model import find_model

    monkeypatch.chdir(find_model("fr-en").parent)
    assert model_for(None, "fr-en") == "fr-en" and model_for("auto", "nothing") == "nothing"
    assert model_for("auto", "fr-en") == str(find_model("fr-en").absolute())
    monkeypatch.chdir(tmp_path)
    assert model_for("auto", "fr-en") == "fr-en"
    (tmp_path / "fr-en").mkdir()
    assert model_for("auto", "fr-en") == "fr-en"  # a folder without a model: the shipped one is meant
