"""The studio's views of language models and of gradients, in a browser: what stands there is what the model says."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from studio.browsing import open_view, running_studio, settled, until, watched, write_tiny

import regard
from regard.studio.questions.gradients import content_word

TEXT = "je suis "
HOSTILE = "</script><img src=x onerror=alert(1)> "
WRITES = {"gpt": {"decoder": "transformer", "heads": 2, "feed_forward": 32}, "lstm": {"decoder": "recurrent"}}


def write_writer(folder: Path, kind: str) -> Path:
    """A language model of letters with random weights."""
    import torch

    from regard.assemble import build_model, resolve_model
    from regard.config import Data, Recipe
    from regard.data.tokenizer.character import Character
    from regard.loading import model_files
    from regard.storage import write_folder

    torch.manual_seed(4)
    tokenizer = Character.train(["je suis étudiant .", HOSTILE], seed=1, exact=True)
    tree = resolve_model({"kind": "language_model", "width": 16, "layers": 2, **WRITES[kind]})
    model = build_model(tree, len(tokenizer))
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    with torch.no_grad():  # letters are likelier than bytes, which alone are none
        model.decoder.embedding.table.weight[4 : 4 + 256] = 0
        model.decoder.embedding.table.weight[:] *= 3
    recipe = Recipe(
        task="generate", model=tree, tokenizer={"kind": "character", "exact": True}, data=Data(max_length=64)
    )
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    write_folder(folder, model_files(recipe, tokenizer, weights, "float32"))
    return folder


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    home = tmp_path_factory.mktemp("writers")
    folders = {kind: write_writer(home / kind, kind) for kind in WRITES}
    folders["tiny-bahdanau"] = write_tiny(home / "tiny-bahdanau", "tiny-bahdanau")
    options = [part for folder in folders.values() for part in ("--model", str(folder))]
    with running_studio("--only", "--runs", str(home / "runs"), *options) as running:
        running.folders = folders
        yield running


@pytest.fixture(scope="module")
def models(studio):
    import regard

    return {name: regard.load(folder, device="cpu") for name, folder in studio.folders.items()}


@pytest.fixture
def page(browser, studio):
    with watched(browser, studio, viewport={"width": 1280, "height": 900}) as opened:
        yield opened


def shown(page) -> dict[str, float]:
    """The tokens on the page, with the value of their bars."""
    told = page.eval_on_selector_all(
        ".bars button", "all => all.map(one => [one.querySelector('bdi').textContent, one.dataset.value])"
    )
    return {token: float(value) for token, value in told}


def by_hand(task, text: str, temperature: float = 1.0) -> dict[str, float]:
    """A softmax over the model's logits, without what is never written, in double precision."""
    import torch

    from regard.types import BEGIN, END

    with torch.inference_mode():
        logits = task.model(torch.tensor([[BEGIN, *task.encode(text)]]))[0, -1].double().numpy()
    pieces = task.tokenizer.pieces(range(len(logits)))
    bytes_that_steer = {i for i in range(END + 1, len(logits)) if pieces[i].startswith("<0x") and _steers(pieces[i])}
    allowed = [i for i in range(END, len(logits)) if i not in bytes_that_steer]
    powers = np.exp((logits[allowed] - logits[allowed].max()) / temperature)
    return dict(zip([pieces[i] for i in allowed], powers / powers.sum()))


def _steers(piece: str) -> bool:
    byte = int(piece[3:5], 16)
    return byte < 32 and byte not in (9, 10) or byte == 127


def slide(page, label: str, place: float) -> None:
    slider = page.get_by_role("slider", name=label)
    slider.evaluate("(input, place) => { input.value = place; input.dispatchEvent(new Event('input')) }", place)
    slider.dispatch_event("change")


@pytest.mark.parametrize("model", list(WRITES))
def test_the_bars_are_a_softmax_over_the_models_logits(page, studio, models, model):
    open_view(page, studio, "language", ".bars", model=model, text=TEXT)
    expected = by_hand(models[model], TEXT)
    found = shown(page)
    assert len(found) == 24
    assert found == pytest.approx({token: expected[token] for token in found}, rel=1e-4)
    assert min(found.values()) >= sorted(expected.values())[-24] * 0.999
    page.locator("textarea").press_sequentially("é")  # as one types
    expected = by_hand(models[model], TEXT + "é")
    until(page, f"Math.abs(document.querySelector('.bars button').dataset.value - {max(expected.values())}) < 1e-5")
    assert shown(page) == pytest.approx({token: expected[token] for token in shown(page)}, rel=1e-4)


