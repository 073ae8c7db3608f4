"""Pictures are read back: the values in them are the values (R20), and whatever the words are, they stay words (S9)."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from regard.errors import UserError
from regard.inspection.draw import style
from regard.inspection.draw.beam_tree import draw_tree
from regard.inspection.draw.head_grid import coarse
from regard.inspection.draw.page import embeddable
from regard.inspection.draw.positions import spread
from regard.inspection.draw.views import VIEWS
from regard.inspection.draw.views.common import steps_and_remainder
from regard.inspection.trace.arithmetic import Calculation, Row, Stage
from regard.inspection.trace.attribution import Attribution
from regard.inspection.trace.base import (
    CROSS,
    SOURCE,
    TARGET,
    Attention,
    Choice,
    Gates,
    Ponder,
    Positions,
    Side,
    number,
    plain,
)
from regard.inspection.trace.gradients import Gradients, Track
from regard.inspection.trace.model_map import Block, ModelMap
from regard.inspection.trace.translation import Alternative, Branch, SearchStep, TranslationTrace
from regard.layers.halting import Halting

SVG = "{http://www.w3.org/2000/svg}"
RUN = {"what-if", "near", "logit-lens"}
"""Views that run the model again, or need an index: they cannot be drawn of a trace alone."""
DRAWN = [name for name in VIEWS[TranslationTrace] if name not in RUN]
HOSTILE = [
    "</script><script>document.title='broken'</script>",
    "<img src=x onerror=document.title='broken'>",
    "{{7*7}}",
    "javascript:alert(1)",
    "\"'><b>",
    "\u2028\u2029",
    "\ud800\x00",
    "<!--",
    "]]>",
]
WORLD = ["کتاب", "étudiant", "日本語", "▁the", "a&b"]


def weights(*shape: int, seed: int = 5) -> np.ndarray:
    random = np.random.default_rng(seed)
    values = random.random(shape) ** 4
    return (values / values.sum(-1, keepdims=True)).astype(np.float32)


def calculation(words: list[str]) -> Calculation:
    """A calculation of three stages: a vector for each word, what is hidden, and a weight."""
    vectors = [Row(word, weights(70, seed=j) - 0.01, "k", key=j, how=[f"{word}!"] * 70) for j, word in enumerate(words)]
    looked = weights(len(words))
    shares = [Row(word, looked[j : j + 1], "α", key=j) for j, word in enumerate(words)]
    hidden = [Row(word, np.array([-np.inf], np.float32), "score", "masked", key=j) for j, word in enumerate(words)]
    said = "What each of them offers."
    stages = [Stage("keys", f"k = {words[0]}", said, vectors), Stage("mask", "-∞", said, hidden)]
    return Calculation(
        "m.cross.0", CROSS, 0, 1, 2, 0, words[0], words, looked, [*stages, Stage("softmax", "α", said, shares)], 1e-7
    )


def attribution(words: list[str], choice: Choice) -> Attribution:
    """Of the words and END to the words of both sides."""
    values = weights(len(words) + 1, 2 * len(words)) - 0.1
    sides = [SOURCE] * len(words) + [TARGET] * len(words)
    outputs = [[row] for row in range(len(values))]
    rows, explained = [*words, "</s>"], [-0.5] * len(values)
    return Attribution(
        "occlusion", rows, outputs, words * 2, sides, values, explained, ["occlusion"], options=choice.explained()
    )


def made(words: list[str] = WORLD, model: str = "some model") -> TranslationTrace:
    """A translation of words into themselves, backwards: one token a word, and END."""
    source = Side(" ".join(words), [*words, "</s>"], words, list(range(len(words))))
    back = words[::-1]
    target = Side(" ".join(back), [*back, "</s>"], back, list(range(len(words))))
    size = len(words) + 1
    open = [Branch(0, word, -0.5 * i, i == 0) for i, word in enumerate(words[:3])]
    look = TranslationTrace(
        model=model,
        source=source,
        target=target,
        read=["<s>", *back],
        probabilities=[0.5] * size,
        log_probability=-1.25,
        score=-0.1,
        finished=True,
        attention=[
            Attention(f"m.{kind}.{layer}", kind, layer, weights(2, size, size, seed=layer))
            for kind in (SOURCE, TARGET, CROSS)
            for layer in range(2)
        ],
        gates=[Gates("encoder.cells.0", SOURCE, 0, False, {words[0]: weights(size, 5) - 0.2})],
        ponder=[Ponder("encoder.halting", SOURCE, weights(size) * 3, weights(size, 3))],
        positions=[Positions(["stem.position", words[0]], "sinusoidal", weights(64, 20) - 0.5)],
        beam=3,
        search=[SearchStep(open, []), SearchStep([], [Branch(1, "</s>", -1.25, True, -0.1)])],
        gradients=[Gradients(size - 1, words[0], -0.5, [Track("m", "vector", SOURCE, weights(size))])],
        ids=list(range(4, 4 + size)),
        alternatives=[[Alternative(9, word, 0.25) for word in words]] * size,
    )
    block = Block("encoder.layers.0.attention", "attention", words[0], SOURCE, 20, words[1], 0, SOURCE, 2, parameters=9)
    layer_block = Block("encoder.layers.0", "layer", words[0], SOURCE, 20, layer=0, blocks=[block])
    look.map = ModelMap("seq2seq", [layer_block], [Block("decoder.output", "output", words[0], TARGET, 9)], 20, 9)
    look.compute_attribution = lambda trace, choice: attribution(words, choice)
    look.compute_calculation = lambda trace, choice: calculation([*words, "</s>"])
    return look


class Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(page)

    def handle_starttag(self, tag, attributes) -> None:
        self.found.append((tag, dict(attributes)))
        self._in_script = tag == "script"

    def handle_endtag(self, tag) -> None:
        self._in_script = False

    def handle_data(self, data) -> None:
        if self._in_script:
            self.scripts.append(data)


ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "p", "figure", "figcaption", "h2", "button"),
    *("div", "svg", "g", "rect", "path", "line", "text", "output", "script", "label", "select", "option"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_s9_nothing_in_a_page_comes_from_its_words(name: str) -> None:
    look = made(HOSTILE, model=HOSTILE[0])
    page = look.html(name)
    page.encode()  # it can be written
    found = Elements(page)
    assert {tag for tag, _ in found.found} <= ALLOWED
    assert not [
        key
        for _, attributes in found.found
        for key in attributes
        if key.startswith("on") or "href" in key or key == "src"
    ]
    assert [attributes.get("type") for tag, attributes in found.found if tag == "script"] == ["application/json", None]
    assert json.loads(found.scripts[0]) == json.loads(look.json(look.view(name).parts))
    assert not re.search("[<>&\u2028\u2029]", found.scripts[0]) and found.scripts[0].isascii()
    assert "default-src 'none'" in page and "http" not in page.replace("http-equiv", "").replace(
        "http://www.w3.org/2000/svg", ""
    )


@pytest.mark.parametrize("name", DRAWN)
def test_s9_nothing_in_a_drawing_comes_from_its_words(name: str) -> None:
    for picture in made(HOSTILE).view(name).pictures:
        root = ElementTree.fromstring(picture.svg().encode())
        assert {one.tag.removeprefix(SVG) for one in root.iter()} <= {
            "svg",
            "style",
            "g",
            "rect",
            "path",
            "line",
            "text",
            "title",
        }
        assert not re.search(r"<(script|img|b)\b|href|url\(", picture.svg())


@pytest.mark.parametrize("name", DRAWN)
def test_pictures_have_two_forms(name: str) -> None:
    for picture in made(HOSTILE + WORLD).view(name).pictures:
        file = io.BytesIO()
        picture.figure().savefig(file, format="png", dpi=40)
        assert file.getvalue().startswith(b"\x89PNG")


def test_s9_a_notebook_holds_it_in_a_frame() -> None:
    shown = made(HOSTILE)._repr_html_()
    found = Elements(shown).found
    assert [tag for tag, _ in found] == ["iframe"]
    assert found[0][1]["sandbox"] == "allow-scripts allow-downloads"
    assert found[0][1]["srcdoc"] == made(HOSTILE).html()


def in_browser(page: str, folder: Path, part: str = "") -> str:
    """The page as it stands after its script has run."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    asked = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/own", "--dump-dom"]
    done = subprocess.run([*asked, file.as_uri() + part], capture_output=True, text=True, timeout=120)
    return done.stdout


