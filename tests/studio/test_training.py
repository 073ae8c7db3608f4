"""A training run is watched while it goes on: what the page shows is what its file says, and it comes by itself."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from serving.running import environment
from studio.browsing import Studio, open_view, watched

from regard.locking import hold
from regard.training.listener import Log
from regard.training.progress import Reporter
from regard.types import Validation

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

OUTPUTS = ["a dog", "a black dog", "a black cat sleeps"]
LAYERS = ("stem.embedding", "encoder.layers.0", "decoder.layers.0")


class Written:
    """A run whose lines the trainer's own reporter writes, when the test says so."""

    def __init__(self, folder: Path, steps: int = 40) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        recipe = f'task = "translate"\nsource_language = "fr"\ntarget_language = "en"\n[training]\nsteps = {steps}\n'
        (folder / "recipe.toml").write_text(recipe)
        self.stream = (folder / "stderr").open("w")
        self.report = Reporter(folder, stream=self.stream)
        self.report.start(0, steps)

    def logs(self, first: int, last: int) -> None:
        for step in range(first, last + 1):
            layers = {name: 0.31 * (place + 1) / step for place, name in enumerate(LAYERS)}
            loss, norm = 7.1 / math.sqrt(step), math.hypot(*layers.values())
            self.report.log(Log(step, 0, loss, 1e-4 * step, norm, 100 * step, 1234.5, layers))

    def validation(self, step: int, output: str, source: str = "un chat noir dort", **scores: float) -> None:
        found = {"bleu": 2.0 * step, "loss": 8.0 / step, **scores}
        self.report.validated(step, Validation(found, [(source, output, "a black cat is asleep")]))

    def lines(self, kind: str) -> list[dict[str, Any]]:
        read = [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]
        return [line for line in read if kind in line]

    def end(self) -> None:
        self.report.close()
        self.stream.close()


@pytest.fixture
def runs(studio: Studio, tmp_path: Path) -> Iterator[Path]:
    """The folder that the studio watches, empty again after each test."""
    folder = next(iter(studio.folders.values())).parent / "runs"
    folder.mkdir(exist_ok=True)
    yield folder
    folder.rename(tmp_path / "done")


@pytest.fixture
def run(runs: Path) -> Iterator[Written]:
    written = Written(runs / "fr-en")
    written.logs(1, 20)
    written.validation(10, OUTPUTS[0])
    written.validation(20, OUTPUTS[1])
    yield written
    written.end()


def figure(page: Page, heading: str) -> Locator:
    return page.locator("figure:visible").filter(has=page.get_by_role("heading", name=heading, exact=True))


def walked(page: Page, heading: str, key: str = "ArrowLeft") -> list[str]:
    """All values of a figure, as the arrow keys come to them."""
    drawing = figure(page, heading).locator(".drawing")
    drawing.focus()
    said: list[str] = []
    while len(said) < 500:
        drawing.press(key)
        words = figure(page, heading).locator(".value").inner_text()
        if said and said[-1] == words:
            return said
        said.append(words)
    raise AssertionError("there is no end to it")


def read_back(said: list[str], name: str) -> dict[int, float]:
    found = {}
    for words in said:
        step = re.match(r"step ([\d,]+)", words)
        value = re.search(rf"\b{re.escape(name)}:? ([−\d.,e]*\d)", words)
        if step and value:
            found[int(step[1].replace(",", ""))] = float(value[1].replace(",", "").replace("−", "-"))
    return found


def digits(value: float) -> float:
    """As many as the page says."""
    return float(f"{value:.6g}")