@pytest.mark.parametrize("place", [-2, -0.7, 2])
def test_R21_the_temperature_goes_from_a_hundredth_to_a_hundred(page, studio, models, place):
    open_view(page, studio, "language", ".bars", model="gpt", text=TEXT)
    slide(page, "Temperature", place)
    expected = by_hand(models["gpt"], TEXT, float(f"{10**place:.3g}"))
    until(page, f"Math.abs(document.querySelector('.bars button').dataset.value - {max(expected.values())}) < 1e-4")
    found = shown(page)
    assert all(math.isfinite(value) for value in found.values())
    assert found == pytest.approx({token: expected[token] for token in found}, rel=2e-3, abs=1e-7)
    assert f"temperature={float(f'{10**place:.3g}'):g}" in page.url or place == 0


def test_what_is_cut_is_grey_and_every_stage_can_be_seen(page, studio, models):
    open_view(page, studio, "language", ".bars", model="gpt", text=TEXT)
    slide(page, "Top-k", 5)
    until(page, "document.querySelectorAll('.bars .cut').length === 19")
    assert sum(shown(page).values()) == pytest.approx(1, abs=1e-5)
    slide(page, "Top-p", 0.01)
    until(page, "document.querySelectorAll('.bars .cut').length === 23")
    assert list(shown(page).values())[:2] == [1, 0]
    likely = {one.token: one.probability for one in models["gpt"].next_tokens(TEXT, top_k=5, count=5)}
    page.select_option(".language select", "within_k")
    until(page, "document.querySelectorAll('.bars .cut').length === 19")
    assert {token: value for token, value in shown(page).items() if value} == pytest.approx(likely, rel=1e-5)
    page.select_option(".language select", "logit")
    until(page, "document.querySelectorAll('.bars .cut').length === 0")
    page.locator(".bars button").nth(3).hover()
    (token, logit) = list(shown(page).items())[3]
    told = page.locator(".exact").first.inner_text()
    assert token in told and f"logit {logit}" in told.replace("−", "-") and "after top-p 0" in told


def test_a_click_writes_a_token_and_back_takes_it_away(page, studio):
    open_view(page, studio, "language", ".bars", model="gpt", text=TEXT)
    button = page.locator(".bars button").filter(has_not_text="<").first
    token = button.locator("bdi").inner_text()
    button.click()
    written = TEXT + token.replace("▁", " ").replace("↵", "\n")
    assert page.input_value("textarea") == written
    page.go_back()
    until(page, f"document.querySelector('textarea').value === {TEXT!r}")


def test_drawing_and_going_on_write_what_the_model_writes(page, studio, models):
    how = {"seed": 7, "temperature": 0.5, "top_k": 5}
    open_view(page, studio, "language", ".bars", model="lstm", text=TEXT, write=12, **how)
    for count in (1, 2):
        page.get_by_role("button", name="Sample one").click()
        wanted = models["lstm"].generate(TEXT, length=count, **how)
        until(page, f"document.querySelector('textarea').value === {TEXT + wanted.text!r}")
    page.get_by_role("button", name="Generate", exact=True).click()
    wanted = models["lstm"].generate(TEXT, length=14, **how)
    until(page, f"document.querySelector('textarea').value === {TEXT + wanted.text!r}")
    page.get_by_role("button", name="New seed").click()
    assert page.get_by_label("Seed").input_value() != "7"


def test_the_text_tells_how_sure_the_model_was_of_each_token(page, studio, models):
    open_view(page, studio, "language", ".reading .word", model="gpt", text=TEXT)
    sure = page.eval_on_selector_all(".reading .word", "all => all.map(one => Number(one.dataset.sure))")
    score = models["gpt"].score(TEXT)
    assert sure == pytest.approx([math.exp(one) for one in score.log_probabilities], rel=1e-4)
    page.locator(".reading .word").nth(2).hover()
    told = page.locator(".exact").nth(1).inner_text()
    best = models["gpt"].inspect(TEXT).guesses[2]
    assert all(one.token in told for one in best.others) and str(np.float32(best.probability))[:6] in told


def test_what_may_come_next_can_be_taken_away(page, studio, models, tmp_path):
    open_view(page, studio, "language", ".bars", model="gpt", text=TEXT, top_k=3)
    found = {}
    for kind in ("SVG", "PNG", "HTML"):
        with page.expect_download() as saved:
            page.get_by_role("button", name=f"Save as {kind}").click()
        saved.value.save_as(tmp_path / kind)
        found[kind] = (tmp_path / kind).read_bytes()
    ours = models["gpt"].inspect(TEXT, top_k=3)
    first = ours.next.tokens[0]
    assert f"sampled with {np.float32(first.drawn)!s}" in found["SVG"].decode()
    assert found["PNG"].startswith(b"\x89PNG") and len(found["PNG"]) > 5000 and b"<svg" in found["HTML"]


def test_S9_tokens_stay_words(page, studio):
    open_view(page, studio, "language", ".reading .word", model="gpt", text=HOSTILE)
    assert page.locator("#view img, #view script").count() == 0
    assert page.locator(".reading .word").count() == len(HOSTILE)


