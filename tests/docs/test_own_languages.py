"""Every command of docs/own-languages.md is run, in order, on a few hundred made-up sentences and with tiny models."""

from __future__ import annotations

import gzip
import itertools
import re
import shlex
from pathlib import Path

import pytest

from .test_snippets import FENCE, ROOT

PAGE = (ROOT / "docs" / "own-languages.md").read_text(encoding="utf-8")
WORDS = {
    "en": (("the child", "the woman", "the man", "the teacher", "the dog", "the friend"),
           ("sees", "knows", "finds", "buys", "needs"),
           ("the house", "the book", "the car", "the apple", "the table", "the letter", "the picture")),
    "de": (("das Kind", "die Frau", "der Mann", "der Lehrer", "der Hund", "der Freund"),
           ("sieht", "kennt", "findet", "kauft", "braucht"),
           ("das Haus", "das Buch", "das Auto", "den Apfel", "den Tisch", "den Brief", "das Bild")),
    "fa": (("کودک", "زن", "مرد", "معلم", "سگ", "دوست"),
           ("می‌بیند", "می‌شناسد", "پیدا می‌کند", "می‌خرد", "لازم دارد"),
           ("خانه را", "کتاب را", "ماشین را", "سیب را", "میز را", "نامه را", "عکس را")),
}  # fmt: skip
TINY = [
    "tokenizer.size=360", "model.width=48", "model.heads=4", "model.feed_forward=96", "model.dropout=0.0", "model.encoder.layers=2",
    "model.decoder.layers=1", "training.label_smoothing=0.0", "training.learning_rate=0.004", "training.warmup=20",
    "training.steps=120", "training.save_every=60", "training.validate_every=0", "training.batch_tokens=700", "training.device=cpu",
]  # fmt: skip


def sentence(code: str, meaning: tuple[int, int, int]) -> str:
    who, does, what = (words[number] for words, number in zip(WORDS[code], meaning))
    return f"{who} {what} {does}." if code == "fa" else f"{who} {does} {what}."


def write_text() -> None:
    meanings = list(itertools.product(*map(range, map(len, WORDS["en"]))))
    test, valid, mono = meanings[::21], meanings[5::21], meanings[2::9]
    train = [one for one in meanings if one not in mono]  # some of test and valid are in it, and must not stay
    for code in ("de", "fa"):
        for name, some in (("raw", train), ("valid", valid), ("test", test)):
            rows = [f"{sentence('en', one)}\t{sentence(code, one)}\n" for one in some]
            Path(f"{name}.en-{code}.tsv").write_text("".join(rows), encoding="utf-8")
    for code in WORDS:
        Path(f"mono.{code}").write_text("".join(f"{sentence(code, one)}\n" for one in mono), encoding="utf-8")


def commands() -> list[list[str]]:
    blocks = [block["body"] for block in FENCE.finditer(PAGE) if block["language"] == "console"]
    lines = [line.removeprefix("$ regard ") for body in blocks for line in body.splitlines() if line.startswith("$ ")]
    return [shlex.split(line) for line in lines]


def test_the_page_runs_from_start_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_regard) -> None:
    monkeypatch.chdir(tmp_path)
    write_text()
    for block in FENCE.finditer(PAGE):
        if block["language"] == "toml":
            Path(re.match(r"# (\S+)", block["body"])[1]).write_text(block["body"], encoding="utf-8")  # type: ignore[index]
    out = ""
    for words in commands():
        if words[0] == "serve":  # test_serving.py starts servers
            continue
        more = TINY if words[0] == "train" else []
        words = [found for word in words for found in (sorted(map(str, Path().glob(word))) if "*" in word else [word])]
        out, err = run_regard(*words, *more)
        if words[:2] == ["data", "clean"]:
            assert "kept_out" in err and "kept 1" in err
        if words[0] == "distill":
            made = gzip.decompress(Path(words[words.index("-o") + 1]).read_bytes()).decode().splitlines()
            assert len(made) >= 10 and all(line.count("\t") == 2 for line in made), (words, err)
            if "--reverse" in words:
                code = words[words.index("--from") + 1]
                own = set(Path(f"mono.{code}").read_text(encoding="utf-8").splitlines())
                assert {line.split("\t")[1] for line in made} <= own, "the text of people is the target"
    assert out.strip(), "a translation"
    assert {path.name for path in Path("ours").iterdir()} >= {"recipe.toml", "weights.safetensors"}


def test_the_page_names_every_reason() -> None:
    from regard.data.corpus.cleaning import REASONS

    table = PAGE[PAGE.index("| reason |") : PAGE.index("Memory does not grow")]
    assert set(re.findall(r"`([a-z_]+)`", table)) == set(REASONS)
    assert [reason for reason in re.findall(r"`([a-z_]+)`", table) if reason in REASONS] == list(dict.fromkeys(REASONS))
