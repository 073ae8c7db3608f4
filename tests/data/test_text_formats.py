"""Data formats of labelled, tagged and plain text and of DNA; mistakes in one line."""

import gzip
import lzma
from collections import Counter
from pathlib import Path

import pytest

from regard.config import Data
from regard.data.format._base import Example
from regard.data.format.conll import Conll
from regard.data.format.dna import Dna
from regard.data.format.labelled_lines import LabelledLines
from regard.data.format.labelled_table import LabelledTable
from regard.data.format.made_dna import MadeDna
from regard.data.format.made_names import MadeNames
from regard.data.format.plain_lines import PlainLines
from regard.data.splitting import read_parts
from regard.errors import UserError


@pytest.fixture
def write(tmp_path):
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        content = text.encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write


def test_lines_have_the_class_of_their_file(write):
    files = [write("film.good.txt.gz", "fine\r\n\n \nvery\u2028fine \n"), write("film.bad.txt", "\ufeffawful")]
    texts = ["fine", "very\u2028fine ", "awful"]
    assert LabelledLines().read(files, "train") == [*map(Example, texts, ["film.good", "film.good", "film.bad"])]
    named = LabelledLines(["positive", "negative"]).read(files, "train")
    assert named == [*map(Example, texts, ["positive", "positive", "negative"])]
    with pytest.raises(UserError, match="data.test: 1 files but 2 labels"):
        LabelledLines(["positive", "negative"]).read(files[:1], "test")
    with pytest.raises(UserError, match="a list of names"):
        LabelledLines("positive")
    with pytest.raises(UserError, match="line 2: is not text in UTF-8"):
        bad = files[1]
        bad.write_bytes(b"fine\n\xff\n")
        LabelledLines().read([bad], "train")


def test_a_table_has_text_and_label(write):
    file = write("a.tsv.gz", "it 's fun\t1\nno fun\t0\n\n")
    assert LabelledTable().read([file], "train") == [Example("it 's fun", "1"), Example("no fun", "0")]
    names = {"0": "negative", "1": "positive"}
    assert [e.target for e in LabelledTable(names=names).read([file], "train")] == ["positive", "negative"]
    other = write("b.tsv", "label\tid\ttext\nx\t7\tfine\n")
    assert LabelledTable(text=3, label=1, header=True).read([other], "train") == [Example("fine", "x")]


@pytest.mark.parametrize(
    ("text", "options", "line"),
    [
        ("fine\t1\nfine 1\n", {}, r"line 2: has 1 column\(s\), but column 2 is wanted"),
        ("fine\t\n", {}, "line 1: has no label"),
        (" \t1\n", {}, "line 1: has no text"),
        ("fine\t2\n", {"names": {"0": "no", "1": "yes"}}, "line 1: label '2' has no name; there is: 0, 1"),
        ("", {"text": 0}, "not two columns"),
        ("", {"text": 2}, "not two columns"),
    ],
)
def test_a_table_that_is_wrong(write, text, options, line):
    with pytest.raises(UserError, match=line):
        LabelledTable(**options).read([write("a.tsv", text)], "train")


def test_sentences_end_at_any_white_line(write):
    file = write("a.conll.gz", "\nHarry\tB-person\nPotter\tI-person\n\t\n \n\u00a0\nran\tO\r\n.\tO\n\nalone\tO")
    assert Conll().read([file], "train") == [
        Example(["Harry", "Potter"], ["B-person", "I-person"]),
        Example(["ran", "."], ["O", "O"]),
        Example(["alone"], ["O"]),
    ]
    spaced = write("b.conll", "U.N. NNP I-NP B-ORG\n")
    assert Conll(tag=4).read([spaced], "train") == [Example(["U.N."], ["B-ORG"])]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\tO\nb\n", r"line 2: has 1 column\(s\)"),
        ("a\t\n\tO\n", "line 1: has no tag"),
        ("\tO\n", "line 1: has no word"),
    ],
)
def test_a_word_without_a_tag(write, text, line):
    with pytest.raises(UserError, match=line):
        Conll().read([write("a.conll", text)], "train")


