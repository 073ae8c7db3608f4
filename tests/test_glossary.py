"""Glossaries: files, and which translations a text calls for and has."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import UserError
from regard.glossary import Form, Glossary, Term, Wanted

ANIMALS = Glossary.of(
    [("chien", "dog"), ("chien de garde", "watchdog"), ("Médor", "Rex"), ("été", "summer|summertime", "prefer")]
)


def found(text: str) -> list[str]:
    return [text[start:end] for start, end, _ in ANIMALS.occurrences(text)]


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("# animals\nchien\tdog\n\nété|l'été\tsummer | summertime\tprefer\n", "utf-8-sig")
    glossary = Glossary.read(path)
    assert glossary.terms == (
        Term(("chien",), ("dog",)),
        Term(("été", "l'été"), ("summer", "summertime"), "prefer"),
    )
    assert Glossary.of(glossary.rows()) == glossary


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("chien\tdog\nchat\n", "line 2: has 1 columns"),
        ("chien\tdog\tmay\n", "line 1: 'may' in the third column"),
        ("chien\t | \n", "line 1: the translation is empty"),
        ("chien\tdog\nchien\thound\n", "'chien' is there twice, as 'dog' and 'hound'"),
        ("chien\t" + "x" * 201 + "\n", "200 characters at most"),
    ],
)
def test_a_mistake_in_a_file_is_one_line_that_says_where(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        Glossary.read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("été\tsummer".encode("latin-1"))
    with pytest.raises(UserError, match="UTF-8"):
        Glossary.read(tmp_path / "latin")
    with pytest.raises(UserError, match="cannot be read"):
        Glossary.read(tmp_path / "missing")


def test_terms_are_found_at_word_boundaries_the_longest_first() -> None:
    assert found("Le chien de garde et le chien.") == ["chien de garde", "chien"]
    assert found("chiens, chienchien, archichien, le-chien") == ["chien"]
    assert found("l'été et (chien)") == ["été", "chien"]


def test_a_term_in_lower_case_is_found_in_any_case_and_a_name_only_as_it_is() -> None:
    assert found("CHIEN Chien chien") == ["CHIEN", "Chien", "chien"]
    assert found("Médor médor") == ["Médor"]


def test_terms_of_scripts_without_spaces_need_no_boundary() -> None:
    assert [term.targets for _, _, term in Glossary.of([("机器", "machine")]).occurrences("这台机器很好")] == [
        ("machine",)
    ]


def test_a_text_calls_for_a_translation_as_often_as_its_term_occurs() -> None:
    (one,) = ANIMALS.wanted("un chien et un chien")
    assert (one.times, one.places) == (2, ((3, 8), (15, 20)))
    assert one.words("un chien et un chien") == [1, 4]
    assert one.is_in("a dog and a dog") and not one.is_in("a dog and a cat")


def test_case_follows_the_text() -> None:
    (plain,) = ANIMALS.wanted("un chien dort")
    assert plain.is_in("Dog barks") and plain.is_in("a dog") and plain.is_in("Yes. Dog barks.")
    assert not plain.is_in("a Dog") and not plain.is_in("a DOG")
    (capitals,) = ANIMALS.wanted("UN CHIEN DORT")
    assert capitals.is_in("A DOG SLEEPS")
    (title,) = ANIMALS.wanted("Le Chien Perdu")
    assert title.is_in("The Dog Lost")
    (name,) = ANIMALS.wanted("avec Médor")
    assert name.is_in("with Rex") and not name.is_in("with rex")


def test_an_obligatory_translation_is_a_whole_word_and_a_preferred_one_may_be_inflected() -> None:
    dog, summer = (ANIMALS.wanted(text)[0] for text in ("chien", "été"))
    assert not dog.is_in("dogs") and not dog.is_in("hotdog") and dog.is_in("(dog)")
    assert summer.is_in("two summers") and summer.is_in("summertime") and not summer.is_in("summerhouse")


def test_only_what_occurs_is_kept() -> None:
    assert [term.sources for term in ANIMALS.occurring(["Bonjour", "Le chien"]).terms] == [("chien",)]


def test_a_form_counts_once_at_every_place_where_it_ends() -> None:
    assert Wanted((Form("a a"), Form("a"))).count("a a a") == 3