@pytest.mark.parametrize("view,model", [("heads", "gpt"), ("positions", "gpt"), ("gates", "lstm")])
def test_the_other_views_show_language_models_too(page, studio, view, model):
    open_view(page, studio, view, model=model, text=TEXT)
    settled(page)
    assert page.input_value("#models select") == model and page.locator("#view .trouble").count() == 0


def test_gradients_are_those_of_the_output_that_was_picked_and_gates_stand_below(page, studio, models):
    open_view(page, studio, "gradients", model="lstm", text=TEXT)
    look = models["lstm"].inspect(TEXT)
    words = page.locator(".outputs .word")
    assert words.count() == len(look.outputs()) == len(TEXT) + 1
    for position in (len(TEXT), 3):
        words.nth(position).click()
        until(page, f"document.querySelector('.outputs .word[aria-pressed=true]').dataset.place === '{position}'")
        told = page.eval_on_selector_all(
            ".regard-gradients rect[data-at]", "all => all.map(one => [one.dataset.at, one.textContent])"
        )
        expected = {
            f"target {track.what} {i}": norm
            for track in look.gradients_of(position).tracks[::-1]
            for i, norm in enumerate(track.norms)
            if track.layer == 0
        }
        found = {at: float(text.rpartition(": ")[2]) for at, text in told[::-1]}
        assert found == pytest.approx(expected, rel=1e-3)
    assert page.locator(".regard-gates").count() == 1
    page.locator(".controls").get_by_label("Scale").select_option("logarithmic")
    until(page, "document.querySelector('#view figure h2').textContent === 'gradients, logarithmic scale'")
    assert "scale=" not in page.url  # that of the Training tab is its own


def test_the_experiments_on_the_next_token(page, studio, models):
    open_view(page, studio, "language", ".experiment .act", model="gpt", text=TEXT, seed=3)
    page.click(".experiment .act")
    page.wait_for_selector(".experiment dd >> nth=2")
    found = page.locator(".experiment dd").all_text_contents()
    assert found == [models["gpt"].generate(TEXT, length=60, temperature=one, seed=3).text for one in (0.3, 1, 2)]
    page.get_by_role("button", name="Another one").click()
    page.click(".experiment .act")
    until(page, "document.querySelector('.experiment .answer').innerText.includes('have half of the probability')")
    chances = sorted((one.probability for one in models["gpt"].next_tokens(TEXT, count=200)), reverse=True)
    count = next(at for at in range(len(chances) + 1) if sum(chances[:at]) >= 0.5)
    assert page.locator(".experiment .answer").inner_text().startswith(f"{count} of ")


@pytest.mark.parametrize(
    "outputs, wanted",
    [
        (["▁I", "'", "m", "▁a", "▁student", ".", "</s>"], 4),
        (["▁The", "▁red", "▁cat", "</s>"], 2),
        (["a", "b", " ", "<s>"], None),
        ([".", "</s>"], None),
        ([], None),
    ],
)
def test_gradients_begin_at_a_content_word(outputs, wanted):
    assert content_word(outputs) == wanted


def test_gradients_of_a_translation_reach_both_sides(page, studio, models):
    open_view(page, studio, "gradients", model="tiny-bahdanau", text="oui")
    look = models["tiny-bahdanau"].inspect("oui")
    tracks = look.gradients_of().tracks
    told = page.eval_on_selector_all(".regard-gradients rect[data-at]", "all => all.length")
    assert told == sum(len(track.norms) for track in tracks) and len({track.side for track in tracks}) == 2


@pytest.mark.parametrize("view,model", [("language", "gpt"), ("gradients", "lstm")])
def test_R22_narrow_screens_and_screen_readers(browser, studio, view, model):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    with watched(browser, studio, viewport={"width": 360, "height": 700}, color_scheme="dark") as page:
        open_view(page, studio, view, ".bars" if view == "language" else "figure", model=model, text=TEXT)
        settled(page)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        found = axe.Axe().run(page).response["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []


def test_the_logit_lens_has_a_row_for_each_layer(page, studio):
    """Its last row is what the model expects, as in the view of the next token."""
    open_view(page, studio, "lens", ".regard-lens", model="gpt", text=TEXT)
    (svg,) = page.query_selector_all("#view .regard-lens")
    words = svg.text_content()
    assert "embedding" in words and "layer 1" in words and "layer 2" not in words
    model = regard.load(studio.folders["gpt"], device="cpu")
    (likeliest,) = model.next_tokens(TEXT, count=1)
    last = page.query_selector_all(f'[data-at^="lens 2 {len(TEXT)}"]')
    assert last and f"layer 1, position {len(TEXT)}: " in last[0].text_content()
    assert last[0].text_content().split(": ")[1].split(" ")[0].strip("\u2068\u2069") == likeliest.token
    page.fill("#view textarea", "je ")
    until(page, "document.querySelector('#view .regard-lens') && !document.querySelector('[data-at=\"lens 2 6\"]')")
