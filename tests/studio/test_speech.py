"""The studio's tab Sound, in a real browser: what lies over the spectrogram is what the model did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from studio.browsing import Studio, open_view, running_studio, until, watched

import regard
from tests.interchange.made_whisper import RATE, sound, whisper

MODEL = "tiny-whisper"


@pytest.fixture(scope="module")
def hearing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    home = tmp_path_factory.mktemp("hearing")
    theirs, _ = whisper(home / "theirs")
    with torch.no_grad():  # letters rather than parts of characters, so that there are words to point at
        theirs.model.decoder.embed_tokens.weight[64:91] *= 3
    theirs.save_pretrained(home / "theirs")
    folder = regard.import_model(home / "theirs", home / MODEL)
    soundfile.write(home / "a.wav", sound(1.3), RATE)
    with running_studio("--only", "--runs", str(home / "runs"), "--model", str(folder)) as running:
        running.folders = {MODEL: folder, "home": home}
        yield running


@pytest.mark.slow
def test_the_attention_of_a_word_lies_over_the_spectrogram(browser, hearing):
    home: Path = hearing.folders["home"]
    model = regard.load(hearing.folders[MODEL], device="cpu", task="transcribe")
    with watched(browser, hearing, viewport={"width": 1200, "height": 900}) as page:
        open_view(page, hearing, "speech", "input[type=file]", model=MODEL)
        page.wait_for_selector("text=It may last 2 seconds")
        page.locator("label.choice:has-text('Spoken') >> nth=0").locator("select").select_option("de")
        page.set_input_files("input[type=file]", home / "a.wav")
        page.wait_for_selector(".scene .place")
        trace = model.inspect(home / "a.wav", source="de")
        words = page.locator("button.word")
        assert words.all_inner_texts() == trace.target.words and len(trace.target.words) > 0
        words.nth(0).hover()
        until(page, "document.querySelector('.scene').dataset.who !== ''")
        found = page.eval_on_selector_all(".scene .place", "all => all.map(one => Number(one.dataset.weight))")
        np.testing.assert_allclose(found, trace.scene.on_places(trace.word_matrix())[0], atol=1e-5)
        page.wait_for_selector(".pictures svg")
        page.locator("label.choice:has-text('Layer') >> nth=0").locator("select").select_option("1")
        words.nth(0).hover()
        wanted = trace.scene.on_places(trace.word_matrix(1))[0]
        weight = "Number(document.querySelector('.scene .place').dataset.weight)"
        until(page, f"Math.abs({weight} - {float(wanted[0])}) < 1e-5")
