"""The languages of a translator: from file names, else from the text, stated later by export and serve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from regard.config import Recipe, read_recipe
from regard.data.corpus import pair_languages as module
from regard.data.corpus.pair_languages import pair_languages, with_languages
from regard.errors import UserError
from regard.languages import split_pair
from regard.loading import export
from regard.pretrained import shipped_models
from regard.serving.catalogue import read_models
from regard.storage import read_folder, write_folder

FRENCH = "Bonjour, je suis très content d'être ici.\nOù se trouve la gare, s'il vous plaît ?\n"
ENGLISH = "Hello, I am very happy to be here.\nWhere is the station, please?\n"


@pytest.mark.parametrize(
    "sources, targets, languages",
    [
        (["train.de"], ["train.en"], ("de", "en")),
        (["a/corpus.fr-en.fr"], ["a/corpus.fr-en.en"], ("fr", "en")),
        (["europarl.de.gz", "news.de.xz"], ["europarl.en.gz", "news.en.xz"], ("de", "en")),
        (["train.pt_BR.txt"], ["train.zh-Hant.txt.zst"], ("pb", "zt")),
        (["pairs.fr-en.tsv"], [], ("fr", "en")),
        (["pairs.fr-en.tsv.gz#2"], ["pairs.fr-en.tsv.gz#1"], ("en", "fr")),
    ],
)
def test_file_names_tell_the_languages(sources: list[str], targets: list[str], languages: tuple[str, str]) -> None:
    assert pair_languages(sources, targets) == languages


def corpus(folder: Path, source: str = FRENCH, target: str = ENGLISH, names: tuple[str, str] = ("a.src", "a.tgt")):
    for name, text in zip(names, (source, target), strict=True):
        (folder / name).write_text(text)
    return [str(folder / names[0])], [str(folder / names[1])]


def test_else_the_text_tells_them(tmp_path: Path) -> None:
    pytest.importorskip("fasttext")
    assert pair_languages(*corpus(tmp_path)) == ("fr", "en")
    assert pair_languages(*corpus(tmp_path, "3 7 1\n", "1 7 3\n")) == ("", "")
    assert pair_languages(*corpus(tmp_path, ENGLISH, ENGLISH)) == ("", ""), "two languages are wanted"
    names = ("train.en", "valid.en")
    assert pair_languages(*corpus(tmp_path, FRENCH, ENGLISH, names)) == ("fr", "en"), "names that cannot be right"


def test_without_the_package_nothing_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_installed", lambda: False)
    assert pair_languages(*corpus(tmp_path)) == ("", "")


def resolved(stated: Recipe, start: Recipe | None = None, files: tuple[str, str] = ("x.de", "x.en")):
    notes: list[str] = []
    known = start or Recipe()
    recipe = replace(
        stated,
        source_language=stated.source_language or known.source_language,
        target_language=stated.target_language or known.target_language,
    )
    recipe.data.source, recipe.data.target = [files[0]], [files[1]]
    found = with_languages(recipe, stated, notes.append)
    return found.source_language, found.target_language, " ".join(notes)


def test_stated_languages_win_and_those_of_the_start_are_compared() -> None:
    assert resolved(Recipe(source_language="nl", target_language="fr"))[:2] == ("nl", "fr")
    assert resolved(Recipe(source_language="nl"))[:2] == ("nl", "en")
    assert resolved(Recipe())[:2] == ("de", "en") and "German (de)" in resolved(Recipe())[2]
    start = Recipe(source_language="en", target_language="de")
    assert resolved(Recipe(), start)[:2] == ("en", "de")
    assert "warning" in resolved(Recipe(), start)[2] and "warning" not in resolved(Recipe(), start, ("x.en", "x.de"))[2]


def test_a_name_instead_of_a_code_is_refused_with_the_code() -> None:
    with pytest.raises(UserError, match="source_language: 'French' is no language code; write fr"):
        resolved(Recipe(source_language="French"))


@pytest.mark.parametrize(
    "text, pair",
    [("fr-en", ("fr", "en")), ("pt-BR-en", ("pt-BR", "en")), ("en-zh-Hant", ("en", "zh-Hant"))]
    + [(text, None) for text in ("fr", "fr-", "model", "one-two")],
)
def test_a_pair_of_codes(text: str, pair: tuple[str, str] | None) -> None:
    assert split_pair(text) == pair


@pytest.fixture
def silent(tmp_path: Path) -> Path:
    """A model that does not say its languages."""
    from regard.config import to_toml

    shipped = read_folder(shipped_models()["fr-en-plain"])
    files = {name: (shipped.path / name).read_bytes() for name in shipped.names}
    recipe = replace(read_recipe(shipped.path), source_language="", target_language="")
    write_folder(tmp_path / "silent", files | {"recipe.toml": to_toml(recipe).encode()})
    return tmp_path / "silent"


def test_serve_states_languages_without_touching_the_folder(silent: Path) -> None:
    before = {file.name: file.read_bytes() for file in silent.iterdir()}
    with pytest.raises(UserError, match=f"--model fr-en={silent}"):
        read_models(str(silent))
    (served,) = read_models(f"fr-pt-BR={silent}")
    assert (served.name, served.source, served.target) == ("silent", "fr", "pb")
    for wrong in (f"french-english={silent}", "fr-en=fashion", "fr-en=no-such-model"):
        with pytest.raises(UserError):
            read_models(wrong)
    assert {file.name: file.read_bytes() for file in silent.iterdir()} == before


def test_export_states_languages_in_a_new_folder(silent: Path, tmp_path: Path) -> None:
    folder = export(silent, tmp_path / "said", "float32", source_language="fr", target_language="en")
    (served,) = read_models(str(folder))
    assert (served.source, served.target) == ("fr", "en")
    assert read_folder(folder).weights().keys() == read_folder(silent).weights().keys(), "and its hashes are right"
    with pytest.raises(UserError, match="languages are for models that translate"):
        export("fashion", tmp_path / "no", "int8", source_language="fr")
