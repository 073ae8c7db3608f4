"""Sentence splitting, protected spans and placeholders, also with translators that lose everything they can."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from serving.timing import seconds

import regard.text as text_room
from regard.text.alignment import AlignedText, Words, concatenate, word_mapping
from regard.text.placeholders import CHOICES, attempts
from regard.text.sentences import split_text
from regard.text.untranslatable import keeps_numbers, numbers_in, protected_spans

SNIPPETS = [
    *[
        "Bonjour",
        "le chat",
        "M. Dupont",
        "É",
        "x",
        " ",
        "  ",
        "    ",
        "\n",
        "\r\n",
        "\r",
        "\t",
        "\u2028",
        "\u2029",
        "\x0b",
        "\x85",
    ],
    *[
        "- ",
        "* ",
        "• ",
        "1. ",
        "a) ",
        "> ",
        "# ",
        "[x] ",
        ". ",
        "! ",
        "? ",
        "… ",
        ", ",
        "(",
        ")",
        "«\u00a0",
        "\u00a0»",
        "'",
        '"',
    ],
    *[
        "😀",
        "👍🏽",
        "👨‍👩‍👧",
        "1️⃣",
        "🇫🇷",
        "★",
        "→",
        "=",
        "{name}",
        "%s",
        "{{x}}",
        "${y}",
        "<b>",
        "</b>",
        "`code`",
        "@ami",
        "#mot",
    ],
    *[
        "https://a.fr/b?c=1",
        "www.a.org",
        "a@b.fr",
        "f.pdf",
        "12",
        "1 234,5",
        "12,50 €",
        "$5",
        "-12",
        "14h30",
        "X1",
        "a_b",
        "m²",
    ],
    *["\u0301", "\u200b", "\ufeff", "\x00", "\ud800", "\U000f0000", "你好", "سلام"],
]
texts = st.one_of(st.text(max_size=80), st.lists(st.sampled_from(SNIPPETS), max_size=25).map("".join))


def shown(text):
    """Sentences in brackets."""
    return "".join(f"[{piece.text}]" if piece.translatable else piece.text for piece in split_text(text))


@given(texts, st.booleans())
def test_the_pieces_are_the_text_and_sentences_have_no_space_around_them(text, lines):
    pieces = split_text(text, lines)
    assert "".join(piece.text for piece in pieces) == text
    for piece in pieces:
        assert piece.text
        if piece.translatable:
            assert piece.text == piece.text.strip() and any(map(str.isalpha, piece.text))
            assert not lines or len(piece.text.splitlines()) == 1 and "\t" not in piece.text
    assert all(before.translatable or after.translatable for before, after in zip(pieces, pieces[1:]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (" \n", " \n"),
        ("Bonjour. Ça va ?  Oui !", "[Bonjour.] [Ça va ?]  [Oui !]"),
        ("Un.\n\n\nDeux\r\nTrois\rQuatre\u2028Cinq  \n", "[Un.]\n\n\n[Deux]\r\n[Trois]\r[Quatre]\u2028[Cinq]  \n"),
        (
            "\t- Un\n  * Deux\n• Trois\n1. Quatre\na) Cinq\n10) Six",
            "\t- [Un]\n  * [Deux]\n• [Trois]\n1. [Quatre]\na) [Cinq]\n10) [Six]",
        ),
        ("> > Cité\n## Titre\n[ ] À faire\n— Oui.", "> > [Cité]\n## [Titre]\n[ ] [À faire]\n— [Oui.]"),
        ("M. Dupont est là. A. Durand aussi.", "[M. Dupont est là.] [A. Durand aussi.]"),
        ("Nom\tPrénom      Ville", "[Nom]\t[Prénom]      [Ville]"),
        (
            "12 345,6 €\n😀 ! 🎉\nhttps://a.fr/b.\na@b.fr\n{name}\n---\n",
            "12 345,6 €\n😀 ! 🎉\nhttps://a.fr/b.\na@b.fr\n{name}\n---\n",
        ),
        ("😀 Bonjour ! 😀 Ça va 🎉🎉", "😀 [Bonjour !] 😀 [Ça va] 🎉🎉"),
        ("Merci 😊 À demain.", "[Merci] 😊 [À demain.]"),
        ("J'adore 🍕 et 🍣 !", "[J'adore 🍕 et 🍣 !]"),
        ("Voir https://a.fr/b. Puis a@b.fr !", "[Voir https://a.fr/b.] [Puis a@b.fr !]"),
    ],
)
def test_what_is_a_sentence(text, expected):
    assert shown(text) == expected


def test_in_html_the_end_of_a_line_is_a_space():
    assert [piece.text for piece in split_text("Le chat\n  dort. Il\trêve.", lines=False) if piece.translatable] == [
        "Le chat\n  dort.",
        "Il\trêve.",
    ]


@pytest.mark.parametrize(
    ("text", "preserved"),
    [
        ("Voir https://a.fr/b?c=1&d=2, oui", ["https://a.fr/b?c=1&d=2"]),
        ("(voir https://fr.wikipedia.org/wiki/Paris_(Texas)).", ["https://fr.wikipedia.org/wiki/Paris_(Texas)"]),
        (
            "www.exemple.fr ou exemple.fr/page, rapport_final.pdf",
            ["www.exemple.fr", "exemple.fr/page", "rapport_final.pdf"],
        ),
        ("Écrivez à jean.dupont+x@example.org.", ["jean.dupont+x@example.org"]),
        (
            "{name} {{ a.b }} ${x} %s %d %(n)s %5.2f %1$s %@",
            ["{name}", "{{ a.b }}", "${x}", "%s", "%d", "%(n)s", "%5.2f", "%1$s", "%@"],
        ),
        ("100 %d'eau, 50% sont là", []),
        ("12,50 €, $5, 3 M€ et 1 000 £", ["12,50 €", "$5", "3 M€", "1 000 £"]),
        ("👍🏽 👨‍👩‍👧 1️⃣ 🇫🇷 ❤️", ["👍🏽", "👨‍👩‍👧", "1️⃣", "🇫🇷", "❤️"]),
        ("Merci @julie #vacances", ["@julie", "#vacances"]),
        ("`print(x)`, snake_case, x=y, C++, 20 m²", ["`print(x)`", "snake_case", "x=y", "C++", "m²"]),
        ("Bonjour.Comment ça va ? M. X dit : « oui » (n° 5, 20 °C, et/ou).", []),
    ],
)
def test_what_must_come_through(text, preserved):
    assert [text[span.start : span.end] for span in protected_spans(text)] == preserved


@pytest.mark.parametrize(
    ("source", "translation", "kept"),
    [
        ("Il y a 1 234,5 habitants.", "There are 1,234.5 inhabitants.", True),
        ("Il y a 1 234,5 habitants.", "There are 1234.5 inhabitants.", True),
        ("Il y a 1 234,5 habitants.", "There are 234.5 inhabitants.", False),
        ("J'ai 5000 yens.", "I have 500 yen.", False),
        ("J'ai 3 chats.", "I have three cats.", True),
        ("À 14 h 30.", "At 2:30 p.m.", True),
        ("À 14h35 le 23 mars.", "At 14.35 on 23 March.", True),
        ("Il a 14 chats.", "He has 2 cats.", False),
        ("Il fait -12 °C.", "It is 12 °C.", False),
        ("Il fait -12 °C.", "It is −12 °C.", True),
        ("10-15 personnes", "10 to 15 people", True),
        ("Appelez le 01 23 45 67 89.", "Call 01.23.45.67.89.", True),
    ],
)
def test_numbers_may_change_their_separators_but_not_their_digits(source, translation, kept):
    assert keeps_numbers(source, translation) is kept


def test_a_number_with_what_is_written_together_with_it():
    text = "Le vol AF1234 de 14h35, -12 °C, 1 234,5 km, 01 23 45, 4F7-K92."
    assert [text[n.start : n.end] for n in numbers_in(text)] == [
        "AF1234",
        "14h35",
        "-12",
        "1 234,5",
        "01 23 45",
        "4F7-K92",
    ]


def through(sentence, translator, choices=1):
    """A sentence's translation and the number of attempts, as in text/translator.py but without a pool."""
    for number, attempt in enumerate(attempts(sentence), 1):
        found = [[AlignedText(translator(asked, choice)) for choice in range(choices)] for asked in attempt.inputs]
        if answers := attempt.results(found):
            return answers[0].text, number
    raise AssertionError("the last attempt must have an answer")