needs_browser = pytest.mark.skipif(not shutil.which("chromium"), reason="no browser")


@needs_browser
@pytest.mark.parametrize("name", ["heads", "alignment"])
def test_s9_in_a_browser(name: str, tmp_path: Path) -> None:
    page = in_browser(made(HOSTILE, model=HOSTILE[1]).html(name), tmp_path)
    found = Elements(page)
    assert "<title>broken" not in page and {tag for tag, _ in found.found} <= ALLOWED
    if name == "heads":  # our own script has run
        assert any(a.get("tabindex") == "0" and (a.get("data-at") or "").startswith("pick") for _, a in found.found)


@needs_browser
def test_r20_another_head_shows_its_own_values(tmp_path: Path) -> None:
    look = made()
    page = in_browser(look.html("heads"), tmp_path, "#cross-1-0")
    figure = re.search(r'<figure[^>]*data-kind="cross".*?</figure>', page, re.S)
    assert figure and "cross-attention, layer 1, head 0" in figure[0]
    found = re.findall(
        r'<line [^>]*stroke-opacity="([^"]*)"[^>]*data-at="(\d+) (\d+)"[^>]*><title>[^<]*: ([^<]*)<', figure[0]
    )
    assert len(found) == len(look.target.tokens) * len(look.source.tokens)
    for opacity, query, key, value in found:
        weight = look.of_kind(CROSS)[1].weights[0, int(query), int(key)]
        assert np.float32(value) == weight and float(opacity) == pytest.approx(weight, abs=1e-3)


