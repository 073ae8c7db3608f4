"""HTML: only sentences change, and tags follow the words they enclose."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving.timing import seconds

from regard.text.alignment import AlignedText
from regard.text.html_scanner import scan_html
from regard.text.markup import extract_sentences, reassemble

TAGS = [
    "<b>",
    "</b>",
    "<i>",
    "</i>",
    "<a href='x>y'>",
    "</a>",
    "<span class=notranslate>",
    "</span>",
    "<code>",
    "</code>",
    "<x/>",
]
SNIPPETS = [
    *TAGS,
    *[
        "<p>",
        "</p>",
        "<br>",
        "<img src=a>",
        "<sup>1</sup>",
        "<sup>",
        "</sup>",
        "<!-- c -->",
        "<script>",
        "</script>",
        "<div",
        "<!--",
    ],
    *[
        "mot ",
        " chat",
        "noir. Il ",
        "é",
        ".",
        " 12 ",
        "https://a.fr ",
        "😀",
        "X1 ",
        " ",
        "\n",
        "\u200b",
        "\u00a0",
        "\U000f0000",
    ],
    *[
        "&amp;",
        "&lt;",
        "&nbsp;",
        "&eacute;",
        "&#8203;",
        "&#x41;",
        "&notit;",
        "&",
        "&#99999999999;",
        "<",
        "<<<",
        ">",
        '"',
        "'",
        "</",
        "<!",
        "<?",
    ],
]
documents = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(SNIPPETS), max_size=25).map("".join))


def same(html, whole=True):
    sentences = extract_sentences(html, whole)
    return reassemble(html, sentences, [AlignedText(sentence.text) for sentence in sentences])


def translated(html, translations, whole=True):
    """Reassembles with a translation per sentence: a text, or a text and its alignment."""
    sentences = extract_sentences(html, whole)
    assert [sentence.text for sentence in sentences] == list(translations)
    return reassemble(
        html,
        sentences,
        [AlignedText(*said) if isinstance(said, tuple) else AlignedText(said) for said in translations.values()],
    )


@given(documents, st.booleans())
def test_sentences_that_stay_as_they_are_change_nothing(html, whole):
    assert same(html, whole) == html


@given(documents)
def test_what_is_scanned_is_the_document(html):
    items = list(scan_html(html))
    assert "".join(html[item.start : item.end] for item in items) == html
    assert all(item.start < item.end for item in items)


@given(documents, st.data())
def test_every_tag_comes_through_once_and_nested_as_it_was(html, data):
    """For any translations and alignments, even nonsensical ones."""
    sentences = extract_sentences(html)
    translations = []
    for sentence in sentences:
        words = data.draw(st.lists(st.sampled_from(["one", "two,", "three.", "<script>", "&", "</b>"]), max_size=5))
        words = data.draw(
            st.permutations(
                [
                    *words,
                    *data.draw(st.sets(st.sampled_from(sorted(sentence.atoms)) if sentence.atoms else st.nothing())),
                ]
            )
        )
        number = st.integers(0, 9)
        links = data.draw(st.one_of(st.none(), st.lists(st.tuples(number, number), max_size=8)))
        translations.append(AlignedText(" ".join(words), links))
    made = reassemble(html, sentences, translations)
    assert tags(made) == tags(html)
    assert crossings(made) == crossings(html)


def tags(html):
    html = html.replace("sup>", "sux>")  # else a <sup> that lost its letters would count as one tag
    return sorted(html[item.start : item.end] for item in scan_html(html) if item.kind != "text")


def crossings(html):
    """Number of inline tags without a properly nested partner."""
    html = html.replace("sup>", "sux>")
    above, bad = [], 0
    for item in scan_html(html):
        if item.kind == "block":
            bad, above = bad + len(above), []
        elif item.kind == "open":
            above.append(item.name)
        elif item.kind == "close":
            if above and above[-1] == item.name:
                above.pop()
            else:
                bad += 1
    return bad + len(above)


def test_only_text_is_translated():
    page = """<!DOCTYPE html><html lang="fr"><head><title>Le chat</title><style>p {color: red}</style>
    <script>if (a < b) { x = "<p>Bonjour</p>"; }</script><meta name="d" content="Bonjour"></head>
    <body><h1 title="Bonjour &amp; bienvenue">Le chat</h1><!-- Bonjour -->
    <pre>Bonjour</pre><textarea>Bonjour <b></textarea><svg><text>Bonjour</text></svg>
    <p translate="no">Bonjour <b>vous</b></p><div class="a notranslate">Bonjour<div>x</div></div>
    <img alt="Bonjour" src=a.png><p data-x='a>b'>Le  chat</p>Le&nbsp;chat &eacute;t&eacute;<br>fin</body></html>"""
    sentences = extract_sentences(page)
    assert [sentence.text for sentence in sentences] == ["Le chat", "Le chat", "Le chat", "Le chat été", "fin"]
    made = reassemble(page, sentences, [AlignedText("The <cat> & co")] * 5)
    for old in (">Le chat<", ">Le chat<", ">Le  chat<", ">Le&nbsp;chat &eacute;t&eacute;<", ">fin<"):
        page = page.replace(old, ">The &lt;cat&gt; &amp; co<")
    assert made == page


@pytest.mark.parametrize("name", ["script", "style", "code", "pre", "textarea", "kbd", "samp", "var", "svg", "math"])
def test_what_is_kept_untouched(name):
    html = f"<p>Avant <{name} a='b'>Bonjour le <{name}>monde</{name}> après</p>"
    assert "Bonjour" not in " ".join(sentence.text for sentence in extract_sentences(html))


def test_attributes_say_what_is_not_to_be_translated():
    for tag in (
        '<b translate="no">',
        "<b TRANSLATE=no>",
        "<b class='x notranslate'>",
        "<b title='translate' class=notranslate>",
    ):
        assert not extract_sentences(f"{tag}Bonjour</b>")
    for tag in ('<b translate="yes">', '<b title="translate=no">', "<b class=notranslated>", "<b data-translate=no>"):
        assert [sentence.text for sentence in extract_sentences(f"{tag}Bonjour</b>")] == ["Bonjour"]


def test_elements_follow_their_words():
    assert (
        translated(
            "<p>La <b>zone économique</b> <i>européenne</i>.</p>",
            {"La zone économique européenne.": ("The European economic area.", [(0, 0), (1, 3), (2, 2), (3, 1)])},
        )
        == "<p>The <i>European</i> <b>economic area</b>.</p>"
    )
    assert (
        translated(
            '<a href="x">Écrivez <b>vite</b></a> ou venez <u>demain</u> !',
            {
                "Écrivez vite ou venez demain !": (
                    "Tomorrow come, or quickly write!",
                    [(0, 4), (1, 3), (2, 2), (3, 1), (4, 0)],
                )
            },
        )
        == '<u>Tomorrow</u> come, or <a href="x"><b>quickly</b> write</a>!'
    )


def test_scattered_words_make_one_element():
    html = translated(
        "Il <b>ne dort pas</b> ici",
        {"Il ne dort pas ici": ("He does not sleep here not", [(1, 1), (1, 2), (2, 3), (3, 5), (4, 4), (0, 0)])},
    )
    assert html == "He <b>does not sleep here not</b>"  # nothing that belongs to another element stands between
    html = translated("<b>a c</b> <i>b</i>", {"a c b": ("a b c c", [(0, 0), (1, 2), (1, 3), (2, 1)])})
    assert html == "a <i>b</i> <b>c c</b>"


def test_parts_of_words():
    assert translated(
        "Au 19<sup>e</sup> siècle", {"Au 19e siècle": ("In the 19th century", [(0, 0), (1, 2), (2, 3)])}
    ) == ("In the 19<sup>th</sup> century")
    assert translated(
        "(<b>chat</b>), l'<i>eau</i> !", {"(chat), l'eau !": ("(cat), the water!", [(0, 0), (1, 1), (1, 2)])}
    ) == ("(<b>cat</b>), <i>the water</i>!")


def test_what_holds_no_words_stays_near_its_neighbours():
    links = [(0, 0), (1, 1), (2, 2), (3, 4), (4, 3)]
    html = translated(
        'Il voit <img src="a"> un chat<wbr> noir', {"Il voit un chat noir": ("He sees a black cat", links)}
    )
    assert html == 'He sees <img src="a"> a black cat<wbr>'
    assert (
        translated("<a><img>Le chat</a> dort", {"Le chat dort": ("Cats sleep", [(0, 0), (1, 0), (2, 1)])})
        == "<a><img>Cats</a> sleep"
    )


def test_kept_elements_within_a_sentence():
    html = "Utilisez <code>f(x)</code> et <span class=notranslate>Le <b>Chat</b></span> !"
    (sentence,) = extract_sentences(html)
    first, second = sentence.atoms
    assert sentence.text == f"Utilisez {first} et {second} !"
    made = reassemble(html, [sentence], [AlignedText(f"With {second}, use {first}!")])
    assert made == "With <span class=notranslate>Le <b>Chat</b></span>, use <code>f(x)</code>!"
    lost = reassemble(html, [sentence], [AlignedText(f"Use {second} {second}", [(0, 0), (2, 1)])])
    assert lost.count("<code>f(x)</code>") == lost.count("<b>Chat</b>") == 1


def test_footnotes_and_exponents_are_kept():
    html = 'H<sub>2</sub>O et 20 m<sup>2</sup> du mot<sup><a href="#1">[1]</a></sup>'
    (sentence,) = extract_sentences(html)
    assert re.fullmatch(r"H\W?O et 20 m\W? du mot\W?", sentence.text) and len(sentence.atoms) == 3
    assert same(html) == html


def test_a_sentence_is_cut_at_tags_that_cannot_stay_in_it():
    html = "Le <b>chat dort. Il</b> rêve de <i>rats."
    said = {text: text.upper() for text in ["Le", "chat dort.", "Il", "rêve de", "rats."]}
    assert translated(html, said) == "LE <b>CHAT DORT. IL</b> RÊVE DE <i>RATS."


def test_without_alignments_each_text_is_translated_on_its_own():
    said = {text: text.upper() for text in ["Le", "chat", "noir", "dort."]}
    assert translated("Le <b>chat <i>noir</i></b> dort.", said, whole=False) == "LE <b>CHAT <i>NOIR</i></b> DORT."


def test_a_translation_without_links_keeps_its_tags():
    html = translated("Le <b>chat</b> dort", {"Le chat dort": "The cat sleeps"})
    assert html == "The <b>cat</b> sleeps"


@pytest.mark.parametrize("said", ["<script>alert(1)</script>", "a < b & c > d", "</p><img onerror=x>", "&lt;"])
def test_S9_a_translation_comes_out_as_text(said):
    for html in ("<p>Bonjour</p>", "<p><b>Bon</b>jour</p>", "<p>2 <Bonjour</p>", "<p><! Bonjour", "<😀Bonjour>"):
        made = reassemble(html, extract_sentences(html), [AlignedText(said, [(0, 0)]) for _ in extract_sentences(html)])
        allowed = {"p", "b", "bonjour<"}
        seen = []
        parser = HTMLParser()
        parser.handle_starttag = lambda tag, _, seen=seen: seen.append(tag)
        parser.feed(made)
        parser.close()
        assert set(seen) <= allowed and "script" not in seen and "img" not in seen


@pytest.mark.parametrize(
    "html",
    [
        "<",
        "<<<",
        "</",
        "<!",
        "<!--",
        "<a",
        '<a b="c>d',
        "<a b='c",
        "</b>",
        "<b><i></b></i>",
        "&",
        "&#",
        "&#x;",
        "&#99999999999999;",
        "<script>",
    ],
)
def test_malformed_html_is_taken_as_it_is(html):
    assert same(html) == html and same(html + "Bonjour") == html + "Bonjour"


def test_a_sign_is_text_and_an_unclosed_tag_is_not():
    assert translated("2 < 3 et a <b alors", {"2 < 3 et a <b alors": "if 2 < 3"}) == "if 2 &lt; 3"
    assert translated("Un <code>deux", {"Un": "One", "deux": "two"}) == "One <code>two"
    assert (
        extract_sentences("<!-- Bonjour")
        == extract_sentences("<script>Bonjour")
        == extract_sentences('<a b=">" Bonjour')
        == []
    )


@pytest.mark.parametrize(
    "html",
    [
        "a <b>b" + "<b>" * 2000 + "</b>" * 2001,
        "<b>" * 2000 + "a</b>" * 2000,
        "a <b>" * 2000 + "b" + "</b>" * 2000,
        "<div>" * 2000 + "a <i>b</i> c" + "</div>" * 2000,
        "<code>" * 2000 + "a" + "</code>" * 2000 + " b",
        "<svg>" * 2000 + "a <b>b</b>",
    ],
)
def test_S17_elements_may_nest_thousands_deep(html):
    found = extract_sentences(html)
    changed = reassemble(html, found, [AlignedText(sentence.text.upper(), [(0, 0)]) for sentence in found])
    tags = re.compile("<[^>]*>")
    assert sorted(tags.findall(changed)) == sorted(tags.findall(html)), "every tag once"
    assert reassemble(html, found, [AlignedText(sentence.text) for sentence in found]) == html


@pytest.mark.timeout(120)
def test_S17_a_megabyte_of_anything_is_read_in_linear_time():
    units = [
        "a",
        "\u0301",
        "a. ",
        "<",
        "<<<",
        "<a ",
        '<a b="',
        "<a b='>",
        "<!--",
        "<!-- -->",
        "</",
        "&",
        "&amp;",
        "&#1",
        "<code>",
        "\n",
    ]
    spent = seconds(
        f"""
        from regard.text.markup import reassemble, extract_sentences
        from regard.text.alignment import AlignedText
        def all_of_it(html):
            found = extract_sentences(html)
            reassemble(html, found, [AlignedText("x") for _ in found])
        for unit in {units!r}:
            html = unit * (1_000_000 // len(unit))
            timed(unit, lambda: all_of_it(html))
        """
    )
    assert set(spent) == set(units) and {unit: took for unit, took in spent.items() if took > 5} == {}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_S17_also_of_tags():
    units = [
        "<b>",
        "</b>",
        "<b>x</b> ",
        "<code>x</code> ",
        "<i><b>x</i> ",
        "<p>Le <b>chat</b> dort. ",
        "<sup>1</sup>a",
        "<x translate=no>",
        '<a b=">" ',
        "<b>mot </b>",
    ]
    spent = seconds(
        f"""
        from regard.text.markup import reassemble, extract_sentences
        from regard.text.alignment import AlignedText
        def all_of_it(html):
            found = extract_sentences(html)
            reassemble(html, found, [AlignedText("x y", [(0, 1), (1, 0)]) for _ in found])
        for unit in {units!r}:
            for size in (50_000, 400_000):
                html = unit * (size // len(unit))
                timed(unit + str(size), lambda: all_of_it(html))
        """
    )
    assert {unit for unit in units if spent[unit + "400000"] > 3 * 8 * spent[unit + "50000"] + 0.5} == set()