def test_every_value_on_the_page_is_the_files(page: Page, studio: Studio, run: Written) -> None:
    open_view(page, studio, "training", wait="figure:visible svg")
    logs, validations = run.lines("loss"), run.lines("valid_loss")
    said = walked(page, "Loss")
    assert read_back(said, "training") == {line["step"]: digits(line["loss"]) for line in logs}
    assert read_back(said, "validation") == {line["step"]: digits(line["valid_loss"]) for line in validations}
    assert read_back(walked(page, "BLEU"), "BLEU") == {line["step"]: digits(line["valid_bleu"]) for line in validations}
    rates = read_back(walked(page, "Learning rate"), "learning rate")
    assert rates == {line["step"]: digits(line["learning_rate"]) for line in logs}
    norms = read_back(walked(page, "Gradient norm"), "norm")
    assert norms == {line["step"]: digits(line["norm"]) for line in logs}
    last = {line["step"]: line for line in logs}[20]
    drawing = figure(page, "Gradient norm of each layer").locator(".drawing")
    drawing.focus()
    for name in LAYERS:
        drawing.press("ArrowDown")
        words = figure(page, "Gradient norm of each layer").locator(".value").inner_text()
        assert read_back([words], name) == {20: digits(last["layers"][name])}, words
    table = {row.locator("th").inner_text(): row.locator("td").inner_text() for row in page.locator(".last tr").all()}
    assert float(table["training loss"]) == digits(last["loss"]) and table["BLEU"] == "40 (step 20)"


def test_the_pointer_finds_the_nearest_step(page: Page, studio: Studio, run: Written) -> None:
    open_view(page, studio, "training", wait="figure:visible svg")
    drawing = figure(page, "Loss").locator(".drawing")
    box = drawing.bounding_box()
    assert box
    drawing.hover(position={"x": box["width"] - 20, "y": 100})
    assert read_back([figure(page, "Loss").locator(".value").inner_text()], "training") == {20: digits(7.1 / 20**0.5)}
    assert drawing.locator(".pointed circle").count() == 2, "training and validation"


def test_new_points_and_samples_come_by_themselves_and_the_end_is_told(
    page: Page, studio: Studio, run: Written
) -> None:
    lock = hold(run.folder / "lock")
    assert lock
    open_view(page, studio, "training", wait=".facts .running")
    assert "running at step 20 of 40" in page.locator(".facts").inner_text()
    assert page.locator(".samples .output").inner_text() == OUTPUTS[1]
    run.logs(21, 40)
    run.validation(40, OUTPUTS[2])
    page.wait_for_selector('.training[data-step="40"]')
    page.locator(".samples .output", has_text=OUTPUTS[2]).wait_for()
    assert page.locator(".samples .output mark").all_inner_texts() == ["cat", "sleeps"], "what was not there before"
    assert read_back(walked(page, "Loss"), "training")[40] == digits(7.1 / math.sqrt(40))
    lock.close()
    (run.folder / "model").mkdir()
    page.wait_for_selector('.training[data-state="finished"]')
    assert page.locator("#said").inner_text() == "The run fr-en has ended: finished."
    assert "finished at step 40 of 40" in page.locator(".facts").inner_text()


def test_the_slider_goes_back_to_what_it_wrote_before(page: Page, studio: Studio, run: Written) -> None:
    page.clock.install()
    open_view(page, studio, "training", wait=".samples")
    slider = page.get_by_role("slider")
    assert slider.get_attribute("aria-valuetext") == "step 20 (last)"
    assert page.locator(".samples .output mark").all_inner_texts() == ["black"]
    slider.focus()
    slider.press("ArrowLeft")
    assert page.locator(".samples .output").inner_text() == OUTPUTS[0]
    assert page.locator(".samples mark").count() == 0
    run.validation(30, OUTPUTS[2])
    page.clock.fast_forward(6000)
    page.wait_for_selector('.written input[max="2"]')
    assert page.locator(".samples .output").inner_text() == OUTPUTS[0], "one who looks back is not taken away"


def test_a_resumed_run_is_read_anew(page: Page, studio: Studio, run: Written) -> None:
    page.clock.install()
    open_view(page, studio, "training", wait="figure:visible svg")
    run.report.close()
    run.report.start(5, 40)  # which drops what comes after step 5
    run.logs(6, 7)
    page.clock.fast_forward(6000)
    page.wait_for_selector('.training[data-step="7"]')
    page.wait_for_selector(".samples", state="hidden")
    assert list(read_back(walked(page, "Loss"), "training")) == [7, 6, 5, 4, 3, 2, 1]


