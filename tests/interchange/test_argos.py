"""Argos packages: read, and written so that Argos's own steps over them say what we say."""

from __future__ import annotations

import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.assemble import build_model, resolve_model
from regard.config import Recipe
from regard.data.tokenizer.subword import Subword
from regard.data.tokenizer.word import Word
from regard.errors import UserError
from regard.interchange import export
from regard.interchange.read.argos import read
from regard.loading import load, model_files
from regard.storage import write_folder

ctranslate2 = pytest.importorskip("ctranslate2")
pytest.importorskip("transformers")
from tests.interchange import made_ctranslate2 as made  # noqa: E402

LINES = ["où est la gare ?", "l'été, il pleut à Orléans.", "deux enfants jouent", "quelle heure est-il ?"]
SHORT = 3
"""Tokens that cannot be a loop, which ours do not write and theirs do."""
TYPED = ["  Où\u00a0est la gare\u2009? ", "l\u2019e\u0301te\u0301 à Orléans", "deux  enfants", "quelle heure ?", "a_b"]


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("argos")
    folder = made.opennmt(place / "model")
    metadata = {"package_version": "1.4", "from_code": "de", "to_code": "pb", "from_name": "German", "to_name": "x"}
    with zipfile.ZipFile(place / "de_pb.argosmodel", "w", zipfile.ZIP_DEFLATED) as out:
        for file in folder.iterdir():
            below = "" if file.name == "sentencepiece.model" else "model/"
            out.write(file, f"de_pb/{below}{file.name}")
        out.writestr("de_pb/metadata.json", json.dumps(metadata))
        out.writestr("de_pb/stanza/de/tokenize/x.pt", b"a pickle that nobody opens")
    return place / "de_pb.argosmodel"


def changed(
    package: Path, place: Path, change: Callable[[zipfile.ZipInfo, bytes], tuple[zipfile.ZipInfo, bytes] | None]
):
    """A copy of a package with changed members."""
    out = place / "changed.argosmodel"
    with zipfile.ZipFile(package) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            if (kept := change(member, old.read(member))) is not None:
                new.writestr(*kept)
    return out


def test_a_package_says_what_ctranslate2_says(package, tmp_path):
    found = read(package, lambda text: None)
    assert (found.recipe.source_language, found.recipe.target_language) == ("de", "pb")
    assert found.family == "argos" and not found.recipe.data.source_end
    write_folder(tmp_path / "model", model_files(found.recipe, found.tokenizer, found.weights, "float32"))
    ours = load(tmp_path / "model", device="cpu")
    with zipfile.ZipFile(package) as packed:
        packed.extractall(tmp_path)
    theirs = made.translator(tmp_path / "de_pb" / "model")
    texts = made.sentences(60)
    cut = [made.CUT.encode(text, out_type=str) for text in texts]
    forbidden = [["<unk>"], ["<blank>"], ["<s>"]]
    written = theirs.translate_batch(cut, beam_size=1, max_decoding_length=SHORT, suppress_sequences=forbidden)
    found = ours.search([ours.encode(text) for text in texts], beam=1, max_length=SHORT)
    assert [ours.tokenizer.target.pieces(one[0].ids) for one in found] == [one.hypotheses[0] for one in written]


def test_a_target_prefix_is_an_output_tag(package, tmp_path):
    def change(member, content):
        if member.filename.endswith("metadata.json"):
            content = json.dumps(json.loads(content) | {"target_prefix": made.PIECES[20]}).encode()
        return member, content

    found = read(changed(package, tmp_path, change), print)
    assert found.recipe.languages.tags == {"pb": made.PIECES[20]}
    assert found.recipe.languages.target_tag == "output"


def small(name: str, content: bytes) -> Callable:
    return lambda member, old: (member, content if member.filename.endswith(name) else old)


def linked(member, content):
    if member.filename.endswith("sentencepiece.model"):
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        content = b"/etc/passwd"
    return member, content


def without(name: str) -> Callable:
    return lambda member, content: None if member.filename.endswith(name) else (member, content)


