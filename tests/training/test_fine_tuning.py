"""Fine-tuning with default settings improves held-out text, says so, and warns when it does not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import regard
from regard.training.progress import Quiet

PARTS = {"la vanne": "the valve", "le capot": "the hood", "la pompe": "the pump", "le joint": "the gasket"}
ACTIONS = {"Démontez": "Remove", "Graissez": "Lubricate", "Serrez": "Tighten", "Remplacez": "Replace"}
SHORT = ("training.steps=20", "training.batch_tokens=256", "training.device=cpu", "data.workers=0")


class Notes(Quiet):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.scores: dict[int, dict[str, float]] = {}

    def note(self, text: str) -> None:
        self.notes.append(text)

    def validated(self, step: int, validation: object) -> None:
        self.scores[step] = validation.scores  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences of a machine's manual: some to train on, others of the same kind to validate on."""
    folder = tmp_path_factory.mktemp("manual")
    pairs = [
        (f"{act} {part} toutes les {n} heures.", f"{ACTIONS[act]} {PARTS[part]} every {n} operating hours.")
        for act in ACTIONS
        for part in PARTS
        for n in (8, 24, 50)
    ]
    random.Random(1).shuffle(pairs)
    for name, some in (("train", pairs[:40]), ("valid", pairs[40:])):
        for side, language in enumerate(("fr", "en")):
            (folder / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in some))
    return folder


def tuned(manual: Path, place: Path, *more: str) -> tuple[regard.Run, Notes]:
    notes = Notes()
    valid = [f"data.valid_{side}=['{manual}/valid.{code}']" for side, code in (("source", "fr"), ("target", "en"))]
    files = {"source": manual / "train.fr", "target": manual / "train.en"}
    run = regard.train(None, "training.from=fr-en", *SHORT, *valid, *more, **files, folder=place, report=notes)
    return run, notes


def test_defaults_of_fine_tuning_improve_held_out_text(manual: Path, tmp_path: Path) -> None:
    """With the defaults of a long training (1,000 steps of warm-up) the same 20 steps hardly change the model."""
    run, notes = tuned(manual, tmp_path / "new")
    before, after = notes.scores[0], run.scores
    long = ("training.warmup=1000", "training.learning_rate=1e-3")
    unchanged, complaints = tuned(manual, tmp_path / "old", *long)
    print(before, after, unchanged.scores)
    assert after["bleu"] > before["bleu"] + 20
    assert unchanged.scores["bleu"] < before["bleu"] + 10
    assert any("before fine-tuning" in note and f"{after['bleu']:.4g} after" in note for note in notes.notes)
    assert not any("warning" in note for note in notes.notes)
    assert any("training.warmup=1000 is not shorter" in note for note in complaints.notes)
