"""Shortlists: made from text, stored in the model folder, refused when unfit, and obeyed by the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from engines.conftest import LINES, sentences, tokenizer
from safetensors.numpy import save

import regard
from regard.directions import marks
from regard.engines.ctranslate2 import shortlist
from regard.errors import UserError
from regard.find_model import read_recipe_of
from regard.interchange import export
from regard.recipe import Recipe
from regard.storage import read_folder, write_folder
from tests.multilingual import CODES, TAGS, make

WORDS = "je suis la mer calme"


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "target.txt"
    path.write_text(f"{WORDS}\n\n", encoding="utf-8")
    return path


@pytest.fixture
def short(folder, tmp_path, text) -> Path:
    return export(folder, tmp_path / "short", precision="float32", shortlist=text)


def tokens_of(folder: Path, code: str = "") -> set[int]:
    recipe = read_recipe_of(read_folder(folder))
    return set(shortlist.read(folder / shortlist.FILE, recipe, len(tokenizer()))[code].tolist())


def with_file(folder: Path, place: Path, content: bytes) -> Path:
    """The model with another shortlist file, and a manifest that agrees."""
    origin = read_folder(folder)
    files = {name: (folder / name).read_bytes() for name in origin.names}
    write_folder(place, {**files, shortlist.FILE: content})
    return place


def test_it_holds_the_tokens_of_the_text_and_all_letters_and_bytes():
    tokens = set(shortlist.from_text(tokenizer(), [WORDS]).tolist())
    letters = {i for i, s in enumerate(tokenizer().surfaces(range(len(tokenizer())))) if len(s.strip()) < 2}
    assert tokens == set(tokenizer().encode(WORDS)) | letters
    assert tokens - letters and set(tokenizer().encode(" ".join(LINES))) - tokens


def test_text_without_a_word_of_the_model_is_refused():
    with pytest.raises(UserError, match="no word that the model knows"):
        shortlist.from_text(tokenizer(), ["", "x y z"])


@pytest.mark.parametrize("vocabulary, size", [(1 << 15, 2), (1 << 17, 4)])
def test_the_file_gives_the_same_tokens_in_few_bytes(tmp_path, vocabulary, size):
    tokens = np.arange(3, vocabulary, 2)
    path = tmp_path / shortlist.FILE
    path.write_bytes(shortlist.to_file({"": tokens}))
    assert shortlist.read(path, Recipe(), vocabulary)[""].tolist() == tokens.tolist()
    assert path.stat().st_size < len(tokens) * size + 200


@pytest.mark.parametrize(
    "tensors, why",
    [
        ({"tokens": np.array([4, 5], np.float32)}, "lists of integers"),
        ({"tokens": np.array([[4, 5]], np.int16)}, "lists of integers"),
        ({"ids": np.array([4, 5], np.int16)}, "one list of integers"),
        ({"tokens": np.array([4], np.int16), "more": np.array([4], np.int16)}, "one list of integers"),
        ({"tokens.de": np.array([4, 5], np.int16)}, "only be one list"),
        ({"tokens": np.zeros(1000, np.int16)}, "names 1,000 tokens"),
        ({"tokens": np.array([], np.int16)}, "ascending order"),
        ({"tokens": np.array([5, 4], np.int16)}, "ascending order"),
        ({"tokens": np.array([4, 4], np.int16)}, "ascending order"),
        ({"tokens": np.array([-1, 4], np.int16)}, "ascending order"),
        ({"tokens": np.array([4, 330], np.int16)}, "ascending order"),
    ],
)
def test_a_hostile_file_is_refused_in_one_line(folder, tmp_path, tensors, why):
    hostile = with_file(folder, tmp_path / "hostile", save(tensors))
    with pytest.raises(UserError, match=why) as caught:
        regard.load(hostile, device="cpu", engine="ctranslate2")
    assert "\n" not in str(caught.value) and shortlist.FILE in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, shortlist.to_file({"": np.arange(4, 40)})[:-3]])
def test_a_damaged_file_is_refused_in_one_line(folder, tmp_path, content):
    damaged = with_file(folder, tmp_path / "damaged", content)
    with pytest.raises(UserError, match=shortlist.FILE) as caught:
        regard.load(damaged, device="cpu", engine="ctranslate2")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("piece", ["", "a b", "a\tb", "a\nb"])
def test_a_token_that_vmap_cannot_spell_is_refused(piece):
    with pytest.raises(UserError, match="cannot read the token"):
        shortlist.vmap({"": np.array([1])}, Recipe(), ["<pad>", piece])


def test_nothing_else_is_written(folder, short):
    allowed = tokens_of(short)
    free, bound = (regard.load(place, device="cpu", engine="ctranslate2") for place in (folder, short))
    sources = [bound.encode(line) for line in sentences(20)]

    def written(translator) -> set[int]:
        return {i for row in translator.search(sources, beam=4, n_best=4) for one in row for i in one.ids}

    assert written(bound) <= allowed
    assert not written(free) <= allowed


def test_where_all_tokens_are_listed_nothing_changes(folder, tmp_path):
    everything = with_file(folder, tmp_path / "all", shortlist.to_file({"": np.arange(len(tokenizer()))}))
    lines = sentences(20)
    texts = [regard.load(place, device="cpu", engine="ctranslate2").translate(lines) for place in (folder, everything)]
    assert [one.text for one in texts[0]] == [one.text for one in texts[1]]
    assert [one.score for one in texts[0]] == pytest.approx([one.score for one in texts[1]], abs=1e-4)


def test_a_translation_does_not_depend_on_its_batch(short):
    translator = regard.load(short, device="cpu", engine="ctranslate2", precision="int8")
    lines = sentences(40)
    together = translator.translate(lines, n_best=2)
    assert [translator.translate(line, n_best=2) for line in lines] == together


def test_a_forced_prefix_may_be_outside_of_it(short):
    translator = regard.load(short, device="cpu", engine="ctranslate2")
    allowed = tokens_of(short)
    prefix = [i for i in tokenizer().encode(" ".join(LINES)) if i not in allowed][:2]
    (found,) = translator.search([translator.encode("la mer")], beam=4, prefix=prefix)
    assert prefix and found[0].ids[:2] == prefix


def test_torch_reads_the_folder_and_another_export_keeps_the_file(folder, short, tmp_path):
    lines = sentences(10)
    texts = [regard.load(place, device="cpu", engine="torch").translate(lines) for place in (folder, short)]
    assert [one.text for one in texts[0]] == [one.text for one in texts[1]]
    again = export(short, tmp_path / "again", precision="int8")
    assert (again / shortlist.FILE).read_bytes() == (short / shortlist.FILE).read_bytes()
    assert shortlist.FILE not in read_folder(export(folder, tmp_path / "plain")).names


def test_several_files_and_what_cannot_have_one(folder, text, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text(LINES[1], encoding="utf-8")
    both = export(folder, tmp_path / "both", shortlist=[text, other])
    expected = shortlist.from_text(tokenizer(), [WORDS, LINES[1]])
    assert tokens_of(both) == set(expected.tolist())
    with pytest.raises(UserError, match="folder of regard"):
        export(folder, tmp_path / "ct2", format="ctranslate2", shortlist=text)
    with pytest.raises(UserError, match="no such shortlist"):
        export("fr-en-luong", tmp_path / "luong", shortlist=text)
    assert not (tmp_path / "ct2").exists() and not (tmp_path / "luong").exists()


def test_for_ctranslate2_it_is_exported_as_vmap(short, folder, tmp_path):
    there = export(short, tmp_path / "ct2", format="ctranslate2")
    pieces = tokenizer().pieces(range(len(tokenizer())))
    tokens = sorted(tokens_of(short))
    assert (there / shortlist.VMAP).read_text(encoding="utf-8") == "\t" + " ".join(pieces[i] for i in tokens) + "\n"
    assert not (export(folder, tmp_path / "none", format="ctranslate2") / shortlist.VMAP).exists()


def test_it_needs_no_torch():
    code = "import sys; import regard.engines.ctranslate2.shortlist; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


# ------------------------------------------------------------------------------------- several target languages

TEXT = "שלום ספר"  # whole words are tokens
TAGGED = {"source": list(CODES), "target": list(CODES), "target_tag": "source", "tags": TAGS}


@pytest.fixture(scope="module")
def several(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("several") / "model", languages=TAGGED)


@pytest.fixture(scope="module")
def lists(several) -> dict[str, np.ndarray]:
    """Each language may write another third of the tokens, and all that spell single letters."""
    every = np.arange(4, regard.load(several, device="cpu", engine="ctranslate2").tokenizer.sizes()["vocabulary"])
    return {code: every[(every % 3 == number) | (every < 12)] for number, code in enumerate(CODES)}


@pytest.fixture(scope="module")
def by_language(several, lists, tmp_path_factory) -> Path:
    return with_file(several, tmp_path_factory.mktemp("by") / "model", shortlist.to_file(lists))


def encoded(translator, lines: list[str], code: str) -> list[list[int]]:
    start = "fr" if code == "de" else "de"
    told = marks(translator.recipe, translator.tokenizer, start, code)
    return [translator.encode(line, told) for line in lines]


def test_each_language_has_its_own(several, by_language, lists):
    free, bound = (regard.load(place, device="cpu", engine="ctranslate2") for place in (several, by_language))
    for code in CODES:
        sources = encoded(bound, sentences(12), code)
        written = [{i for row in it.search(sources, beam=4) for i in row[0].ids} for it in (bound, free)]
        assert written[0] and written[0] <= set(lists[code].tolist())
        assert not written[1] <= set(lists[code].tolist())


def test_sentences_into_several_languages_do_not_share_a_batch(by_language):
    translator = regard.load(by_language, device="cpu", engine="ctranslate2")
    sources = [ids for line in sentences(8) for code in CODES for ids in encoded(translator, [line], code)]
    together = [row[0].ids for row in translator.search(sources, beam=4)]
    assert together == [translator.search([ids], beam=4)[0][0].ids for ids in sources]


def test_files_of_several_languages(several, tmp_path):
    for code in CODES:
        (tmp_path / code).write_text(TEXT, encoding="utf-8")
    named = [f"{code}={tmp_path / code}" for code in CODES]
    made = export(several, tmp_path / "made", precision="int8", shortlist=named)
    assert regard.load(made, device="cpu", engine="ctranslate2").translate("je suis", source="fr", target="de")
    with pytest.raises(UserError, match="a list for each target language: de, fa, fr"):
        export(several, tmp_path / "two", shortlist=named[:2])
    assert not (tmp_path / "two").exists()
