"""Pairs made by a translator: each line once even if it is stopped, the right ones dropped, and the command."""

from __future__ import annotations

import gzip
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.data.corpus.cleaning import Cleaner
from regard.distilling import distill, parts_folder
from regard.errors import UserError

ANSWERS = {
    "ein Haus am See": ("a house at the lake", -0.5, True),
    "gut": ("good", -0.1, True),
    "schlecht": ("bad", -4.0, True),
    "endlos": ("on and on and", -0.2, False),
    "wieder": ("again again again again again", -0.2, True),
    "das Haus 1234 am See": ("the house 5678 at the lake", -0.2, True),
    "": ("", 0.0, True),
}


class Teacher:
    """Answers from the table, with two tokens each; after some texts it is stopped."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.left = stop_after
        self.asked: list[str] = []

    def translate(self, texts, progress=None, **options):
        found = []
        for text in texts:
            if self.left is not None and len(self.asked) >= self.left:
                raise KeyboardInterrupt
            self.asked.append(text)
            answer, score, finished = ANSWERS[text.removeprefix("\ufffd ")]
            made = {"text": answer, "log_probability": 3 * score, "tokens": ["x", "y"], "finished": finished}
            found.append(SimpleNamespace(**made, alternatives=[]))
        progress(len(texts))
        return found


def run(teacher: Teacher, folder: Path, out: str = "pairs.tsv", **more) -> list[str]:
    source = folder / "text.de"
    if not source.exists():
        source.write_bytes("".join(f"{line}\n" for line in ANSWERS).encode() + b"\xff gut\r\n")
    settings = {"shards": 4, **more}
    distill(teacher.translate, [str(source)], folder / out, Cleaner(), settings={"model": "x"}, **settings)
    written = (folder / out).read_bytes()
    return (gzip.decompress(written) if out.endswith(".gz") else written).decode().splitlines()


def test_what_is_kept_and_what_is_not(tmp_path):
    kept = run(Teacher(), tmp_path, min_score=-2, dropped=tmp_path / "no.tsv")
    assert kept == ["ein Haus am See\ta house at the lake\t-0.5000", "gut\tgood\t-0.1000"]
    reasons = {}
    for line in (tmp_path / "no.tsv").read_text().splitlines():
        why, source, *_ = line.split("\t")
        reasons[source] = why
    assert reasons == {
        "schlecht": "score",
        "endlos": "unfinished",
        "wieder": "repetition",
        "das Haus 1234 am See": "numbers",
        "": "empty",
        "\ufffd gut": "encoding",
    }


def test_other_thresholds_and_the_reverse_translate_nothing_again(tmp_path):
    run(Teacher(), tmp_path)
    idle = Teacher()
    assert "bad\tschlecht\t-4.0000" in run(idle, tmp_path, reverse=True) and idle.asked == []
    assert "bad\tschlecht\t-4.0000" not in run(idle, tmp_path, reverse=True, min_score=-3)


def test_stopped_work_goes_on_and_gives_the_same(tmp_path):
    whole = run(Teacher(), tmp_path, "whole.tsv.gz")
    first, second = Teacher(stop_after=5), Teacher()
    with pytest.raises(KeyboardInterrupt):
        run(first, tmp_path, "again.tsv.gz")
    assert not (tmp_path / "again.tsv.gz").exists() and list(parts_folder(tmp_path / "again.tsv.gz").rglob("*.jsonl"))
    assert run(second, tmp_path, "again.tsv.gz") == whole
    assert len(second.asked) == 4, "the two shards that were finished are not translated again"
    assert (tmp_path / "again.tsv.gz").read_bytes() == (tmp_path / "whole.tsv.gz").read_bytes()


def test_other_work_does_not_mix(tmp_path):
    run(Teacher(), tmp_path)
    with pytest.raises(UserError, match="was started with model x, not y"):
        distill(
            Teacher().translate, [str(tmp_path / "text.de")], tmp_path / "pairs.tsv", Cleaner(), settings={"model": "y"}
        )
    with pytest.raises(UserError, match="name it .tsv or .tsv.gz"):
        run(Teacher(), tmp_path, "pairs.txt")


def test_the_command_on_files_and_columns(tmp_path, run_regard, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.fr").write_text("Je suis étudiant.\n\nOù est la gare ?\n")
    Path("b.tsv").write_text("1\tOui, bien sûr.\n2\tJe suis étudiant.\n")
    words = ["distill", "fr-en", "--sources", "a.fr", "--sources", "b.tsv#2", "-o", "pairs.tsv", "--dropped", "no.tsv"]
    out, err = run_regard(*words)
    rows = [line.split("\t") for line in Path("pairs.tsv").read_text().splitlines()]
    translated = run_regard("translate", *(row[0] for row in rows), "-q")[0].splitlines()
    assert out == "" and [row[1] for row in rows] == translated
    assert [row[0] for row in rows] == ["Je suis étudiant.", "Où est la gare ?", "Oui, bien sûr."]
    assert all(-2 < float(row[2]) < 0 for row in rows)
    assert [line.split("\t")[0] for line in Path("no.tsv").read_text().splitlines()] == ["empty", "duplicate"]
    assert "kept 3 of 5 pairs" in err and "duplicate" in err
    run_regard(*words, "--reverse", "-q")
    assert [line.split("\t")[0] for line in Path("pairs.tsv").read_text().splitlines()] == translated
    assert "started with beam 4, not 2" in run_regard(*words, "--beam", "2", code=2)[1]
    assert "name the text" in run_regard("distill", "fr-en", code=2)[1]
    assert "made to classify" in run_regard("distill", "fashion", "--sources", "a.fr", "-o", "x.tsv", code=2)[1]
    assert "does not translate to de" in run_regard(*words, "--to", "de", code=2)[1]