def upper(text, choice):
    return text.upper()


def forgetful(text, choice):
    """Keeps no digit and no sign: neither numbers nor placeholders."""
    return re.sub(r"X?[0-9]+|[^\w\s.]", "", text).upper()


def test_a_good_translator_needs_one_attempt():
    assert through("va sur https://a.fr/b, {name} !", upper) == ("VA SUR https://a.fr/b, {name} !", 1)
    assert through("ça coûte 12,50 € le 23 mars", upper) == ("ÇA COÛTE 12,50 € LE 23 MARS", 1)
    assert through("bravo 👍🏽 !", upper) == ("BRAVO ! 👍🏽", 1)
    assert through("cool😀 merci, X1 et X2", upper) == ("COOL😀 MERCI, X1 ET X2", 1)


def test_one_that_loses_everything_needs_more():
    assert through("va sur https://a.fr/b, ami", forgetful) == ("VA SUR https://a.fr/b, AMI".replace(",", ""), 2)
    assert through("il a 5000 yens", forgetful) == ("IL A 5000 YENS", 3)
    assert through("je t'aime ❤️ beaucoup", forgetful) == ("JE TAIME BEAUCOUP ❤️", 2)
    assert through("le chat", forgetful) == ("LE CHAT", 1)


def test_of_several_translations_the_first_that_keeps_the_number_is_taken():
    answers = ["about 500 yen", "some 5,000 yen", "5000 yen"]
    (first, *_) = attempts("J'ai 5000 yens.")
    assert first.choices == CHOICES
    assert [answer.text for answer in first.results([[AlignedText(text) for text in answers]])] == answers[1:]
    assert next(attempts("J'ai 5 yens.")).choices == 1


