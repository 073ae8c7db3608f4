"""The public API as a typed program uses it. Never run: tests/test_typing.py has mypy check every line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import numpy as np

import regard
from regard.data.input.sound import Sound
from regard.inspection.trace.translation import TranslationTrace
from regard.runs import Run
from regard.task._generated import Generated
from regard.task._recordings import Transcript
from regard.task._writing import Written
from regard.task.caption import Captioner
from regard.task.classify import Classification, Classifier
from regard.task.fill import Filled
from regard.task.forecast import Forecast
from regard.task.generate import Generator
from regard.task.tag import Tagging
from regard.task.track import Track
from regard.task.translate import Translation, Translator

folder = Path("runs/x")
array = np.zeros((8, 2))


class Table:
    """A DataFrame, as far as it matters."""

    columns = ("a", "b")

    def __getitem__(self, name: str) -> list[float]:
        return [1.0, 2.0]


def shipped() -> None:
    assert_type(regard.load(), Translator)
    assert_type(regard.load("fr-en"), Translator)
    assert_type(regard.load("shakespeare", device="cpu"), Generator)
    assert_type(regard.load("fashion"), Classifier)
    assert_type(regard.load("shapes"), Captioner)
    assert_type(regard.load(folder), Any)


def one_or_many() -> None:
    translator = regard.load(folder, task="translate")
    assert_type(translator.translate("oui"), Translation)
    assert_type(translator.translate(["oui", "non"], beam=4, n_best=2, alignment=True), list[Translation])
    assert_type(translator.translate(line for line in ("oui", "non")), list[Translation])
    assert_type(translator.inspect("oui"), TranslationTrace)
    classifier = regard.load("runs/y", task="classify", device="cpu", precision="int8")
    assert_type(classifier.classify("a film"), Classification)
    assert_type(classifier.classify(Table()), Classification)
    assert_type(classifier.classify([folder, b"", array]), list[Classification])
    tagger = regard.load(folder, task="tag")
    assert_type(tagger.tag("Ada"), Tagging)
    assert_type(tagger.tag([["Ada", "Lovelace"], "Ada"]), list[Tagging])
    filler = regard.load(folder, task="fill")
    assert_type(filler.fill("a _ film", top=3), Filled)
    assert_type(filler.fill(("a _ film",)), list[Filled])
    generator = regard.load(folder, task="generate")
    assert_type(generator.generate("KING", length=20), Generated)
    assert_type(generator.generate("KING", count=3), list[Generated])
    assert_type(generator.generate(["KING", "QUEEN"]), list[Generated])
    assert_type(generator.generate(["KING", "QUEEN"], count=3), list[list[Generated]])
    forecaster = regard.load(folder, task="forecast")
    assert_type(forecaster.forecast(array, 3), Forecast)
    assert_type(forecaster.forecast(Table()), Forecast)
    assert_type(forecaster.forecast(["a.csv", array]), list[Forecast])
    captioner = regard.load(folder, task="caption")
    assert_type(captioner.caption("photo.jpg", n_best=2), Written)
    assert_type(captioner.caption([b"", folder]), list[Written])
    transcriber = regard.load(folder, task="transcribe")
    assert_type(transcriber.transcribe((array, 16000)), Transcript)
    assert_type(transcriber.transcribe(Sound(array, 16000)), Transcript)
    assert_type(transcriber.transcribe(["a.wav", folder]), list[Transcript])
    tracker = regard.load(folder, task="track")
    assert_type(tracker.track("clip.gif"), Track)
    assert_type(tracker.track([folder]), list[Track])


def training() -> None:
    run = regard.train("sentiment-lstm", "training.steps=20", tiny=True, out=folder, quiet=True)
    assert_type(run, Run)
    run.model.classify("a film")
    regard.train(
        source=["a.fr", folder],
        target="a.en",
        valid_source="b.fr",
        valid_target=[folder],
        start_from="fr-en",
        steps=30,
        device="cpu",
    )
    regard.train(resume="runs/x")
    assert_type(regard.export("fr-en", "out", format="ctranslate2", precision="int8"), Path)
    scores, outputs = regard.evaluate("fr-en", ["oui"], ["yes"])
    assert_type(outputs, list[str])


def mistakes() -> None:
    try:
        regard.inspect("fr-en", "oui").html()
    except regard.UserError as error:
        print(error)
    # mypy is run so that an ignore that is not needed is an error: each of these must be one.
    regard.load("fr-en").classify("oui")  # type: ignore[attr-defined]
    regard.load("fr-en").translate(5)  # type: ignore[call-overload]
    regard.load("fr-en").translate("oui", beem=4)  # type: ignore[call-overload]
    print(regard.load(folder, task="tag").tag("Ada").label)  # type: ignore[attr-defined]
    regard.train(tinny=True)  # type: ignore[call-arg]
    regard.export("fr-en")  # type: ignore[call-arg]