SPLICE = (
    "EI,   A-1,      AAAACCCC\nIE,  B-2,   GGGGtttt\nN,  C,  ACGTNDRS\nN, D, ccccgggg\nN,E,ATATATAT\nEI, F, AAAACCCC\n"
)


def test_dna_without_what_is_there_twice(write):
    file = write("splice.data.gz", SPLICE)
    found = Dna().read([file], "train")
    assert found == [
        *map(Example, ["AAAACCCC", "GGGGTTTT", "ACGTNDRS", "CCCCGGGG", "ATATATAT"], ["EI", "IE", "N", "N", "N"])
    ]
    clashing = write("clash.data", "EI, a, ACGT\nN, b, acgt\n")  # the first one counts
    assert Dna().read([clashing], "train") == [Example("ACGT", "EI")]
    promoters = write("promoters.data", "+,S10,\t\tacgt\n-,X,\tttaa\n")
    assert Dna().read([promoters], "train") == [Example("ACGT", "+"), Example("TTAA", "-")]


def test_dna_with_its_junctions_marked(write):
    file = write("splice.data.gz", SPLICE + "N, G, TTTTAAAA\n")
    found = Dna(mark=True).read([file], "train")
    assert found == Dna(mark=True).read([file], "train") and found != Dna(mark=True, seed=8).read([file], "train")
    windows = {"EI": "AAAACCCC", "IE": "GGGGTTTT"}
    outer = []
    for letters, tags in found[:2]:
        assert len(letters) == len(tags) == 16 and all(len(letter) == 1 for letter in letters)
        (place,) = [i for i, tag in enumerate(tags) if tag != "O"]
        begin = place - 4  # the base after the junction is the first of the second half
        assert "".join(letters[begin : begin + 8]) == windows[tags[place]]
        outer.append("".join(letters[:begin] + letters[begin + 8 :]))
    (rest,) = found[2:]
    assert set(rest.target) == {"O"}
    outer += ["".join(rest.input[:8]), "".join(rest.input[8:])]
    assert sorted(outer) == ["ACGTNDRS", "ATATATAT", "CCCCGGGG", "TTTTAAAA"]  # each once


def test_junctions_lie_anywhere(write):
    bases = [f"{'ACGT'[i // 16 % 4]}{'ACGT'[i // 4 % 4]}{'ACGT'[i % 4]}" for i in range(64)]
    text = "".join(f"EI, x, AAAAAAAA{b}\nN, x, TTTTTTTT{b}\n" for b in bases)
    places = Counter(e.target.index("EI") for e in Dna(mark=True).read([write("a", text)], "train"))
    assert min(places) == 5 and max(places) == 16 and len(places) > 9


@pytest.mark.parametrize(
    ("text", "options", "line"),
    [
        ("EI, a, ACGT\nEI, b, ACXT\n", {}, "line 2: 'X' at position 3 of the sequence is no letter of DNA"),
        ("EI, ACGT\n", {}, "line 1: wants 'CLASS, name, sequence', has 2"),
        ("EI, a,\n", {}, "line 1: wants"),
        ("EI, a, ACGT\nEI, b, AAGT\nN, c, AAAA\n", {"mark": True}, "2 junctions need as many sequences of class 'N'"),
        ("", {"seed": -1}, "data.format.seed"),
    ],
)
def test_dna_that_is_wrong(write, text, options, line):
    with pytest.raises(UserError, match=line):
        Dna(**options).read([write("a.data", text)], "train")


