"""Where sentences end: each list, joined by spaces, comes back as it is."""

from __future__ import annotations

import pytest

from regard.task._sentence_boundaries import sentences
from regard.text.alignment import AlignedText
from regard.text.segments import PlainText
from tools.sentence_boundaries import ends, measure

TEXTS = {
    "en": [
        ["Dr. Smith met Mrs. J. K. Jones at 5 p.m. on Jan. 3rd.", "She was late."],
        ["He moved to the U.S. in 1999.", "It cost $3.50, i.e. nothing.", "See Fig. 2, pp. 12 and No. 7."],
        ["They live in the U.S. Senate district.", "Nobody left the U.S.", "The end."],
        ['"Why me?" he asked.', '"I don\'t know."', "She laughed... and left.", "Then what?", "No.", "Never!"],
        ["Acme Inc. of London owns it.", "I never was better than I.", "He is taller."],
        ["Version 2.0.1 is at https://example.org/a.b?c=D.", "Download it."],
        ["Apples, pears, etc. are fruit.", "I like apples, pears, etc.", "You don't."],
        ["1. Open the box.", "2. Close it."],
        ["(He was late.)", "[She was not.]", "They left."],
    ],
    "fr": [
        ["M. Dupont et Mme Durand sont là.", "« Vraiment ? »", "Oui !", "Il dit... que non."],
        ["Voir p. 4, art. 5 et n° 3.", "Il y en a.", "C’est tout…", "« Non ! », dit-elle.", "D'accord."],
        ["Le Pr. Martin vit en 2003.", "Depuis, il a 3,5 enfants, c.-à-d. beaucoup."],
        ["Je lis Zola, Hugo, etc.", "Il lit aussi."],
    ],
    "de": [
        ["Am 3. Oktober war Feiertag.", "Der 2. Weltkrieg endete 1945.", "Danach kam das 20. Jahrhundert zum Stehen."],
        [
            "Er sagte: „Ich komme am 15. und 19. Mai.“",
            "Dann ging er.",
            "»Nein!«",
            "So z. B. Häuser, d. h. Gebäude usw.",
        ],
        ["Das kostet 4 Mio. Euro bzw. Dollar.", "Siehe Abs. 3, Nr. 5 und S. 7.", "Dr. Ingo Friedrich ist da."],
        ["Das war vor 2003.", "Diesen Termin müssen wir festlegen.", "Ich zähle bis 12.", "Die Uhr schlägt."],
        ["Hans mag.", "Peter nicht.", "Im 17. Bezirk steht es."],
    ],
    "es": [
        ["¿Dónde está el Sr. García?", "¡No lo sé!", "La Sra. López vive en EE. UU. desde 1999.", "¿Y usted?"],
        ["Viajó a EE. UU.", "La Dra. Ruiz no.", "Véase la pág. 4 y el art. 5.", "“Es cierto”.", "Nada más…"],
        ["Trabaja en I. A. oficial.", "Ud. sabe más."],
    ],
    "fa": [
        ["آقای م. رضایی آمد.", "کجا بود؟", "«نمی‌دانم.»", "او رفت…", "ما ۳.۵ کیلو سیب خریدیم!", "بله."],
        ["ر.ک. به ص. ۱۲ این کتاب.", "خیلی خوب است."],
    ],
}


@pytest.mark.parametrize(("language", "number"), [(code, at) for code in TEXTS for at in range(len(TEXTS[code]))])
def test_every_sentence_comes_back(language: str, number: int) -> None:
    expected = TEXTS[language][number]
    assert sentences(" ".join(expected)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [""]),
        ("... Und dann?! Nichts.", ["... Und dann?!", "Nichts."]),
        ("2. Die Erweiterung kostet.", ["2. Die Erweiterung kostet."]),
        ("今日は晴れです。明日は？「雨です。」そうか。", ["今日は晴れです。", "明日は？", "「雨です。」", "そうか。"]),
        ("یہ اچھا ہے۔ وہ گیا۔", ["یہ اچھا ہے۔", "وہ گیا۔"]),
    ],
)
def test_other_cases(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_paragraphs_and_blank_lines_survive_to_the_byte() -> None:
    text = "\n\nM. Dupont.  Il vient.\r\n\r\n\n  1. « Oui. »\tNon.\n\n\n\u00a0\n- Fin…\n \n"
    given = PlainText(text)
    assert given.sentences == ["M. Dupont.", "Il vient.", "« Oui. »", "Non.", "Fin…"]
    assert given.reassemble([AlignedText(one) for one in given.sentences]) == text


def test_what_the_measure_counts() -> None:
    lines = ["One.", "Two.", "Three."]
    assert ends(lines) == {4, 8}
    assert measure(lines, sentences)[:2] == (1.0, 1.0)
    assert measure(lines, lambda text: [text])[0] == 0.0
    recall, precision, wrong = measure(lines, lambda text: text.replace("T", " T ").split())
    assert (recall, precision) == (1.0, 0.5) and len(wrong) == 2