def test_of_what_a_model_has_nothing_to_say_the_words_stay():
    assert through("Le", lambda text, choice: "") == ("Le", 1)


@given(texts)
@example("Voir https://a.fr pour 12,50 € et 5000 yens 😀 !")
def test_nothing_is_ever_lost(text):
    """Whatever a translator drops: all protected spans and numbers of a sentence are in its translation."""
    for piece in split_text(text):
        if piece.translatable:
            made, _ = through(piece.text, forgetful)
            kept = [piece.text[span.start : span.end] for span in protected_spans(piece.text)]
            numbers = re.findall(r"[0-9]{2,}", piece.text)
            assert [part for part in [*kept, *numbers] if part not in made] == []


@given(texts)
@example("Voir https://a.fr pour 12,50 €. Le chat !")
def test_a_translator_that_changes_nothing_only_moves_emoji_behind_the_end(text):
    pieces = split_text(text)
    made = "".join(
        through(piece.text, lambda asked, _: asked)[0] if piece.translatable else piece.text for piece in pieces
    )
    assert sorted("".join(made.split())) == sorted("".join(text.split()))
    if not any(span.decorative for piece in pieces if piece.translatable for span in protected_spans(piece.text)):
        assert made == text


def test_links_follow_words_to_where_they_go():
    sentence = "Voir https://a.fr pour 12,50 € le chat 😀 !"
    attempt = next(attempts(sentence))
    assert attempt.inputs == ["Voir X1 pour X2 le chat !"]
    translation = AlignedText("See the cat for X2 at X1!", [(0, 0), (4, 1), (5, 2), (2, 3), (6, 6)])
    (answer,) = attempt.results([[translation]])
    assert answer.text == "See the cat for 12,50 € at https://a.fr! 😀"
    source, target = sentence.split(), answer.text.split()
    assert sorted((source[s], target[t]) for s, t in answer.alignment) == [
        ("12,50", "12,50"),
        ("12,50", "€"),
        ("Voir", "See"),
        ("chat", "cat"),
        ("https://a.fr", "https://a.fr!"),
        ("le", "the"),
        ("pour", "for"),
        ("€", "12,50"),
        ("€", "€"),
    ]


