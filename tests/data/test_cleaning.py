"""Cleaning parallel text: every reason, what must not be dropped, and the same answer every time."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from regard.data.corpus.cleaned_files import clean_files
from regard.data.corpus.cleaning import REASONS, Cleaner, contradicting_numbers, key, without_digits
from regard.errors import UserError

GOOD = [
    ("The station is closed today because of the strike.", "La gare est fermée aujourd'hui à cause de la grève."),
    ("She bought bread and milk on her way home.", "Elle a acheté du pain et du lait en rentrant chez elle."),
    ("We will meet at 2:30 pm in front of the museum.", "Nous nous retrouverons à 14:30 devant le musée."),
    ("Tom!", "Thomas !"),
    ("The house was built on 12/31/1990.", "La maison a été construite le 31.12.1990."),
    ("It cost 1,000.50 euros in all.", "Cela a coûté 1 000,50 euros en tout."),
    ("Twenty people came to the party that night.", "20 personnes sont venues à la fête ce soir-là."),
]
BAD = {
    "empty": ("Good morning to all of you.", " \u200b "),
    "encoding": ("He was late once again.", "Il Ã©tait encore en retard."),
    "markup": ("Click <b>here</b> to go on reading.", "Cliquez ici pour continuer la lecture."),
    "too_long": ("word " * 300, "mot " * 300),
    "ratio": ("Yes, of course.", "Oui, bien sûr, et je vous raconterai demain matin tout ce qui s'est passé hier soir."),
    "copy": ("The quick brown fox jumps.", "the quick brown Fox jumps."),
    "repetition": ("We shall see what comes of it.", "Nous verrons ce que ce que ce que ce que sera."),
    "numbers": ("He was born in 1994 in a small town.", "Il est né en 1996 dans une petite ville."),
    "script": ("The lake is frozen in the winter months.", "Озеро замерзает в зимние месяцы."),
    "language": ("I would like to have a cup of coffee now.", "Ich hätte jetzt gerne eine Tasse Kaffee, bitte."),
    "kept_out": ("The test sentence must stay unseen.", "La phrase de test doit rester inconnue."),
    "duplicate": GOOD[0],
    "near_duplicate": ("we will meet at 4:15 PM, in front of the museum!", "Nous nous retrouverons à 16:15 devant le musée"),
}  # fmt: skip


@pytest.fixture
def cleaner(tmp_path) -> Cleaner:
    (tmp_path / "test.fr").write_text("la phrase de test doit rester INCONNUE !\n\n")
    return Cleaner("en", "fr", keep_out=[tmp_path / "test.fr"])


def test_every_reason_and_nothing_else(cleaner):
    pairs = [*GOOD, *BAD.values()]
    reasons = [reason for reason, _ in cleaner.clean(pairs)]
    assert reasons == [""] * len(GOOD) + list(BAD)
    assert set(BAD) | {"too_short"} == set(REASONS)
    told = cleaner.report()
    assert (told["read"], told["kept"]) == (len(pairs), len(GOOD))
    assert {reason: one["count"] for reason, one in told["dropped"].items()} == dict.fromkeys(BAD, 1)
    assert told["dropped"]["numbers"]["example"] == list(BAD["numbers"])
    assert told["dropped"]["numbers"]["share"] == pytest.approx(1 / len(pairs), abs=1e-6)


@pytest.mark.parametrize("reason", [reason for reason in BAD if reason != "empty"])
def test_each_reason_can_be_skipped(cleaner, reason, tmp_path):
    lenient = Cleaner("en", "fr", keep_out=[tmp_path / "test.fr"], skip=[reason])
    found = {pair: why for why, pair in lenient.clean([*GOOD, BAD[reason]])}
    assert found.popitem()[1] in ("", "near_duplicate", "language"), "nothing worse is wrong with it"


def test_too_short():
    cleaner = Cleaner(min_length=6)
    assert [reason for reason, _ in cleaner.clean([GOOD[3], GOOD[0]])] == ["too_short", ""]


@pytest.mark.parametrize(
    ("source", "target", "wrong"),
    [
        ("in 2020", "در سال ۲۰۲۰", False),  # digits of another script
        ("in 2020", "در سال ۲۰۲۱", True),
        ("page ٣٤", "page 34", False),  # Arabic ones
        ("1,234,567", "1.234.567", False),
        ("a thousand people", "1000 personnes", False),  # round ones may be words
        ("He was born then.", "Il est né en 1967.", True),
        ("two of them", "2 d'entre eux", False),
        ("rooms 12 and 14", "chambres 14 et 12", False),
        ("12 rooms", "13 chambres", True),
        ("no digits", "aucun chiffre", False),
        ("x² and ½", "x² et ½", False),
    ],
)
def test_numbers(source, target, wrong):
    assert contradicting_numbers(source, target) is wrong
    assert contradicting_numbers(target, source) is wrong


def test_names_and_short_lines_are_not_another_language():
    pairs = [
        *GOOD,
        ("Berlin", "Berlin"),
        ("Angela Merkel", "Angela Merkel"),
        ("OK?", "D'accord ?"),
        ("😀", "😀"),
        ("—", "…"),
    ]
    assert {reason for reason, _ in Cleaner("en", "fr").clean(pairs)} == {""}


def test_lengths_are_relative_to_the_usual_ratio():
    """Chinese takes a third of the characters of English: that alone drops nothing."""
    pairs = [
        (f"{word} the meeting of the committee begins", f"{word}委员会会议开始") for word in ("Today", "So", "Then")
    ]
    assert {reason for reason, _ in Cleaner(max_ratio=1.5).clean(pairs)} == {""}


def test_forms_that_duplicates_and_test_sets_are_found_by():
    assert (
        without_digits("Ça, c'est 12 FOIS !") == without_digits("ça c'est 7 fois") != without_digits("ca c'est 7 fois")
    )
    assert without_digits("می‌روم؟") == without_digits("میروم"), "zero-width non-joiners"
    assert without_digits("कि") != without_digits("क"), "vowel signs are no punctuation"
    assert without_digits("12:30") == "12:30" != without_digits("12:31")
    assert key("Où est-ce ?") == key("où est ce") != key("Où est-ce 2 ?")
    assert key("?!") == 0 == key("")


def test_files_are_the_same_each_time_and_complete(tmp_path, cleaner):
    rows = [*GOOD, *BAD.values()]
    (tmp_path / "in.en").write_text("".join(f"{source}\n" for source, _ in rows))
    (tmp_path / "in.fr").write_text("".join(f"{target}\n" for _, target in rows))
    (tmp_path / "in.tsv").write_text("".join(f"{source}\t{target}\tmore\n" for source, target in rows))
    made = [tmp_path / name for name in ("one.tsv.gz", "two.tsv.gz")]
    for path, given in zip(made, (("in.en", "in.fr"), ("in.tsv", None))):
        again = Cleaner("en", "fr", keep_out=[tmp_path / "test.fr"])
        source, target = (name and str(tmp_path / name) for name in given)
        clean_files(source, target, [path], again, dropped=tmp_path / "no.tsv", report=tmp_path / "r.json")
    assert made[0].read_bytes() == made[1].read_bytes()
    assert gzip.decompress(made[0].read_bytes()).decode().splitlines() == ["\t".join(pair) for pair in GOOD]
    rejected = [line.split("\t")[0] for line in (tmp_path / "no.tsv").read_text().splitlines()]
    assert rejected == list(BAD)
    assert json.loads((tmp_path / "r.json").read_text())["kept"] == len(GOOD)
    sides = [tmp_path / "clean.en", tmp_path / "clean.fr"]
    clean_files(str(made[0]), None, sides, Cleaner("en", "fr"))
    assert list(zip(*(path.read_text().splitlines() for path in sides))) == GOOD, "what is clean stays"


def test_nothing_is_overwritten_by_mistake(tmp_path):
    table = tmp_path / "in.tsv"
    table.write_text("a\tb\n")
    for outputs, message in (
        ([table], "is the text to be cleaned"),
        ([tmp_path / "a.en", tmp_path / "a.en"], "named twice"),
        ([tmp_path / "a.en"], "into one .tsv"),
        ([tmp_path / "a.tsv.xz"], "plain text and .gz"),
    ):
        with pytest.raises(UserError, match=message):
            clean_files(str(table), None, outputs, Cleaner())
    assert [path.name for path in tmp_path.iterdir()] == ["in.tsv"]
    (tmp_path / "x.en").write_text("a\nb\n")
    (tmp_path / "x.fr").write_text("a\n")
    with pytest.raises(UserError, match="has 2 lines but"):
        clean_files(str(tmp_path / "x.en"), str(tmp_path / "x.fr"), [tmp_path / "o.tsv"], Cleaner())
    assert not list(tmp_path.glob("*o.tsv*")), "no half a file"


def test_the_command(tmp_path, run_regard, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pairs.en-fr.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in [*GOOD, *BAD.values()]))
    Path("test.fr").write_text("la phrase de test doit rester inconnue\n")
    words = ["data", "clean", "pairs.en-fr.tsv", "-o", "clean.tsv", "--keep-out", "test.fr", "--report", "r.json"]
    out, err = run_regard(*words)
    assert "warning: language dropped 5.0% of all pairs" in err, "en and fr of the file's name"
    assert out == "" and Path("clean.tsv").read_text().count("\n") == len(GOOD)
    lines = err.splitlines()
    assert lines[0].split()[:3] == ["REASON", "PAIRS", "SHARE"]
    assert [line.split()[0] for line in lines[1 : 1 + len(BAD)]] == [reason for reason in REASONS if reason in BAD]
    assert lines[-1] == f"regard: kept 7 of 20 pairs ({7 / 20:.1%}) in clean.tsv"
    assert json.loads(Path("r.json").read_text())["languages"] == ["en", "fr"]
    run_regard(*words, "--skip", "language", "--quiet")
    assert Path("clean.tsv").read_text().count("\n") == len(GOOD) + 1
    assert "no reason 'numberz'; did you mean 'numbers'?" in run_regard(*words, "--skip", "numberz", code=2)[1]
    assert "name the output" in run_regard("data", "clean", "pairs.en-fr.tsv", code=2)[1]