def told(svg: str, tag: str) -> list[tuple[str, np.float32]]:
    """The words and the value of every tooltip."""
    found = [one.findtext(f"{SVG}title") or "" for one in ElementTree.fromstring(svg).iter(f"{SVG}{tag}")]
    return [(text.rsplit(": ", 1)[0], np.float32(text.rsplit(": ", 1)[1])) for text in found if ": " in text]


def test_r20_displayed_values_are_the_exported_values() -> None:
    look = made()
    exported = json.loads(look.json())
    shown = [value for _, value in told(look.svg("alignment"), "rect")]
    np.testing.assert_array_equal(shown, np.array(exported["word_matrix"], np.float32).ravel())
    shown = [value for _, value in told(look.svg("alignment", tokens=True), "rect")]
    np.testing.assert_array_equal(shown, np.array(exported["token_matrix"], np.float32).ravel())
    shown = [value for _, value in told(look.svg("heads", layer=1, head=0), "line")]
    wanted = next(a for a in exported["attention"] if (a["kind"], a["layer"]) == ("cross", 1))["weights"][0]
    np.testing.assert_array_equal(shown, np.array(wanted, np.float32).ravel())
    shown = [value for _, value in told(look.svg("positions"), "rect")]
    by_colour = np.array(exported["positions"][0]["values"], np.float32)[:48]
    assert sorted(shown) == sorted(by_colour.ravel())


def test_r20_lines_join_the_tokens_they_name() -> None:
    look = made()
    root = ElementTree.fromstring(look.svg("heads", layer=0, head=0))
    height = {one.get("data-at"): float(one.get("y", 0)) - 5 for one in root.iter(f"{SVG}text") if one.get("data-at")}
    names = {one.get("data-at"): one.findtext(f"{SVG}title") for one in root.iter(f"{SVG}text") if one.get("data-at")}
    lines = list(root.iter(f"{SVG}line"))
    assert len(lines) == len(look.target.tokens) * len(look.source.tokens)
    for line in lines:
        query, key = (line.get("data-at") or "").split()
        assert float(line.get("y1", 0)) == pytest.approx(height[f"key {key}"])
        assert float(line.get("y2", 0)) == pytest.approx(height[f"query {query}"])
        assert names[f"key {key}"] == look.source.tokens[int(key)]
        assert names[f"query {query}"] == look.target.tokens[int(query)]
        weight = look.of_kind(CROSS)[0].weights[0, int(query), int(key)]
        assert float(line.get("stroke-opacity", 9)) == pytest.approx(weight, abs=1e-3)