def test_links_of_a_sentence_that_was_cut():
    *_, last = attempts("va sur https://a.fr ou fuis")
    assert last.inputs == ["va sur", "ou fuis"]
    (answer,) = last.results(
        [[AlignedText("go to", [(0, 0), (1, 1)])], [AlignedText("or run away", [(0, 0), (1, 1), (1, 2)])]]
    )
    assert answer == AlignedText("go to https://a.fr or run away", [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (4, 5)])
    assert last.results([[AlignedText("go to")], [AlignedText("run")]]) == [AlignedText("go to https://a.fr run", None)]


@given(st.lists(st.tuples(st.text("ab ", max_size=6), st.text("ab ", max_size=6)), max_size=8))
def test_words_are_carried_with_the_text(slices):
    words = word_mapping(slices)
    old, new = "".join(a for a, _ in slices), "".join(b for _, b in slices)
    assert len(words) == len(old.split())
    assert all(0 <= word < len(new.split()) for row in words for word in row)
    assert word_mapping([(old, old)]) == [[number] for number in range(len(old.split()))]


@given(st.lists(st.text("ab ", max_size=6), max_size=8))
def test_parts_that_touch_make_one_word(parts):
    text, links = concatenate([(part, part, [(i, i) for i in range(len(part.split()))]) for part in parts])
    assert text == "".join(parts) and links == [(i, i) for i in range(len(Words(text)))]


HUGE = [
    "a",
    "\u0301",
    "e\u0301",
    "()[]{}",
    "((",
    "«»",
    "...",
    "!?",
    "\n",
    "\r\n",
    " ",
    "\t",
    "a. ",
    "Oui. ",
    "1",
    "é",
    "- ",
    "a.b",
    "@",
    "_",
]


@pytest.mark.timeout(120)
def test_S17_a_megabyte_of_anything_is_cut_in_linear_time():
    """Nearly all take under 1 s on a quiet machine; a quadratic algorithm would take hours."""
    spent = seconds(
        f"""
        from regard.text.sentences import split_text
        for unit in {HUGE!r}:
            text = unit * (1_000_000 // len(unit))
            timed(unit, lambda: "".join(piece.text for piece in split_text(text)) == text or exit("lost"))
        """
    )
    assert set(spent) == set(HUGE) and {unit: took for unit, took in spent.items() if took > 5} == {}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_S17_also_of_what_looks_like_things():
    units = [
        "a@",
        "a😀",
        "😀 ",
        "<a ",
        "{a",
        "{{",
        "%",
        "http://",
        "a.fr",
        "$1",
        "123 ",
        "12,",
        "`a",
        "a=",
        "\U000f0000",
        "a\n",
    ]
    spent = seconds(
        f"""
        from regard.text.sentences import split_text
        from regard.text.placeholders import AlignedText, attempts
        def all_of_it(text):
            split_text(text)
            for attempt in attempts(text):
                attempt.results([[AlignedText(asked)] for asked in attempt.inputs])
        for unit in {units!r}:
            for size in (100_000, 800_000):
                timed(unit + str(size), lambda: all_of_it("Mot " + unit * (size // len(unit)) + " fin."))
        """
    )
    assert {unit for unit in units if spent[unit + "800000"] > 3 * 8 * spent[unit + "100000"] + 0.5} == set()


def test_the_http_process_gets_no_torch_from_here():
    modules = sorted(file.stem for file in Path(text_room.__file__).parent.glob("[!_]*.py"))
    assert {"markup", "placeholders", "sentences"} <= set(modules)
    imported = ", ".join([*(f"regard.text.{name}" for name in modules), "regard.serving.text.translator"])
    code = f"import sys, {imported}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
