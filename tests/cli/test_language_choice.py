"""`regard translate` without --from and --to, and strange input: nothing is lost, and one line says why."""

from __future__ import annotations

import json

import pytest

from regard.cli.language_choice import LanguageChoice, check_direction, locale_language, usual_target
from regard.config import recipe_from_dict
from regard.errors import UserError
from regard.task._translation import Translation
from tests.serving.multilingual import write_multilingual

FIVE = recipe_from_dict(
    {"languages": {"source": ["de", "en", "es", "fa", "fr"], "target": ["de", "en", "es", "fa", "fr"]}}
)
ONE = recipe_from_dict({"source_language": "fr", "target_language": "en"})
TEXTS = {
    "de": "Ich wohne seit drei Jahren in einem kleinen Haus am See.",
    "en": "I have lived in a small house by the lake for three years.",
    "es": "Vivo desde hace tres años en una casa pequeña junto al lago.",
    "fa": "من سه سال است که در خانه‌ای کوچک کنار دریاچه زندگی می‌کنم.",
    "fr": "J'habite depuis trois ans dans une petite maison au bord du lac.",
    "ja": "私は三年前から湖のほとりの小さな家に住んでいます。",
}


class Fake:
    """Answers with the languages it was told; nothing to texts with the word nothing."""

    engine = "fake"

    def __init__(self, recipe=FIVE) -> None:
        self.recipe = recipe
        self.calls = 0

    def translate(self, texts, *, source=None, target=None, warn=None, progress=None, **options):
        self.calls += 1
        for number, text in enumerate(texts, 1):
            if len(text) > 5000:
                warn(f"text {number} is longer than the model's 128 tokens and was split into 80 parts")
        return [Translation(text, "" if "nothing" in text else f"{source}>{target}") for text in texts]


