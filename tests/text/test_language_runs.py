"""Texts in several languages: which sentences belong together, and that the best path is the best of all paths."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text import language_runs as room
from regard.text.language_runs import Run, language_runs, main_language, sentence_languages

FIVE = ("de", "en", "es", "fa", "fr")
FRENCH = "Je suis arrivé hier soir. Il pleuvait beaucoup."
GERMAN = "Leider haben wir den Zug verpasst. Das war schade."


def shown(text: str, languages=FIVE) -> list[tuple[str, str]]:
    return [(run.language, run.text.strip()) for run in language_runs(text, languages)]


def test_french_and_german_sentences() -> None:
    assert shown(f"{FRENCH} {GERMAN}\n\n{FRENCH}") == [("fr", FRENCH), ("de", GERMAN), ("fr", FRENCH)]


@pytest.mark.parametrize(
    "text",
    [
        "J'ai lu « The Lord of the Rings » dans le train. C'était bien.",
        "Il travaille chez Deutsche Bank. C'est un workaholic. OK. Merci beaucoup, Herr Schmidt.",
        "Il m'a dit : “I love you so much, my darling.” Je suis parti sans répondre.",
        "Non. Oui. Jamais. Je ne sais pas où il est.",
    ],
)
def test_words_and_titles_do_not_change_the_language(text: str) -> None:
    assert shown(text) == [("fr", text)]


def test_another_language_is_named_none_of_them() -> None:
    text = f"{FRENCH} 私は三年前から湖のほとりの小さな家に住んでいます。 {FRENCH}"
    assert [language for language, _ in shown(text)] == ["fr", "", "fr"]


@given(st.text(alphabet="ab .!?\n-1é", max_size=60))
@settings(max_examples=50)
def test_the_runs_are_the_text(text: str) -> None:
    runs = language_runs(text, ("fr", "en"))
    assert "".join(run.text for run in runs) == text
    assert all(before.language != after.language for before, after in itertools.pairwise(runs))


def test_no_sentence_and_one_language() -> None:
    assert language_runs("", FIVE) == [] and language_runs("😀 42\n", FIVE) == [Run("😀 42\n", "")]
    assert sentence_languages(["Oui.", "Yes."], ["fr"]) == ["fr", "fr"]
    assert main_language(["Oui.", "Yes, of course.", "42"], ["fr", "en", ""]) == "en"
    assert main_language([], []) == ""


@given(st.lists(st.lists(st.floats(0.001, 1), min_size=3, max_size=3), min_size=1, max_size=5))
@settings(max_examples=40)
def test_the_path_is_the_best_of_all_paths(likelihoods: list[list[float]]) -> None:
    codes = ("a", "b", "c")
    table = {str(n): dict(zip(codes, map(math.log, row))) for n, row in enumerate(likelihoods)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "is_another_language", lambda *_: False)
        patch.setattr(room, "_log_likelihoods", lambda sentence, _: table[sentence])
        found = sentence_languages(list(table), codes)

    def score(path) -> float:
        changes = sum(before != after for before, after in itertools.pairwise(path))
        return sum(table[str(n)][code] for n, code in enumerate(path)) - room.SWITCH * changes

    assert score(found) == pytest.approx(max(map(score, itertools.product(codes, repeat=len(table)))))
