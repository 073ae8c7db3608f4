"""A resumed run keeps its data: changes are refused by name, a copy elsewhere is accepted."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.config import Recipe, apply_overrides, read_recipe
from regard.data.corpus import read_pairs
from regard.errors import UserError
from regard.runs import test as run_test
from regard.training.listener import Quiet

SHORT = [
    "training.steps=2",
    "training.warmup=1",
    "training.validate_every=2",
    "training.device=cpu",
    "model.width=8",
    "model.heads=2",
]
TEXT = ["tokenizer.kind=word", "training.batch_tokens=400"]


def translation(data: Path, *more: str) -> Recipe:
    for side, words in (("fr", "le mot {} vaut {}\n"), ("en", "the word {} is worth {}\n")):
        (data / f"train.{side}").write_text("".join(words.format(i, 1000 + i) for i in range(300)))
        (data / f"valid.{side}").write_text("".join(words.format(i, 1000 + i) for i in range(500, 520)))
    recipe = Recipe(task="translate")
    recipe.data.root, recipe.data.source, recipe.data.target = str(data), ["train.fr"], ["train.en"]
    return apply_overrides(recipe, [*SHORT, *TEXT, "model.layers=1", "data.workers=0", *more])


def validated_translation(data: Path) -> Recipe:
    return translation(data, "data.valid_source=['valid.fr']", "data.valid_target=['valid.en']")


def texts(data: Path, *more: str) -> Recipe:
    for label in ("good", "bad"):
        (data / f"{label}.txt").write_text("".join(f"a {label} film, number {i:03}\n" for i in range(60)))
    (data / "valid.txt").write_text("a good film\na good day\n")
    recipe = Recipe(task="classify")
    recipe.data.root, recipe.data.train = str(data), ["good.txt", "bad.txt"]
    return apply_overrides(recipe, [*SHORT, *TEXT, "data.format.kind=labelled_lines", *more])


def validated_texts(data: Path) -> Recipe:
    return texts(data, "data.valid=['valid.txt', 'bad.txt']", "data.format.labels=['good', 'bad']")


def pictures(data: Path) -> Recipe:
    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(1)
    for label in ("cat", "dog"):
        (data / "pictures" / label).mkdir(parents=True)
        for i in range(12):
            pixels = random.integers(0, 256, (8, 8, 3), np.uint8)
            image.fromarray(pixels).save(data / "pictures" / label / f"{i:02}.png")
    recipe = Recipe(task="classify")
    recipe.data.root, recipe.data.train = str(data), ["pictures"]
    stem = "model.stem={kind = 'patches', patch = 4}"
    return apply_overrides(
        recipe, [*SHORT, "data.format.kind=image_folder", stem, "input.size=8", "training.batch_examples=8"]
    )


KINDS: dict[str, tuple[Callable[[Path], Recipe], str]] = {
    "parallel text": (translation, "train.fr"),
    "validation pairs": (validated_translation, "valid.en"),
    "examples": (texts, "bad.txt"),
    "validation examples": (validated_texts, "valid.txt"),
    "a folder of pictures": (pictures, "pictures/dog/07.png"),
}


@pytest.fixture(scope="module", params=list(KINDS))
def begun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with data/ and a run of them, and the name of a file to change."""
    make, file = KINDS[request.param]
    place = tmp_path_factory.mktemp("begun")
    (place / "data").mkdir()
    regard.train(make(place / "data"), folder=place / "run", quiet=True)
    return place, file