@pytest.fixture
def locale(monkeypatch):
    def put(value: str) -> None:
        for name in ("LC_ALL", "LC_MESSAGES"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("LANG", value)

    put("C")
    return put


def choose(texts, recipe=FIVE, source=None, target=None, **options):
    warned: list[str] = []
    choice = LanguageChoice(Fake(recipe), "five", source, target)
    found = choice.translate(texts, warn=warned.append, **options)
    return [one.text for one in found], warned


@pytest.mark.parametrize(
    ("environment", "code"),
    [
        ({"LANG": "fr_FR.UTF-8"}, "fr"),
        ({"LANG": "de_AT@euro", "LC_ALL": "fa_IR"}, "fa"),
        ({"LANG": "de_DE", "LC_ALL": "", "LC_MESSAGES": "es_ES"}, "es"),
        ({"LANG": "pt_BR.UTF-8"}, "pb"),
        ({"LANG": "C.UTF-8"}, ""),
        ({"LANG": "POSIX"}, ""),
        ({}, ""),
    ],
)
def test_the_language_of_the_locale(environment, code):
    assert locale_language(environment) == code


def test_into_english_and_from_english_into_the_locale(locale):
    locale("fa_IR.UTF-8")
    found, warned = choose([TEXTS[code] for code in ("de", "en", "es", "fa", "fr")])
    assert found == ["de>en", "en>fa", "es>en", "fa>en", "fr>en"] and warned == []


@pytest.mark.parametrize("name", ["C", "en_US.UTF-8", "ja_JP.UTF-8"])
def test_of_english_the_target_must_be_said_if_the_locale_does_not(locale, name):
    locale(name)
    with pytest.raises(
        UserError, match="'I have lived.* is in English; name the language .* with --to: de, es, fa, fr"
    ):
        choose([TEXTS["en"]])
    assert choose([TEXTS["en"]], target="es")[0] == ["en>es"]
    with pytest.raises(UserError, match="^the text is in English"):
        check_direction(FIVE, "en", None, locale_language())


def test_what_is_asked_for_counts(locale):
    locale("fr_FR")
    assert choose(list(TEXTS.values())[:5], target="de")[0] == [TEXTS["de"], "en>de", "es>de", "fa>de", "fr>de"]
    assert choose([TEXTS["de"]], source="fr")[0] == ["fr>en"], "a wrong --from is the user's word"
    assert choose([TEXTS["de"]], source="en")[0] == ["en>fr"]
    assert usual_target(ONE, "fr", "de") == "", "one direction needs no rule"
    without_english = recipe_from_dict({"languages": {"source": ["de", "fr"], "target": ["de", "fr", "fa"]}})
    with pytest.raises(UserError, match="say which, by target or --to"):
        check_direction(without_english, None, None, "fa")


def test_a_word_that_looks_like_the_target_is_translated(locale):
    assert all(one.endswith(">es") and one != "es>es" for one in choose(["Sí", "no", "Ok.", "Madrid"], target="es")[0])
    assert all(one.endswith(">en") for one in choose(["Hello", "Ok.", "No", "fine"])[0]), "and nothing is refused"
    locale("es_ES")
    assert choose(["Hello, my friend!"])[0] == ["en>es"]


def test_english_lines_between_others_stay_where_nothing_says_what_they_are_to_become(locale):
    locale("C")
    found, warned = choose([TEXTS["de"], "I am a student here.", TEXTS["fr"], TEXTS["en"]])
    assert found == ["de>en", "I am a student here.", "fr>en", TEXTS["en"]]
    assert warned == ["text 2 (and 1 more) is in English and stays as it is; --to says what to translate it to"]
    with pytest.raises(UserError, match="is in English; name the language"):
        choose(["I am a student here."])


def test_a_language_that_the_model_lacks_is_kept_with_one_line():
    found, warned = choose([TEXTS["ja"], TEXTS["fr"], TEXTS["ja"]])
    assert found == [TEXTS["ja"], "fr>en", TEXTS["ja"]]
    assert warned == [
        "text 1 (and 1 more) is in ja (Japanese), but five translates from de, en, es, fa, fr; it is left as it is (--from overrides this)"
    ]
    found, warned = choose([TEXTS[code] for code in TEXTS], ONE)
    assert found == [TEXTS[code] if code != "fr" else "None>None" for code in TEXTS]
    assert [line.split(",")[0] for line in warned] == [
        "text 1 is in de (German)",
        "text 3 is in es (Spanish)",
        "text 4 is in fa (Persian)",
        "text 6 is in ja (Japanese)",
    ], "what is English already needs no warning"


LONG = "La maison est grande. " * 455
STRANGE = {
    "mixed": "Le chat dort, but the dog is awake and the bird sings.",
    "emoji": "😀🎉👨‍👩‍👧",
    "url": "https://example.org/a?b=c#d",
    "two urls": "www.example.org, https://example.com",
    "code": "for (int i = 0; i < n; i++) { total += values[i]; }",
    "capitals": "IL FAUT FERMER LA PORTE AVANT DE PARTIR !",
    "empty": "",
    "spaces": " \t ",
    "long": LONG,
    "right to left with numbers": "در سال ۱۳۹۹ حدود 250 نفر آمدند.",
    "numbers": "12 345,67 – 8 %",
    "punctuation": "…?!",
    "one letter": "a",
    "zero-width": "\u200b",
    "marks": "\u0301\u0301",
    "lost": "Cette phrase ne donne nothing.",
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("recipe", [ONE, FIVE], ids=["fr-en", "five"])
@pytest.mark.parametrize("source", [None, "fr"])
def test_strange_input_is_never_lost(name, recipe, source, locale):
    locale("fr_FR.UTF-8")
    text = STRANGE[name]
    (found,), warned = choose([text], recipe, source=source)
    assert bool(found) == bool(text.strip()), "as many lines, and none of them empty"
    assert len(warned) <= 1 and all("\n" not in line and line.startswith("text 1 ") for line in warned)
    if name in ("emoji", "url", "two urls", "numbers", "punctuation"):
        assert found == text and not warned


def test_messages_and_lines_keep_their_numbers():
    found, warned = choose(["😀", TEXTS["de"], LONG, TEXTS["fr"], "Das ergibt nothing, aber es bleibt stehen."])
    assert found == ["😀", "de>en", "fr>en", "fr>en", "Das ergibt nothing, aber es bleibt stehen."]
    assert [line.split(" is ")[0].split(" has ")[0] for line in warned] == ["text 5", "text 3"]
    seen: list[int] = []
    choose(["😀", TEXTS["de"]], progress=seen.append)
    assert seen == [1], "what is not translated counts; the rest the translator counts"


def test_runs_of_sentences_are_translated_from_their_own_languages(locale):
    mixed = f"{TEXTS['fr']} {TEXTS['de']} Das ist wahr. {TEXTS['en']}"
    assert choose([mixed, TEXTS["es"]], target="es")[0] == ["fr>es de>es en>es", TEXTS["es"]]
    assert choose([mixed])[0] == [f"fr>en de>en {TEXTS['en']}"], "what is English stays"
    assert choose([mixed], source="fr")[0] == ["fr>en"], "--from is the user's word"
    assert choose([f"{TEXTS['fr']} {TEXTS['en']}"], ONE)[0] == [f"fr>en {TEXTS['en']}"]
    found, warned = choose([TEXTS["fr"], f"{TEXTS['fr']} {TEXTS['ja']} {TEXTS['fr']}"])
    assert found == ["fr>en", f"fr>en {TEXTS['ja']} fr>en"] and warned[0].startswith("text 2 is in ja (Japanese)")
    choice = LanguageChoice(Fake(), "five", None, "en")
    (one,) = choice.translate([f"{TEXTS['fr']} {TEXTS['en']}"], n_best=3, alignment=True)
    assert [two.text for two in one.alternatives] == [one.text] * 2 and one.source.startswith(TEXTS["fr"])
    locale("C")
    english = f"{TEXTS['en']} She is my sister."
    assert choose([f"{english} {TEXTS['de']}"]) == ([f"{english} de>en"], []), "nothing says what English is to become"
    locale("fr_FR")
    assert choose([f"{english} {TEXTS['de']}"]) == (["en>fr de>fr"], [])


def test_a_chain_keeps_its_own_languages():
    chain = LanguageChoice(Fake(ONE), "a and b", None, "es", alone=False)
    assert [one.text for one in chain.translate([TEXTS["ja"], "nothing", "42"])] == ["None>es", "nothing", "42"]


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    return write_multilingual(tmp_path_factory.mktemp("models") / "five")


def test_the_command_translates_as_the_model_does(five, run_regard, locale):
    locale("fr_FR.UTF-8")
    lines = [TEXTS[code] for code in ("de", "en", "fa", "ja")]
    out, err = run_regard("translate", "-m", five, *lines)
    wanted = [
        run_regard("translate", "-m", five, "--from", code, "--to", to, TEXTS[code])[0].rstrip("\n")
        for code, to in (("de", "en"), ("en", "fr"), ("fa", "en"))
    ]
    assert len(set(wanted)) == 3
    assert out.splitlines() == [*wanted, TEXTS["ja"]]
    assert "line 4 is in ja (Japanese), but" in err and all(
        line.startswith("regard: line ") for line in err.splitlines()
    )
    assert run_regard("translate", "-m", five, "-q", *lines) == (out, "")
    told = json.loads(run_regard("translate", "-m", five, "--json", "--alignment", TEXTS["ja"])[0])
    assert told["text"] == TEXTS["ja"] and told["alignment"] == [] and told["finished"]
    locale("C")
    assert "is in English; name the language" in run_regard("translate", "-m", five, TEXTS["en"], code=2)[1]
    assert "is in English; name the language" in run_regard("translate", "-m", five, "--from", "en", "x", code=2)[1]


def test_the_shipped_translator_leaves_what_it_cannot_translate(run_regard):
    out, err = run_regard("translate", TEXTS["ja"], "😀", "Je suis étudiant.", "https://example.org", "", "a")
    assert out.splitlines() == [TEXTS["ja"], "😀", "I'm a student.", "https://example.org", "", "a"]
    assert err.splitlines()[0].startswith(
        "regard: line 1 is in ja (Japanese), but fr-en translates from fr; it is left"
    )


def test_the_model_sees_no_emoji_and_they_stay_where_they_were():
    class Capitals(Fake):
        def translate(self, texts, **options):
            self.seen += texts
            return [Translation(text, text.upper()) for text in texts]

    translator = Capitals(ONE)
    translator.seen = []
    choice = LanguageChoice(translator, "one", "fr", None)
    lines = ["Merci 👍🏽", "Bonjour.", "Bon 😀 voyage, mes amis 🎉🎉"]
    seen: list[int] = []
    assert [one.text for one in choice.translate(lines, progress=seen.append)] == [line.upper() for line in lines]
    assert not any(ord(letter) > 0x1F000 for text in translator.seen for letter in text)
    assert sum(seen) == 2  # of the other line its translator tells