def test_S9_what_a_run_says_stays_text(page: Page, studio: Studio, runs: Path) -> None:
    hostile = "<img src=x onerror=alert(1)>\"'&<script>alert(2)</script>\u202e\x07"
    run = Written(runs / "a <b>run")
    run.report.log(Log(1, 0, 1.0, 0.1, 0.5, 1, 1.0, {hostile: 0.5}))
    run.report.validated(1, Validation({"bleu": 1.0, hostile: 2.0}, [(hostile, hostile, hostile)]))
    run.end()
    open_view(page, studio, "training", wait=".samples")
    page.wait_for_timeout(300)
    assert page.locator(".samples dd").first.evaluate("one => one.textContent") == hostile
    assert page.evaluate("document.querySelectorAll('#view img, #view script, #view b').length") == 0
    assert walked(page, "Gradient norm of each layer")[0].startswith("step 1, <img src=x")
    assert page.locator(".controls option").first.inner_text() == "a <b>run"


def test_two_runs_on_top_of_each_other_on_a_log_scale(page: Page, studio: Studio, run: Written, runs: Path) -> None:
    other = Written(runs / "slower")
    other.report.log(Log(5, 0, 99.5, 1e-3, 2.0, 1, 1.0, {}))
    other.report.log(Log(15, 0, 98.5, 1e-3, 2.0, 1, 1.0, {}))
    other.end()
    open_view(page, studio, "training", wait="figure:visible svg", run="fr-en")
    page.get_by_label("Compare with").select_option("slower")
    page.wait_for_selector(".last thead th + th")
    said = walked(page, "Loss")
    assert read_back(said, "training, slower") == {5: 99.5, 15: 98.5} and len(read_back(said, "training")) == 20
    page.get_by_label("Logarithmic scale").check()
    assert "scale=log" in page.url and "against=slower" in page.url
    assert read_back(walked(page, "Loss"), "training, slower") == {5: 99.5, 15: 98.5}
    page.go_back()
    page.go_back()
    page.wait_for_selector(".last thead", state="detached")
    assert page.get_by_label("Compare with").input_value() == ""


