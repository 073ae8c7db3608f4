"""`regard import` and `regard.import_model`: where a model comes from, where it goes, and what its card says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from interchange import tiny_marian
from interchange.test_hostile_imports import argos
from safetensors.numpy import load as load_numpy
from safetensors.numpy import save as save_numpy

import regard
from regard.atomic_files import temporary_name
from regard.config import read_recipe
from regard.errors import UserError
from regard.find_model import find_model
from regard.imported_models import imported_models, read_origin
from regard.loading import load
from regard.storage import read_folder
from regard.weights import load_weights

Run = Callable[..., tuple[str, str]]
TEXTS = ["das alte Haus", "die Straße über 1984", ""]


@pytest.fixture(scope="session")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_marian.write(tmp_path_factory.mktemp("marian") / "tiny")


@pytest.fixture
def copy(marian: Path, tmp_path: Path) -> Path:
    return shutil.copytree(marian, tmp_path / "copy")


def refusal(*arguments: object, **options: object) -> str:
    with pytest.raises(UserError) as refused:
        regard.import_model(*arguments, **options)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def answers(model: str | Path) -> list[str]:
    return [one.text for one in load(model, "cpu").translate(TEXTS, beam=1, max_length=12)]


def test_a_folder_becomes_a_model_with_a_card(marian: Path, own_cache: Path) -> None:
    folder = regard.import_model(marian)
    assert folder == own_cache / "imported" / "tiny" == find_model("tiny")
    assert len(answers("tiny")) == len(TEXTS)
    origin = read_origin(folder)
    assert (origin.source, origin.family, origin.licence, origin.precision) == (
        "tiny",
        "marian",
        "cc-by-4.0",
        "float32",
    )
    card = (folder / "card.md").read_text()
    assert card.startswith("# tiny\n\nGerman to English, imported from tiny.\n")
    assert f"{origin.parameters:,} parameters, kept as float32" in card and "- Licence: cc-by-4.0;" in card
    weights = read_folder(folder).weights()
    assert origin.parameters == sum(weight.numel() for weight in weights.values())


def test_what_is_not_applied_is_on_the_card(copy: Path) -> None:
    (copy / "config.json").write_text(json.dumps(tiny_marian.config(repetition_penalty=1.3, colour="blue")))
    card = (regard.import_model(copy) / "card.md").read_text()
    assert "repetition_penalty = 1.3 is not applied" in card and "colour is not known here" in card


def test_a_folder_of_its_own(marian: Path, tmp_path: Path) -> None:
    folder = regard.import_model(marian, tmp_path / "a" / "b")
    assert folder == tmp_path / "a" / "b" and imported_models() == {}
    assert "already exists" in refusal(marian, folder)
    assert "is a model folder of Regard already" in refusal(folder)
    assert "does not exist" in refusal(tmp_path / "nothing")


def test_names_are_not_taken_twice(marian: Path, tmp_path: Path) -> None:
    regard.import_model(marian)
    assert "regard models remove tiny" in refusal(marian)
    assert "a shipped model is called fr-en" in refusal(shutil.copytree(marian, tmp_path / "fr-en"))


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_precision(marian: Path, tmp_path: Path, precision: str) -> None:
    folder = regard.import_model(marian, tmp_path / precision, precision=precision)
    assert read_origin(folder).precision == precision and f"kept as {precision}" in (folder / "card.md").read_text()
    assert len(answers(folder)) == len(TEXTS)


@pytest.mark.parametrize(("stored", "kept"), [("float16", "bfloat16"), ("float32", "float32")])
def test_weights_stay_as_they_are(copy: Path, stored: str, kept: str) -> None:
    file, said = copy / "model.safetensors", list[str]()
    file.write_bytes(save_numpy({name: one.astype(stored) for name, one in load_numpy(file.read_bytes()).items()}))
    folder = regard.import_model(copy, note=said.append)
    assert read_origin(folder).precision == kept
    assert any("float16 weights are kept as bfloat16" in line for line in said) == (stored == "float16")
    assert ("kept as bfloat16, with 3 bits less" in (folder / "card.md").read_text()) == (stored == "float16")


def test_int8_of_ctranslate2_loses_nothing(ours: Path, tmp_path: Path) -> None:
    source = regard.export(ours, tmp_path / "int8", format="ctranslate2", precision="int8")
    folder = regard.import_model(source, tmp_path / "de-en")
    assert read_origin(folder).precision == "int8"
    exact = regard.import_model(source, tmp_path / "exact", precision="float32")
    small, large = (load_weights(place / "weights.safetensors") for place in (folder, exact))
    assert small.keys() == large.keys()
    assert all(np.allclose(small[name], large[name], rtol=1e-6, atol=1e-9) for name in small)


def test_languages(ours: Path, tmp_path: Path) -> None:
    plain = regard.export(ours, tmp_path / "plain", format="ctranslate2", precision="float32")
    recipe = read_recipe(regard.import_model(plain))
    assert recipe.source_language == recipe.target_language == ""
    named = regard.import_model(plain, tmp_path / "named", source_language="DE", target_language="pt-BR")
    recipe = read_recipe(named)
    assert (recipe.source_language, recipe.target_language) == ("de", "pb")
    recipe = read_recipe(regard.import_model(shutil.copytree(plain, tmp_path / "ct2-opus-mt-nl-en")))
    assert (recipe.source_language, recipe.target_language) == ("nl", "en"), "its name says so"


def test_an_import_says_how_much_memory_it_takes(
    marian: Path, foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    regard.import_model(marian, tmp_path / "little", note=said.append)
    assert said == []
    monkeypatch.setattr("regard.interchange.sources.MUCH_MEMORY", 100_000)
    regard.import_model(marian, tmp_path / "much", note=said.append)
    regard.import_model(foreign, tmp_path / "more", note=said.append)
    assert [line.startswith("reading the weights takes up to") for line in said] == [True, True]


def test_an_argos_package(foreign: Path, tmp_path: Path, ours: Path) -> None:
    import zipfile

    package = tmp_path / "translate-de_en-1_0.argosmodel"
    with zipfile.ZipFile(package, "w") as archive:
        for name, content in argos(foreign).items():
            archive.writestr(name, content)
    folder = regard.import_model(package)
    assert folder.name == "translate-de_en-1_0" and read_origin(folder).source == package.name
    assert read_recipe(folder).source_language == "de"


def test_a_snapshot_of_the_hubs_cache(marian: Path, tmp_path: Path) -> None:
    """Its files are links to blobs elsewhere."""
    blobs, snapshot = tmp_path / "models--a--b" / "blobs", tmp_path / "models--a--b" / "snapshots" / "c0ffee"
    for folder in (blobs, snapshot):
        folder.mkdir(parents=True)
    for number, file in enumerate(sorted(marian.iterdir())):
        shutil.copy(file, blobs / str(number))
        (snapshot / file.name).symlink_to(Path("../../blobs", str(number)))
    folder = regard.import_model(snapshot, tmp_path / "imported")
    assert answers(folder) == answers(regard.import_model(marian))
    assert not any(path.is_symlink() for path in folder.iterdir())


def test_commands(marian: Path, run_regard: Run, own_cache: Path) -> None:
    out, err = run_regard("import", marian)
    assert out == f"{own_cache / 'imported' / 'tiny'}  0.6 MB\n" and err == ""
    listed, _ = run_regard("models")
    row = next(line for line in listed.splitlines() if line.startswith("tiny"))
    assert row.split() == ["tiny", "translate", "de", "to", "en", "0.6", "MB", "cc-by-4.0", "tiny"]
    assert run_regard("models", "tiny")[0].startswith("# tiny\n")
    found = json.loads(run_regard("models", "--json")[0])[-1]
    shown = json.loads(run_regard("models", "tiny", "--json")[0])
    assert shown.pop("card").startswith("# tiny\n") and shown == found
    assert (found["name"], found["languages"], found["licence"]) == ("tiny", "de to en", "cc-by-4.0")
    assert run_regard("translate", "-m", "tiny", "--max-length", "8", "das Haus")[0].count("\n") == 1
    removed, err = run_regard("models", "remove", "tiny")
    assert removed == f"removed tiny  0.6 MB  {own_cache / 'imported' / 'tiny'}\n" and err == ""
    assert imported_models() == {} and "no imported model 'tiny'" in run_regard("models", "remove", "tiny", code=2)[1]
    assert "ships with the package" in run_regard("models", "remove", "fr-en", code=2)[1]
    assert "name the imported model" in run_regard("models", "remove", code=2)[1]
    assert "one model at a time" in run_regard("models", "fr-en", "shapes", code=2)[1]


def test_commands_as_json(marian: Path, run_regard: Run, tmp_path: Path) -> None:
    options = ("--precision", "int8", "--from", "nl", "--to", "en", "--json")
    found = json.loads(run_regard("import", marian, "-o", tmp_path / "m", *options)[0])
    assert (found["languages"], found["folder"], found["origin"]) == ("nl to en", str(tmp_path / "m"), "tiny")
    run_regard("import", marian)
    removed = json.loads(run_regard("models", "remove", "tiny", "--json")[0])
    assert removed["removed"] == "tiny" and removed["bytes"] > 100_000


def test_a_damaged_one_does_not_hide_the_others(marian: Path, run_regard: Run) -> None:
    folder = regard.import_model(marian)
    (folder / "recipe.toml").write_text("[")
    (folder / "origin.json").write_text("[[")
    listed, _ = run_regard("models")
    assert "fr-en" in listed and "damaged: remove it" in listed
    run_regard("models", "remove", "tiny")
    assert imported_models() == {}


def test_a_cache_that_cannot_be_written(marian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    assert "set REGARD_CACHE" in refusal(marian)
    assert regard.import_model(marian, tmp_path / "here").is_dir()


def test_what_a_killed_process_left_is_removed(marian: Path, own_cache: Path) -> None:
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    place = own_cache / "imported"
    mine, killed, half = (
        place / name
        for name in (
            temporary_name("files"),
            temporary_name("files").replace(f".{os.getpid()}.", f".{int(dead.stdout)}."),
            ".tiny.1.tmp",
        )
    )
    for folder in (mine, killed, half):
        folder.mkdir(parents=True)
        (folder / "x").touch()
    regard.import_model(marian)
    assert mine.exists() and not killed.exists() and not half.exists()


def test_fine_tuning_starts_from_an_imported_model(marian: Path, tmp_path: Path) -> None:
    regard.import_model(marian)
    words = [" ".join(order) for order in permutations(("das", "alte", "Haus", "über"))]
    for name, lines in (("text.de", words), ("text.en", words[::-1])):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    run = regard.train(
        None, "data.hold_out_valid=4", source=tmp_path / "text.de",
        target=tmp_path / "text.en", start_from="tiny", steps=2, device="cpu", out=tmp_path / "run", quiet=True,
    )  # fmt: skip
    assert run.model.recipe.tokenizer["kind"] == "sentencepiece" and answers(run.folder)
