"""Each check finds what it is for, and leaves alone what real translations do."""

from __future__ import annotations

import pytest

from regard.checks import CHECKS, Finding, findings
from regard.glossary import Glossary

LONG = "Le comité a examiné hier toutes les propositions qui lui avaient été présentées par les membres du conseil."

WRONG = [
    ("fr", "en", LONG, "The committee.", "length", "far shorter than usual: 14 characters for 107"),
    ("fr", "en", "Oui, merci.", "Yes, thank you very much for all that you have done for me and my family.", "length", "far longer"),
    ("fr", "en", "Bonjour.", " ", "length", "is empty"),
    ("fr", "en", LONG, LONG, "copied", "is the source text"),
    ("fr", "en", LONG, "The committee a examiné hier toutes les propositions of the members of the council of the town.", "untranslated", "'a examiné hier toutes les propositions'"),
    ("en", "fa", "She opened the umbrella slowly.", "او دیروز در خیابان بزرگ شهر umbrella را slowly باز کرد.", "untranslated", "'umbrella slowly' is not"),
    ("fr", "en", LONG, "Der Ausschuss hat gestern alle Vorschläge geprüft, die ihm die Mitglieder vorgelegt hatten.", "language", "looks like German, not English"),
    ("fr", "en", "Il est parti sans rien dire.", "He left left left without a word.", "repetition", "'left' is repeated"),
    ("fr", "en", LONG, "The committee examined all of the committee examined all of the proposals that members had made.", "repetition", "'the committee examined all of' is repeated"),
    ("fr", "en", "Il a 25 ans.", "He is 52 years old.", "numbers", "25 of the source is missing; the translation has 52"),
    ("fa", "en", "او در سال ۱۹۸۴ به دنیا آمد.", "He was born in 1948.", "numbers", "1984 of the source"),
    ("fr", "en", "La loi date de 1987.", "The law is old.", "numbers", "1987 of the source is missing"),
    ("fr", "en", "Hier, le président Sarkozy a parlé.", "Yesterday President Sarpozy spoke.", "names", "'Sarkozy' of the source is written 'Sarpozy'"),
    ("en", "de", "We met Jon Villarreal there.", "Wir haben dort Jon Villareal getroffen.", "names", "'Villareal'"),
    ("en", "fr", "Delete %d files from %(name)s?", "Supprimer les fichiers de %(name)s ?", "placeholders", "'%d' of the source is missing"),
    ("en", "fr", "Hello {name}, see <b>here</b>.", "Bonjour {nom}, voir <b>ici.", "placeholders", "'{name}', '</b>' of the source is missing"),
    ("en", "fr", "See https://example.org/a.", "Voir https://example.org/b.", "placeholders", "'https://example.org/a'"),
]  # fmt: skip

RIGHT = [
    ("fr", "en", "Oui.", "Yes, it is."),
    ("fr", "en", "Nicolas Sarkozy, Paris, 12 mai 2007", "Nicolas Sarkozy, Paris, 12 May 2007"),
    ("fr", "en", "OK", "OK"),
    ("en", "fr", "git clone --depth 1", "git clone --depth 1"),
    ("fr", "en", "Il est 14h30 et il fait 1 234,5 degrés.", "It is 2:30 p.m. and 1,234.5 degrees."),
    ("fr", "en", "Il gagne 3 000 000 euros.", "He earns 3 million euros."),
    ("fr", "en", "Dans les années 1990, il avait 12 ans.", "In the '90s he was twelve."),
    ("en", "fa", "She paid 1,500 dollars in 2017.", "او در سال ۲۰۱۷ ۱۵۰۰ دلار پرداخت."),
    ("fr", "en", "C'est la première fois en 100 ans.", "It is the first time in a century."),
    ("fr", "en", "Londres, Moscou, l'Italie et le Parlement en décembre.", "London, Moscow, Italy and Parliament in December."),
    ("es", "en", "El Departamento de la Unión Nacional está en Nápoles.", "The Department of the National Union is in Naples."),
    ("fr", "en", "Non, non, non !", "No, no, no!"),
    ("fr", "en", "Je suis si heureux !", "I am so happy, so happy!"),
    ("es", "fr", "La casa de la playa de la isla.", "La maison de la plage de la petite île."),
    ("en", "fr", "It grew by 5 % and then 100% of it was lost.", "Il a augmenté de 5 % puis 100 % en a été perdu."),
    ("en", "fr", "Terms &amp; conditions", "Conditions générales"),
    ("fr", "ja", "Le comité a examiné hier toutes les propositions.", "委員会は昨日すべての提案を検討した。"),
    ("", "", LONG, "The committee examined all the proposals that had been made by the council members yesterday."),
    ("fr", "en", "", "Something."),
]  # fmt: skip


@pytest.mark.parametrize(("source_language", "target_language", "source", "target", "check", "message"), WRONG)
def test_found(source_language: str, target_language: str, source: str, target: str, check: str, message: str) -> None:
    found = findings(source, target, target_language, source_language)
    assert message in next((one.message for one in found if one.check == check), ""), found


@pytest.mark.parametrize(("source_language", "target_language", "source", "target"), RIGHT)
def test_left_alone(source_language: str, target_language: str, source: str, target: str) -> None:
    assert findings(source, target, target_language, source_language) == []


def test_terms_of_a_glossary() -> None:
    terms = Glossary.of([("chien|chiens", "dog|dogs"), ("chat", "cat", "prefer")])
    assert findings("Le chien et le chien dorment.", "The dog and the hound sleep.", glossary=terms) == [
        Finding("glossary", "'chien' must be translated 'dog' or 'dogs' 2 times")
    ]
    assert findings("Les chiens et le chat dorment.", "The dogs and the tomcat sleep.", glossary=terms) == []


def test_numbers_and_names_of_tags_are_those_of_placeholders_alone() -> None:
    found = findings('Voir <a href="x/1234">ici</a>.', "See here.", "en", "fr")
    assert [one.check for one in found] == ["placeholders"]


def test_every_check_has_an_example() -> None:
    assert {check for *_, check, _ in WRONG} | {"glossary"} == CHECKS.keys()