def test_nobody_is_asked_while_nobody_looks(page: Page, studio: Studio, run: Written) -> None:
    lock = hold(run.folder / "lock")
    assert lock
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/runs/fr-en" in request.url else None)
    page.clock.install()
    open_view(page, studio, "training", wait=".facts .running")

    def after(seconds: int) -> int:
        """How often the run is asked for in so many seconds, as the page's clock goes."""
        asked.clear()
        page.clock.fast_forward(1000 * seconds)
        page.wait_for_timeout(300)
        return len(asked)

    assert after(10) >= 1, "a run that goes on is asked for again and again"
    page.evaluate("Object.defineProperty(document, 'hidden', {get: () => window.unseen, configurable: true})")
    page.evaluate("window.unseen = true")
    assert after(10) == after(60) == 0
    asked.clear()
    page.evaluate("window.unseen = false; document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_timeout(300)
    assert asked, "at once"
    page.get_by_role("link", name="Translate", exact=True).click()
    assert after(10) == after(60) == 0, "another view is looked at"
    lock.close()


@pytest.mark.parametrize("kind", ["SVG", "PNG", "HTML"])
def test_a_picture_can_be_taken_away(kind: str, page: Page, studio: Studio, run: Written, tmp_path: Path) -> None:
    open_view(page, studio, "training", wait="figure:visible svg")
    heading = "Gradient norm of each layer" if kind == "SVG" else "Loss"
    with page.expect_download() as waiting:
        figure(page, heading).get_by_role("button", name=f"Save as {kind}").click()
    saved = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(saved)
    if kind == "PNG":
        assert saved.read_bytes().startswith(b"\x89PNG")
        return
    text = saved.read_text(encoding="utf-8")
    assert not re.search(r"<script|https?://(?!www\.w3\.org/2000/svg)", text)
    if kind == "SVG":
        titles = [one.text or "" for one in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}title")]
        values = {line["step"]: digits(line["layers"]["encoder.layers.0"]) for line in run.lines("layers")}
        assert (
            read_back(titles, "encoder.layers.0") | values == values
            and f"step 20, encoder.layers.0: {values[20]}" in titles
        )
    else:
        assert "training, step 20: " in text


def test_R22_it_reads_on_a_telephone_and_to_a_screen_reader(browser: Any, studio: Studio, run: Written) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    for scheme in ("light", "dark"):
        with watched(browser, studio, viewport={"width": 360, "height": 800}, color_scheme=scheme) as page:
            open_view(page, studio, "training", wait="figure:visible svg")
            page.wait_for_selector(".last td")
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
            found = axe.Axe().run(page).response["violations"]
            assert not [one["id"] for one in found if one["impact"] in ("serious", "critical")], found


def test_without_runs_it_says_how_to_begin(page: Page, studio: Studio, runs: Path) -> None:
    page.clock.install()
    open_view(page, studio, "training", wait=".none")
    assert page.locator(".none").inner_text().startswith("There are no training runs in the folder “runs” yet.")
    assert "regard train" in page.locator(".none").inner_text()
    late = Written(runs / "late")
    late.logs(1, 2)
    late.end()
    page.clock.fast_forward(6000)
    page.wait_for_selector('.training[data-step="2"]')


def test_a_finished_run_without_numbers_says_why(page: Page, studio: Studio, runs: Path) -> None:
    quiet = runs / "quiet"
    (quiet / "model").mkdir(parents=True)
    (quiet / "lock").touch()
    open_view(page, studio, "training", wait=".none")
    assert "--quiet" in page.locator(".none").inner_text()


def test_the_experiment_finds_the_best_validation(page: Page, studio: Studio, runs: Path) -> None:
    written = Written(runs / "over")
    written.logs(1, 30)
    for step, loss in ((10, 2.0), (20, 1.5), (30, 1.75)):
        written.validation(step, OUTPUTS[0], loss=loss)
    written.end()
    open_view(page, studio, "training", wait="figure:visible svg")
    page.click(".experiment .act")
    page.locator(".experiment .answer", has_text="overfitting").wait_for()
    said = page.locator(".experiment .answer").inner_text()
    assert said.startswith("No: the validation loss of over was lowest at step 20 (1.5) and is 1.75 at step 30.")


def test_a_bleu_of_almost_zero_is_zero(page: Page, studio: Studio, runs: Path) -> None:
    written = Written(runs / "new")
    written.logs(1, 3)
    written.validation(1, OUTPUTS[0], bleu=4e-47)
    written.validation(3, OUTPUTS[0], bleu=2e-47)
    written.end()
    open_view(page, studio, "training", wait="figure:visible svg")
    ticks = figure(page, "BLEU").locator("svg .faint text").all_text_contents()
    assert ticks and not any("e" in tick for tick in ticks), ticks
    assert page.locator(".last tr", has_text="BLEU").locator("td").inner_text().startswith("0 ")


@pytest.mark.slow
def test_a_real_training_is_watched_from_its_first_to_its_last_step(page: Page, studio: Studio, runs: Path) -> None:
    open_view(page, studio, "training", wait=".none")
    command = [sys.executable, "-m", "regard", "train", "sentiment-lstm", "--tiny", "--output", str(runs / "real")]
    settings = ["training.log_every=1", "training.steps=300", "training.validate_every=50"]
    with subprocess.Popen(
        [*command, *settings], stderr=subprocess.DEVNULL, env=environment(OMP_NUM_THREADS="1")
    ) as made:
        page.wait_for_selector('.training[data-state="running"]')
        page.wait_for_selector(".samples .output")
        assert made.wait(240) == 0
    page.wait_for_selector('.training[data-state="finished"][data-step="300"]')
    lines = [json.loads(line) for line in (runs / "real" / "metrics.jsonl").read_text().splitlines()]
    said = read_back(walked(page, "Loss"), "training")
    assert said == {line["step"]: digits(line["loss"]) for line in lines if "loss" in line}


def test_the_pages_own_drawings_have_the_colours_of_all_others() -> None:
    from regard.inspection.draw import style
    from regard.studio.app import PAGE

    drawn = (PAGE / "svg.js").read_text(encoding="utf-8")
    for name, colours in (("LIGHT", style.LIGHT), ("DARK", style.DARK)):
        found = dict(re.findall(r'(\w+): "(#\w+)"', re.search(rf"const {name} = (.*);", drawn)[1]))  # type: ignore[index]
        assert found == {shade: colour for shade, colour in colours.items() if shade in found} and len(found) == 6