DAMAGED = {
    "no metadata": (without("metadata.json"), "no metadata.json"),
    "metadata that is a list": (small("metadata.json", b"[]"), "not a JSON object"),
    "metadata that nests": (small("metadata.json", b"[" * 100_000), "not a JSON object"),
    "no language": (small("metadata.json", b'{"from_code": "../x", "to_code": "en"}'), "from_code"),
    "a number for a language": (small("metadata.json", b'{"from_code": 7, "to_code": "en"}'), "line of text"),
    "another type": (small("metadata.json", b'{"type": "sbd"}'), "only translate"),
    "a prefix it lacks": (
        small("metadata.json", b'{"from_code": "de", "to_code": "en", "target_prefix": "zzzz"}'),
        "no token of the model",
    ),
    "no model": (without("model.bin"), "model/model.bin"),
    "no tokenizer": (without("sentencepiece.model"), "sentencepiece.model"),
    "a link": (linked, "is a link"),
    "a bomb": (small("target_vocabulary.json", b" " * 50_000_000), "would unpack to"),
    "a model that is cut": (small("model.bin", b"\6\0\0\0\7\0Tran"), "ends too early"),
    "no sentencepiece": (small("sentencepiece.model", b"x"), "sentencepiece"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_packages_are_refused_in_one_line(kind, package, tmp_path):
    change, why = DAMAGED[kind]
    with pytest.raises(UserError, match=why) as refused:
        read(changed(package, tmp_path, change), print)
    assert "\n" not in str(refused.value)


def test_files_that_are_no_packages(tmp_path, package):
    (tmp_path / "text").write_text("hello")
    (tmp_path / "cut").write_bytes(package.read_bytes()[:-200])
    for name in ("text", "cut", "none"):
        with pytest.raises(UserError, match="cannot be read as a zip"):
            read(tmp_path / name, print)
    with zipfile.ZipFile(tmp_path / "bpe", "w") as out:
        for name in ("metadata.json", "bpe.model", "model/model.bin"):
            out.writestr(f"x/{name}", '{"from_code": "de", "to_code": "en"}')
    with pytest.raises(UserError, match="bpe.model"):
        read(tmp_path / "bpe", print)


# --------------------------------------------------------------------------------------------------------------- export


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    import torch

    tokenizer = Subword.train(LINES, seed=1, size=310)
    shape = resolve_model({"width": 16, "heads": 2, "layers": 2, "feed_forward": 32, "dropout": 0.0})
    torch.manual_seed(5)
    weights = {name: 2 * w.detach() for name, w in build_model(shape, len(tokenizer)).named_parameters()}
    recipe = Recipe(model=shape, source_language="fr", target_language="en")
    place = tmp_path_factory.mktemp("models") / "model"
    write_folder(place, model_files(recipe, tokenizer, weights, "float32"))
    return place


def argos_translates(package: Path, place: Path, texts: list[str]) -> list[list[str]]:
    """The tokens that Argos Translate gets from an installed package for texts of one sentence."""
    import sentencepiece

    with zipfile.ZipFile(package) as packed:
        packed.extractall(place)
    (root,) = place.iterdir()
    cutter = sentencepiece.SentencePieceProcessor(model_file=str(root / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(root / "model"), intra_threads=1, compute_type="float32")
    found = translator.translate_batch(
        [cutter.encode(text, out_type=str) for text in texts], beam_size=1, max_decoding_length=SHORT
    )
    return [one.hypotheses[0] for one in found]


def test_argos_says_what_we_say(model, tmp_path):
    out = export(model, tmp_path / "fr_en.argosmodel", format="argos", precision="float32")
    ours = load(model, device="cpu").translate(TYPED, beam=1, max_length=SHORT)
    assert argos_translates(out, tmp_path / "installed", TYPED) == [one.tokens for one in ours]
    assert len({tuple(one.tokens) for one in ours}) > 2
    back = read(out, print)
    assert (back.recipe.source_language, back.recipe.target_language) == ("fr", "en")
    weights = load(model, device="cpu").model.state_dict()
    assert all((weights[name] == value).all() for name, value in back.weights.items())
    again = export(model, tmp_path / "again.argosmodel", format="argos", precision="float32")
    assert again.read_bytes() == out.read_bytes()


def test_an_imported_package_is_exported_again(package, tmp_path):
    found = read(package, print)
    write_folder(tmp_path / "model", model_files(found.recipe, found.tokenizer, found.weights, "float32"))
    out = export(tmp_path / "model", tmp_path / "x.argosmodel", format="argos", precision="float32")
    back = read(out, print)
    assert back.recipe.data.source_end == found.recipe.data.source_end
    assert back.weights.keys() == found.weights.keys()
    assert all((back.weights[name] == found.weights[name]).all() for name in found.weights)
    assert back.tokenizer.pieces(range(40)) == found.tokenizer.pieces(range(40))


def test_argostranslate_installs_it(model, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    package_module = pytest.importorskip("argostranslate.package", reason="argostranslate is not installed")
    from argostranslate import translate

    out = export(model, tmp_path / "fr_en.argosmodel", format="argos", precision="float32")
    package_module.install_from_path(out)
    (installed,) = package_module.get_installed_packages()

    class OneSentence:
        def split_sentences(self, text: str) -> list[str]:
            return [text]

    class GreedyTranslator(ctranslate2.Translator):
        def translate_batch(self, tokens, **options):
            return super().translate_batch(tokens, **options | {"beam_size": 1, "max_decoding_length": SHORT})

    translator = GreedyTranslator(str(installed.package_path / "model"), intra_threads=1)
    found = [translate.apply_packaged_translation(installed, t, translator, OneSentence(), 1)[0].value for t in TYPED]
    ours = load(model, device="cpu").translate(TYPED, beam=1, max_length=SHORT)
    # Random weights write control characters, which our texts leave out: ours are decoded as theirs are.
    assert found == [installed.tokenizer.decode(one.tokens).removeprefix(" ") for one in ours]


def test_what_argos_cannot_hold_is_refused(model, tmp_path):
    with pytest.raises(UserError, match="ends in .argosmodel"):
        export(model, tmp_path / "x.zip", format="argos")
    words = Word(["▁a", "▁b"])
    shape = resolve_model({"width": 16, "heads": 2, "layers": 1, "feed_forward": 32})
    weights = dict(build_model(shape, len(words)).named_parameters())
    for recipe, why in (
        (Recipe(model=shape, source_language="fr", target_language="en"), "of the kind word"),
        (Recipe(model=shape), "state its languages"),
    ):
        recipe.tokenizer = {"kind": "word"}
        write_folder(tmp_path / "model", model_files(recipe, words, weights, "float32"))
        with pytest.raises(UserError, match=why):
            export(tmp_path / "model", tmp_path / "x.argosmodel", format="argos")
    assert not list(tmp_path.glob("*argos*"))