@pytest.fixture
def place(begun: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of it, whose recipe names the copied files."""
    shutil.copytree(begun[0], tmp_path / "copy")
    return tmp_path / "copy"


def elsewhere(place: Path) -> list[str]:
    """The settings that name the files in the copy."""
    data = read_recipe(place / "run" / "recipe.toml").data
    keys = ("source", "target", "valid_source", "valid_target", "train", "valid")
    moved = {key: [str(place / "data" / Path(path).name) for path in getattr(data, key)] for key in keys}
    return [f"data.{key}={json.dumps(paths)}" for key, paths in moved.items() if paths]


def resume(place: Path, *more: str, report: Quiet | None = None) -> regard.Run:
    return regard.train(
        None, *elsewhere(place), "training.steps=3", *more, folder=place / "run", resume=True, report=report or Quiet()
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def other_bytes(file: Path) -> None:
    """Other content of the same size, and the same time of change: a hash alone can tell."""
    status, content = file.stat(), bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def one_line_more(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"one more\n")


@pytest.mark.parametrize("change", [other_bytes, one_line_more, Path.unlink])
def test_changed_data_are_refused_by_name(change: Callable[[Path], None], begun: tuple[Path, str], place: Path) -> None:
    file = place / "data" / begun[1]
    change(file)
    before = contents(place / "run")
    with pytest.raises(UserError) as refused:
        resume(place)
    assert file.name in str(refused.value) and "\n" not in str(refused.value)
    assert "put" in str(refused.value) and str(place / "data") in str(refused.value)
    assert contents(place / "run") == before, "something of the run was written"


def test_a_copy_elsewhere_resumes_with_the_same_held_out_pairs(place: Path) -> None:
    held = contents(place / "run" / "held_out")
    assert resume(place).reason == "steps"
    assert contents(place / "run" / "held_out") == held
    assert resume(place, "training.steps=4").reason == "steps", "and its new places are kept"


def test_files_added_to_a_folder_and_another_number_of_files(begun: tuple[Path, str], place: Path) -> None:
    if begun[1].startswith("pictures"):
        shutil.copy(place / "data" / begun[1], place / "data" / "pictures" / "dog" / "99.png")
        with pytest.raises(UserError, match=r"'dog/99.png' was added since .*run was begun"):
            resume(place)
        return
    key = "source" if begun[1].endswith(("fr", "en")) else "train"
    file = sorted((place / "data").iterdir())[0]
    with pytest.raises(UserError, match=rf"data.{key} named \d path\(s\) when .*run was begun, not 3"):
        resume(place, f"data.{key}={json.dumps([str(file)] * 3)}")


@pytest.mark.parametrize("setting", ["data.hold_out_valid=20", "data.hold_out_test=5", "data.folds=3"])
def test_what_is_held_out_cannot_be_set_anew(setting: str, place: Path) -> None:
    name = setting.partition("=")[0]
    with pytest.raises(UserError, match=f"{name} was .* when .*run was begun"):
        resume(place, setting)


class Notes(Quiet):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_run_without_fingerprints_resumes_and_says_so(begun: tuple[Path, str], place: Path) -> None:
    (place / "run" / "data.json").unlink()
    notes = Notes()
    assert resume(place, report=notes).reason == "steps"
    assert sum("cannot be compared" in note for note in notes.notes) == 1
    other_bytes(place / "data" / begun[1])
    with pytest.raises(UserError, match="was changed"):
        resume(place)


def test_a_damaged_record_is_named(place: Path) -> None:
    (place / "run" / "data.json").write_text('{"train": [')
    with pytest.raises(UserError, match=r"data\.json is damaged"):
        resume(place)


def test_an_old_run_of_changed_text_keeps_its_held_out_pairs(tmp_path: Path) -> None:
    """Without fingerprints the change goes unnoticed, but what was trained on is never validated on."""
    (tmp_path / "data").mkdir()
    regard.train(translation(tmp_path / "data"), folder=tmp_path / "run", quiet=True)
    folder, file = tmp_path / "run" / "held_out", tmp_path / "data" / "train.en"
    held = list(read_pairs([folder / "valid.source"], [folder / "valid.target"]))
    assert len(held) == 30
    (tmp_path / "run" / "data.json").unlink()
    file.write_text(file.read_text().replace("worth", "now worth"))
    regard.train(None, "training.steps=3", folder=tmp_path / "run", resume=True, quiet=True)
    assert list(read_pairs([folder / "valid.source"], [folder / "valid.target"])) == held


def test_a_new_run_in_the_folder_of_one_that_never_trained_chooses_anew(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    recipe = translation(tmp_path / "data")
    (tmp_path / "run" / "held_out").mkdir(parents=True)
    for side in ("source", "target"):
        (tmp_path / "run" / "held_out" / f"valid.{side}").write_text("from an earlier attempt\n")
    regard.train(recipe, folder=tmp_path / "run", quiet=True)
    lines = (tmp_path / "run" / "held_out" / "valid.source").read_text().splitlines()
    assert len(lines) == 30 and all(line.startswith("le mot") for line in lines)


def test_a_test_on_changed_data_is_refused(tmp_path: Path) -> None:
    """The test examples are held out of the training files: of changed ones, others."""
    (tmp_path / "data").mkdir()
    regard.train(texts(tmp_path / "data", "data.hold_out_test=10"), folder=tmp_path / "run", quiet=True)
    assert "accuracy" in run_test(tmp_path / "run", "cpu")
    one_line_more(tmp_path / "data" / "good.txt")
    with pytest.raises(UserError, match=r"good\.txt was changed \([\d,]+ bytes then, [\d,]+ now\)"):
        run_test(tmp_path / "run", "cpu")
