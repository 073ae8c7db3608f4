"""What a Hugging Face folder's config says is honoured or refused by name, in one line; nothing in it is executed."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers

from regard.errors import UserError
from regard.interchange.families._tokens import by_language
from regard.interchange.imported import Imported
from regard.interchange.read import hugging_face, pytorch_bin
from regard.types import BEGIN, END
from tests.data import imported_text
from tests.interchange import made_folders

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("originals")
    made_folders.marian(root / "marian")
    made_folders.t5(root / "t5", sentencepiece=True)
    made_folders.nllb(root / "nllb", sentencepiece=True)
    return {path.name: path for path in root.iterdir()}


@pytest.fixture
def copy(originals: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        return Path(shutil.copytree(originals[name], tmp_path / name))

    return make


def changed(folder: Path, file: str = "config.json", **values: Any) -> Path:
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    return folder


def retensored(folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    change(tensors)
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    return folder


def refused(folder: Path, match: str) -> None:
    with pytest.raises(UserError, match=match) as error:
        hugging_face.read(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"model_type": "mamba"}, "model_type = mamba: no such family here; there is: .*marian"),
        ({"model_type": ["marian"]}, "model_type"),
        ({"activation_function": "mish"}, "activation_function = mish: not known here"),
        ({"activation_function": {"a": 1}}, "activation_function"),
        ({"d_model": 10**9}, "d_model = 1000000000: a whole number"),
        ({"d_model": "16"}, "d_model = 16: a whole number"),
        ({"d_model": 17}, "marian: model.position: sinusoidal_halves needs an even width"),
        ({"encoder_layers": 10**6}, "encoder_layers = 1000000: a whole number from 1 to 1,000"),
        ({"encoder_layers": 1000}, "more layers than its weight file|is missing"),
        ({"encoder_attention_heads": 3}, "heads"),
        ({"dropout": float("nan")}, "dropout = nan: a number is needed"),
        ({"scale_embedding": "yes"}, "scale_embedding = yes: true or false"),
        ({"normalize_before": True}, "normalize_before = True: this architecture has False"),
        ({"normalize_embedding": True}, "normalize_embedding = True"),
        ({"static_position_embeddings": False}, "static_position_embeddings = False"),
        ({"add_bias_logits": True}, "add_bias_logits"),
        ({"architectures": ["MarianForCausalLM"]}, "architectures"),
        ({"is_encoder_decoder": False}, "not an encoder with a decoder"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"per_layer_config": {"0": {"d_model": 8}}}, "per_layer_config"),
        ({"vocab_size": 10**6}, "vocab_size = 1000000: the embedding has the shape"),
    ],
)
def test_configs(values: dict[str, Any], match: str, copy: Callable[[str], Path]) -> None:
    refused(changed(copy("marian"), **values), match)


def test_generation_settings(copy: Callable[[str], Path]) -> None:
    folder = changed(
        copy("marian"), "generation_config.json", num_beams=6, length_penalty=0.6, max_length=65, no_repeat_ngram_size=3
    )
    changed(folder, new_thing=1, encoder_layerdrop=0.3)
    (folder / "README.md").write_text("---\nlanguage: de\nlicense: cc-by-4.0\n---\nlicense: other\n")
    imported = hugging_face.read(folder)
    decoding = imported.recipe.decoding
    assert (decoding.beam, decoding.length_penalty, decoding.max_length) == (6, 0.6, 64)
    assert imported.notes == [
        "the generation setting no_repeat_ngram_size = 3 is not applied",
        "config.json: new_thing is not known here and was ignored",
    ]
    assert imported.licence == "cc-by-4.0" and imported.family == "marian"
    assert (imported.recipe.source_language, imported.recipe.target_language) == ("de", "fr")
    assert imported.recipe.data.max_length == 128 and not imported.recipe.data.plain_source
    refused(changed(folder, "generation_config.json", num_beams=0), "num_beams = 0")
    refused(changed(folder, "generation_config.json", num_beams=1, decoder_start_token_id=10**7), "decoder_start_token")


def test_tensors(copy: Callable[[str], Path]) -> None:
    folder = copy("marian")
    name = "model.encoder.layers.0.fc1.weight"
    for change, match in (
        (lambda tensors: tensors.pop(name), f"'{name}' is missing"),
        (lambda tensors: tensors.update({name: torch.zeros(24, 16), "x.y": torch.zeros(2)}), "'x.y' is not part"),
        (lambda tensors: (tensors.pop("x.y"), tensors.update({name: torch.zeros(16, 24)})), "shape"),
        (lambda tensors: tensors.update({name: torch.zeros(24, 16, dtype=torch.int8)}), "holds I8 instead of"),
        (
            lambda tensors: tensors.update(
                {name: torch.zeros(24, 16), "model.encoder.embed_positions.weight": torch.ones(128, 16)}
            ),
            "holds other positions",
        ),
        (lambda tensors: tensors.pop("model.shared.weight"), "'model.shared.weight' is missing|other positions"),
    ):
        refused(retensored(folder, change), match)


def test_saved_positions_and_half_precision(copy: Callable[[str], Path]) -> None:
    folder = copy("marian")
    exact = hugging_face.read(folder)
    positions = transformers.MarianMTModel.from_pretrained(folder).model.encoder.embed_positions.create_weight()

    def change(tensors: dict[str, Any]) -> None:
        tensors["model.encoder.embed_positions.weight"] = positions
        for key in list(tensors):
            tensors[key] = tensors[key].half()

    half = hugging_face.read(retensored(folder, change))
    for key, tensor in exact.weights.items():
        assert half.weights[key].dtype == torch.float32
        torch.testing.assert_close(half.weights[key], tensor, atol=1e-2, rtol=1e-2)


def test_a_file_of_the_bare_model(copy: Callable[[str], Path]) -> None:
    folder = copy("nllb")
    exact = hugging_face.read(folder)

    def change(tensors: dict[str, Any]) -> None:
        for key in list(tensors):
            tensors[key.removeprefix("model.")] = tensors.pop(key)

    assert_same(hugging_face.read(retensored(folder, change)), exact)


def assert_same(one: Imported, other: Imported) -> None:
    assert one.weights.keys() == other.weights.keys()
    assert all(torch.equal(one.weights[key], other.weights[key]) for key in one.weights)


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
        (lambda folder: (folder / "config.json").write_text("[]"), "not a JSON object"),
        (lambda folder: (folder / "config.json").write_text("[" * 100_000), "not valid JSON"),
        (lambda folder: (folder / "model.safetensors").unlink(), "no model.safetensors and no pytorch_model.bin"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x08" + b"\0" * 90), "not a usable weight file"),
        (lambda folder: cut(folder / "model.safetensors"), "not a usable weight file"),
        (lambda folder: (folder / "source.spm").write_bytes(b"no model"), "source.spm: not a sentencepiece model"),
        (lambda folder: (folder / "source.spm").unlink(), "source.spm is missing"),
        (lambda folder: (folder / "vocab.json").write_text('{"a": -1}'), "has the id -1"),
        (lambda folder: (folder / "vocab.json").write_text('{"a": 1, "b": 1}'), "the same id 1"),
        (lambda folder: (folder / "vocab.json").write_text('{"a": 1}'), "no token '<unk>'"),
        (lambda folder: linked(folder, "config.json"), "config.json is missing, or is a link out of the folder"),
        (lambda folder: fifo(folder / "vocab.json"), "vocab.json: cannot be read"),
        (lambda folder: indexed(folder, "../../../etc/passwd.safetensors"), "is missing, or is a link"),
        (lambda folder: indexed(folder, "config.json"), "does not name .safetensors files"),
    ],
)
def test_damaged_folders(damage: Callable[[Path], Any], match: str, copy: Callable[[str], Path]) -> None:
    folder = copy("marian")
    damage(folder)
    refused(folder, match)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def linked(folder: Path, name: str) -> None:
    outside = folder.parent / "outside.json"
    os.rename(folder / name, outside)
    (folder / name).symlink_to(outside)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def indexed(folder: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"model.shared.weight": name}}))


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("evil",)


class TestPytorchBin:
    def bin(self, copy: Callable[[str], Path], content: Any) -> Path:
        folder = copy("marian")
        (folder / "model.safetensors").unlink()
        if isinstance(content, bytes):
            (folder / "pytorch_model.bin").write_bytes(content)
        else:
            torch.save(content, folder / "pytorch_model.bin")
        return folder

    @pytest.mark.parametrize(
        ("content", "match"),
        [
            (b"", "pytorch_model.bin"),
            (pickle.dumps(Evil()), "holds more than tensors"),
            ({"a": 1}, "a is no tensor"),
            ({"a": torch.zeros(1).expand(1 << 40)}, "larger than what is stored"),
        ],
    )
    def test_nothing_but_tensors(
        self, content: Any, match: str, copy: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = self.bin(copy, content)
        monkeypatch.chdir(tmp_path)
        refused(folder, match)
        assert not (tmp_path / "evil").exists()

    def test_shared_memory_is_written_once(self, tmp_path: Path) -> None:
        table = torch.arange(6.0).reshape(2, 3)
        torch.save({"a": table, "b": table, "c": table[:1], "d": table.T}, tmp_path / "x.bin")
        (file,), aliases = pytorch_bin.convert([tmp_path / "x.bin"], tmp_path)
        found = safetensors.torch.load_file(file)
        assert aliases == {"b": "a"} and found.keys() == {"a", "c", "d"}
        assert torch.equal(found["d"], table.T) and torch.equal(found["c"], table[:1])

    def test_in_several_files(self, copy: Callable[[str], Path]) -> None:
        folder = copy("nllb")
        exact = hugging_face.read(folder)
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        names, where = sorted(tensors), {}
        for number in range(2):
            file = f"pytorch_model-{number}-of-2.bin"
            torch.save({name: tensors[name] for name in names[number::2]}, folder / file)
            where |= dict.fromkeys(names[number::2], file)
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": where}))
        assert_same(hugging_face.read(folder), exact)


def test_prefixes_of_t5(copy: Callable[[str], Path]) -> None:
    tasks = {
        "summarization": {"prefix": "summarize: "},
        "translation_en_to_de": {"prefix": "translate English to German: "},
        "translation_en_to_fr": {"prefix": "translate English to French: "},
    }
    stated = hugging_face.read(changed(copy("t5"), task_specific_params=tasks)).recipe.languages
    assert stated.prefixes == {"en-de": "translate English to German: ", "en-fr": "translate English to French: "}
    assert (stated.source, stated.target) == (["en"], ["de", "fr"])


def test_madlad(tmp_path: Path) -> None:
    """Its start is <unk>, its padding <s>, and its tags are pieces of the sentencepiece model."""
    codes = ["de", "fr", "en", "es", "it", "pt", "nl", "sv", "zh", "ace", "zh_Latn"]
    model = imported_text.model(size=220, user_defined_symbols=[f"<2{code}>" for code in codes])
    (tmp_path / "spiece.model").write_bytes(model)
    shape = made_folders.T5_SHAPE | {
        "vocab_size": 230,
        "decoder_start_token_id": 0,
        "pad_token_id": 1,
        "eos_token_id": 2,
    }
    config = transformers.T5Config(**shape, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    made_folders.save(made_folders.randomised(transformers.T5ForConditionalGeneration(config)), tmp_path)
    imported = hugging_face.read(tmp_path)
    stated = imported.recipe.languages
    assert stated.target_tag == "source" and stated.tags["de"] == "<2de>" and len(stated.tags) == len(codes)
    assert imported.tokenizer.id_of("<2de>") and imported.tokenizer.decode([imported.tokenizer.id_of("<2de>")]) == ""
    bias = imported.weights["decoder.output_bias"]
    assert bias[BEGIN] == 0 and bias[END] == 0 and bias[1] == -1e9
    assert len(imported.tokenizer) == 230 + 1


def test_languages_of_nllb(originals: dict[str, Path]) -> None:
    stated = hugging_face.read(originals["nllb"]).recipe.languages
    assert stated.tags == {"en": "eng_Latn", "fr": "fra_Latn", "de": "deu_Latn"}
    assert (stated.source_tag, stated.target_tag) == ("before", "output")


def test_tags_that_no_file_lists(tmp_path: Path) -> None:
    """mBART's tags follow its sentencepiece model, in an order that only its code knows."""
    (tmp_path / "sentencepiece.bpe.model").write_bytes(model := imported_text.model(size=220))
    first = len(imported_text.pieces_of(model)) + 4
    shape = made_folders.BART_SHAPE | {"vocab_size": first + 25 + 1, "decoder_start_token_id": first + 19}
    config = transformers.MBartConfig(**shape)
    made_folders.save(transformers.MBartForConditionalGeneration(config), tmp_path)
    stated = hugging_face.read(tmp_path).recipe.languages
    assert stated.source_tag == "after" and stated.target_tag == "none" and stated.target == ["ro"]
    assert len(stated.tags) == 24 and list(stated.tags.values())[0] == "ar_AR" and stated.tags["en"] == "en_XX"


def test_the_shortest_of_several_tags_is_the_language() -> None:
    tags = [(code, f">>{code}<<") for code in ("es_AR", "pt_BR", "es", "pt", "zho_Hans", "srp_Latn", "srp_Cyrl", "x")]
    found = by_language(tags)
    assert found["es"] == ">>es<<" and found["es-ar"] == ">>es_AR<<" and found["pb"] == ">>pt_BR<<"
    assert found["zh"] == ">>zho_Hans<<" and found["sr"] == ">>srp_Cyrl<<" and len(found) == 7