def test_every_head_is_in_the_grid_and_can_be_picked() -> None:
    root = ElementTree.fromstring(made().svg("heads"))
    picks = [one.get("data-at") for one in root.iter(f"{SVG}rect") if one.get("data-at")]
    assert sorted(picks) == sorted(
        f"pick {kind} {n} {h}" for kind in ("cross", "source", "target") for n in (0, 1) for h in (0, 1)
    )


def test_long_texts_are_drawn_coarser_in_the_grid() -> None:
    matrix = np.eye(100, dtype=np.float32)
    small = coarse(matrix, 48)
    assert small.shape == (48, 48) and (np.diag(small) == 1).all() and coarse(matrix, 100) is matrix


def test_the_tree_shows_ways_scores_and_the_chosen_one() -> None:
    look = made()
    root = ElementTree.fromstring(look.svg("beam"))
    nodes = {one.get("data-at"): one for one in root.iter(f"{SVG}text") if one.get("data-at")}
    assert set(nodes) == {"1 0", "1 1", "1 2", "2 3"}
    assert nodes["2 3"].findtext(f"{SVG}title") == "étudiant </s>: log-probability -1.25, score -0.1"
    bold = [key for key, one in nodes.items() if one.get("font-weight")]
    assert bold == ["1 0", "2 3"]


def test_scores_are_told_apart_from_log_probabilities() -> None:
    found = [one.text for one in ElementTree.fromstring(made().svg("beam")).iter(f"{SVG}text")]
    assert "-1.25" in found and "score -0.10" in found and "-0.10" not in found


def test_no_line_of_the_tree_crosses_a_token() -> None:
    """Long and short tokens in one column, and lines from each of them to every row of the next."""
    rows = ["a", "a long token of many letters", "b", "another that is long"]
    steps = [SearchStep([Branch(0, token, -1.0, False) for token in rows], [])]
    for shift in range(3):
        opened = [Branch((at + 3 * shift) % 4, token, -2.0, False) for at, token in enumerate(rows[::-1])]
        steps.append(SearchStep(opened, [Branch(0, "</s>", -2.5, False, -1.0), Branch(1, "</s>", -3.5, False, -2.0)]))
    root = ElementTree.fromstring(draw_tree(steps).svg())
    boxes = []
    for one in root.iter(f"{SVG}text"):
        if one.get("data-at"):
            x, y = float(one.get("x", 0)), float(one.get("y", 0))
            boxes.append((x, x + style.length(one[0].tail or ""), y - 10, y))
    lines = [[float(one.get(end, 0)) for end in ("x1", "y1", "x2", "y2")] for one in root.iter(f"{SVG}line")]
    assert len(lines) > 20 and len(boxes) == 22
    for x1, y1, x2, y2 in lines:
        for part in np.linspace(0, 1, 200):
            x, y = x1 + part * (x2 - x1), y1 + part * (y2 - y1)
            assert not any(left < x < right and top < y < bottom for left, right, top, bottom in boxes)


def test_a_layer_alone_is_all_its_heads() -> None:
    look = made()
    root = ElementTree.fromstring(look.svg("heads", layer=1))
    picks = [one.get("data-at") for one in root.iter(f"{SVG}rect") if one.get("data-at")]
    assert picks == [f"pick {kind} 1 {head}" for kind in ("cross", "source", "target") for head in (0, 1)]
    assert 'class="regard-lines"' in look.svg("heads", layer=1, head=0)
    with pytest.raises(UserError, match="layer 2"):
        look.svg("heads", layer=2)


