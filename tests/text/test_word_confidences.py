"""The confidences of words through placeholders, sentences that are split, and steps through a third language."""

from __future__ import annotations

import pytest

from regard.confidence.words import Word
from regard.serving.text.chain import compose
from regard.text.alignment import AlignedText
from regard.text.placeholders import PendingSentences
from regard.text.segments import PlainText
from regard.text.word_confidences import Confidences, concatenated, edited


def scored(text: str, whole: float = 0.9) -> AlignedText:
    """Each word with a confidence of one over its length."""
    from regard.confidence.words import word_spans

    words = tuple(Word(start, end, 1 / (end - start)) for start, end in word_spans(text))
    return AlignedText(text, None, Confidences(whole, words))


def shown(text: str, found: Confidences | None) -> dict[str, float]:
    return {text[word.start : word.end]: word.confidence for word in found.words} if found else {}


@pytest.mark.parametrize(
    "sentence", ["Lire https://a.org/x et b@c.org 👍", "Le prix est 1 234 € en {name} ici.", "Oui 👍 non", "Oui."]
)
def test_words_keep_theirs_and_placeholders_have_none(sentence: str) -> None:
    pending = PendingSentences([sentence])
    while asked := pending.next_inputs():
        for n_best, texts in asked.items():
            pending.answer(n_best, [[scored(text.upper())] * n_best for text in texts])
    ((found, *_),) = pending.results()
    told = shown(found.text, found.confidences)
    assert told and all(value == 1 / len(word) and word == word.upper() for word, value in told.items())
    assert {word for word in sentence.upper().rstrip(".").split() if word.isalpha()} <= told.keys()


def test_a_word_that_is_replaced_in_part_has_none() -> None:
    known = Confidences(0.5, (Word(0, 2, 0.1), Word(3, 7, 0.2), Word(8, 9, 0.3)))
    found = edited(known, [("ab c", "ab c"), ("X1", "http"), ("d e", "d e")])
    assert found == Confidences(0.5, (Word(0, 2, 0.1), Word(10, 11, 0.3)))


def test_texts_of_several_sentences() -> None:
    document = PlainText("Un deux.  Trois !\n\n- quatre\n42")
    answers = [scored(text.upper(), 1 / len(text)) for text in document.sentences]
    text, found = document.reassemble(answers), document.confidences(answers)
    assert shown(text, found) == {"UN": 1 / 2, "DEUX": 1 / 4, "TROIS": 1 / 5, "QUATRE": 1 / 6}
    assert found is not None and found.whole == min(1 / len(one) for one in document.sentences)
    assert PlainText("42").confidences([]) is None and concatenated([("a", None)]) is None


def test_through_a_third_language_both_steps_must_be_right() -> None:
    found = compose(scored("milieu", 0.5), scored("the end", 0.8))
    assert found.confidences == Confidences(0.4, scored("the end").confidences.words)  # type: ignore[union-attr]
    assert compose(AlignedText("milieu"), AlignedText("end")).confidences is None