def test_no_fold_has_what_another_has(write):
    text = "".join(f"+, a, {'ACGT'[i % 4]}{'ACGT'[i // 4]}AC\n" for i in range(16)) * 3
    path = str(write("a.data", text))
    for fold in range(4):
        parts = read_parts(Data(train=[path], format={"kind": "dna"}, folds=4, fold=fold))
        seen = {e.input for e in parts.train} | {e.input for e in parts.valid}
        assert len(parts.test) == 4 and not seen & {e.input for e in parts.test}


def test_plain_lines_of_any_file(write, tmp_path):
    (tmp_path / "a.xz").write_bytes(lzma.compress(b"one\ntwo\n\nthree\n"))
    table, tagged = write("b.tsv.gz", "deux\ttwo\nquatre\tfour\n"), write("c.conll.gz", "I\tO\nam\tO\n\nhere\tO\n")
    files = [tmp_path / "a.xz", Path(f"{table}#2"), tagged]
    assert [e.input for e in PlainLines().read(files, "train")] == ["one", "two", "three", "four", "I am", "here"]
    assert [e.input for e in PlainLines(most=1).read(files, "train")] == ["one", "two", "I am"]
    parts = read_parts(Data(train=[f"{table}#2"], format={"kind": "plain_lines"}))
    assert {e.input for e in [*parts.train, *parts.valid]} == {"two", "four"}
    with pytest.raises(UserError, match="data.format.most"):
        PlainLines(most=0)
    with pytest.raises(UserError, match="b.tsv.gy does not exist; did you mean 'b.tsv.gz'"):
        read_parts(Data(train=[f"{tmp_path}/b.tsv.gy#2"], format={"kind": "plain_lines"}))


@pytest.mark.parametrize(
    "form", [MadeNames(count=100), MadeDna(count=100), MadeDna(count=100, mark=True)], ids=["names", "dna", "marked"]
)
def test_what_is_made_is_the_same_each_time_and_other_in_each_part(form):
    parts = [form.read([], part) for part in ("train", "valid", "test")]
    assert parts == [form.read([], part) for part in ("train", "valid", "test")]
    assert [len(part) for part in parts] == [100, 20, 20]
    assert parts[1] != parts[2] and parts[0][:20] != parts[1]
    other = type(form)(count=100, seed=2)
    assert other.read([], "train") != parts[0]


def test_made_names_are_tagged_as_they_are_written():
    for words, tags in MadeNames(count=200).read([], "train"):
        assert len(words) == len(tags)
        for before, tag in zip(["O", *tags], tags):
            assert tag == "O" or tag[:2] == "B-" or before[2:] == tag[2:]  # nothing goes on that did not begin
    both = {}
    for words, tags in MadeNames(count=500).read([], "train"):
        for word, tag in zip(words, tags):
            both.setdefault(word, set()).add(tag[2:])
    assert both["London"] == both["Paris"] == {"person", "location"} and both["met"] == {""}


def test_made_dna_holds_its_motif_once_or_never():
    found = MadeDna(count=200, motif="TATA").read([], "train")
    assert {e.target for e in found} == {"+", "-"}
    for sequence, label in found:
        assert len(sequence) == 40 and sum(sequence.startswith("TATA", i) for i in range(40)) == (label == "+")
    marked = MadeDna(count=200, motif="TATA", mark=True).read([], "train")
    for letters, tags in marked:
        assert "".join(letters).find("TATA") == (tags.index("site") if "site" in tags else -1)
    places = Counter(tags.index("site") for _, tags in marked if "site" in tags)
    assert 50 < sum(places.values()) < 150 and len(places) > 20


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"count": 0}, "data.format.count"),
        ({"motif": "TXT"}, "data.format.motif"),
        ({"motif": ""}, "data.format.motif"),
        ({"length": 5}, "data.format.length: wants 6 to 8,192"),
        ({"motif": "A", "length": 9}, "wants 1 to 8"),
    ],
)
def test_dna_that_cannot_be_made(options, line):
    with pytest.raises(UserError, match=line):
        MadeDna(**options)