def test_a_unit_along_the_text_has_the_values_of_its_row() -> None:
    look = made()
    (one,) = look.gates
    root = ElementTree.fromstring(look.svg("gates", unit=1))
    bars = {rect.get("data-at"): rect for rect in root.iter(f"{SVG}rect") if rect.get("data-at")}
    assert len(bars) == sum(len(gate) for gate in one.values.values())
    for name, gate in one.values.items():
        most = max(1.0, float(np.abs(gate[:, 1]).max()))
        for i, value in enumerate(gate[:, 1]):
            bar = bars[f"{name} {i}"]
            assert np.float32((bar.findtext(f"{SVG}title") or "").rpartition(": ")[2]) == value
            room = 28 if (gate[:, 1] < 0).any() else 56
            assert float(bar.get("height", 0)) == pytest.approx(max(1, abs(value) / most * room), abs=0.06)
    with pytest.raises(UserError, match="unit 99"):
        look.svg("gates", unit=99)


def test_the_similarity_of_positions_is_the_cosine() -> None:
    look = made()
    found = [value for text, value in told(look.svg("positions", position=3), "rect")]
    values = torch.from_numpy(look.positions[0].values[:48])
    wanted = torch.nn.functional.cosine_similarity(values, values[3:4])
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert found[3] == pytest.approx(1)


def test_steps_and_remainder_are_what_halting_did() -> None:
    """The layer itself, with a judge that gives known probabilities."""
    halting = Halting(2)
    with torch.no_grad():
        halting.judge.weight.zero_()
        halting.judge.bias.fill_(float(torch.logit(torch.tensor(0.3))))
        shares: list[torch.Tensor] = []
        halting.observer = lambda name, value: shares.append(value) if name == "shares" else None
        _, ponder = halting(torch.zeros(1, 1, 2), lambda x, step: x, 6)
    # 0.3 + 0.3 + 0.3 is below 0.99, so there is a fourth step, whose weight is what is missing: 0.1
    assert steps_and_remainder(float(ponder[0, 0]), shares[0][0, 0].numpy()) == "4 + 0.10"


def test_the_usual_view() -> None:
    look = made()
    assert look.default_view() == "alignment"
    look.attention = []
    assert look.default_view() == "gates" and look.svg() == look.svg("gates")


def test_refusals_say_what_to_do() -> None:
    look = made()
    for name, choice, said in [
        ("alignement", {}, "did you mean 'alignment'"),
        ("heads", {"layer": 2}, "layers 0 to 1"),
        ("heads", {"head": 5}, "heads 0 to 1"),
        ("heads", {"attention": "sorce"}, "did you mean 'source'"),
        ("gates", {"layer": 3}, "layers 0 to 0"),
    ]:
        with pytest.raises(UserError, match=said):
            look.view(name, **choice)
    empty = made()
    empty.attention, empty.gates, empty.ponder, empty.positions = [], [], [], []
    for name in ("alignment", "heads", "gates", "ponder", "positions"):
        with pytest.raises(UserError, match="this model"):
            empty.view(name)


def test_right_to_left_is_marked() -> None:
    page = made(["کتاب", "خوب"]).html()
    assert page.count('dir="rtl"') == 2 and "\u2068کتاب\u2069" in page


def test_embedded_json_says_the_same() -> None:
    text = json.dumps(HOSTILE, ensure_ascii=False)
    assert json.loads(embeddable(text)) == HOSTILE and not re.search("[<>&\u2028\u2029]", embeddable(text))


def test_columns_of_wide_vectors_are_pairs_spread_evenly() -> None:
    assert spread(5) == [0, 1, 2, 3, 4] and spread(64) == list(range(64))
    wide = spread(384)
    assert len(wide) == len(set(wide)) == 64 and wide[:2] == [0, 1] and wide[-2:] == [382, 383]
    assert all(a % 2 == 0 and b == a + 1 for a, b in zip(wide[::2], wide[1::2]))


def test_numbers_are_exact() -> None:
    values = np.array([[0.1, 1e-30, 1 / 3], [3.4e38, -0.0, 1e-45]], np.float32)
    np.testing.assert_array_equal(np.array(json.loads(json.dumps(plain(values))), np.float32), values)
    assert plain(np.array([np.nan, np.inf, 0.1], np.float32)) == [None, None, 0.1]
    assert number(0.1) == 0.1 and number(1 / 3) == 1 / 3  # a double stays one
