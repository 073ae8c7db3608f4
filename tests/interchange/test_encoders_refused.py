"""BERTs whose files contradict each other, or state what is not known here: each is refused in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import regard
from tests.interchange.made_encoders import VARIANTS, make

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "more rows": ("bert", {"vocab_size": 9000}, "vocab_size = 9000: the embedding has the shape"),
    "absurd rows": ("bert", {"vocab_size": 2**40}, "vocab_size = 1099511627776: a whole number from 8 to"),
    "no rows": ("bert", {"vocab_size": None}, "vocab_size is missing"),
    "heads": ("bert", {"num_attention_heads": 5}, "width 24 cannot be divided among 5 heads"),
    "layers": ("bert", {"num_hidden_layers": 3}, "'bert.encoder.layer.2.attention.*' is missing"),
    "fewer layers": ("bert", {"num_hidden_layers": 1}, "is not part of this architecture"),
    "absurd layers": ("bert", {"num_hidden_layers": 10**9}, "a whole number from 1 to 1,000"),
    "width": ("bert", {"hidden_size": 2**19}, "has shape .* instead of"),
    "inner width": ("bert", {"intermediate_size": 41}, "has shape .* instead of"),
    "positions": ("bert", {"max_position_embeddings": 99}, "position_embeddings.weight' has shape"),
    "no positions": ("bert", {"max_position_embeddings": 2}, "max_position_embeddings leaves no room for a text"),
    "segments": ("bert", {"type_vocab_size": 4}, "token_type_embeddings.weight' has shape"),
    "relative": ("bert", {"position_embedding_type": "relative_key"}, "= relative_key: this architecture has absolute"),
    "decoder": ("bert", {"is_decoder": True}, "is_decoder = True: this architecture has False"),
    "cross-attention": ("bert", {"add_cross_attention": True}, "add_cross_attention = True: this architecture has"),
    "direction": ("bert", {"directionality": "left"}, "directionality = left"),
    "pruned": ("bert", {"pruned_heads": {"0": [1]}}, "pruned_heads = .*: not known here"),
    "activation": ("bert", {"hidden_act": "softplus"}, "hidden_act = softplus: not known here"),
    "epsilon": ("bert", {"layer_norm_eps": 0}, "norm_epsilon: wants a number above 0"),
    "dropout": ("bert", {"hidden_dropout_prob": 1.0}, "a number below 1 is needed"),
    "use": ("bert", {"architectures": ["BertForQuestionAnswering"]}, "not known here; there is: BertForMaskedLM"),
    "no head": ("bert", {"architectures": ["BertModel"]}, "not known here; there is: BertForMaskedLM"),
    "no use": ("bert", {"architectures": []}, "architectures is missing; name one of BertForMaskedLM"),
    "other head": ("bert", {"architectures": ["BertForTokenClassification"]}, "tensor 'cls.* is not part|is missing"),
    "untied": ("bert", {"tie_word_embeddings": False}, "'cls.predictions.decoder.weight' is missing"),
    "quantised": ("bert", {"quantization_config": {"bits": 4}}, "take the model's ordinary weights"),
    "regression": ("bert classifier", {"problem_type": "regression"}, "problem_type = regression: only single_label"),
    "many labels": ("bert classifier", {"problem_type": "multi_label_classification"}, "only single_label"),
    "fewer labels": ("bert classifier", {"id2label": {"0": "a", "1": "b"}}, "'classifier.*has shape"),
    "one label": ("bert classifier", {"id2label": {"0": "a"}}, "2 to .* labels are needed"),
    "no labels": ("bert classifier", {"id2label": None, "label2id": None}, "'classifier.*has shape"),
    "gaps": ("bert classifier", {"id2label": {"0": "a", "2": "b", "3": "c"}}, "a name for each number from 0"),
    "nameless": ("bert classifier", {"id2label": {"0": "a", "1": 5, "2": "c"}}, "a name for each number from 0"),
    "number": ("bert classifier", {"num_labels": 7}, "num_labels = 7: id2label names 3 labels"),
    "tags": ("roberta tagger", {"id2label": {"0": "O", "1": "B-x"}}, "'classifier.*has shape"),
    "padding": ("roberta tagger", {"pad_token_id": 4000}, "max_position_embeddings leaves no room"),
    "distilled": ("distilbert", {"dim": 25}, "cannot be divided|has shape"),
}


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def whole(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("whole")
            make(made[name], VARIANTS[name])
        return made[name]

    return whole


def refused(folder: Path, message: str) -> None:
    into = folder.parent / "model"
    with pytest.raises(regard.UserError, match=message) as error:
        regard.import_model(folder, into)
    assert "\n" not in str(error.value) and len(str(error.value)) < 500 and not into.exists()
    assert "cannot be imported" not in str(error.value)


@pytest.mark.parametrize("damage", BAD)
def test_a_config_that_disagrees_is_refused(wholes: Callable[[str], Path], tmp_path: Path, damage: str) -> None:
    name, changes, message = BAD[damage]
    folder = Path(shutil.copytree(wholes(name), tmp_path / "folder"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    refused(folder, message)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("bert", "cls.predictions.transform.dense.weight", "dense.weight' is missing"),
        ("bert", "bert.encoder.layer.1.attention.self.key.bias", "key.bias' is missing"),
        ("bert", "bert.embeddings.word_embeddings.weight", "word_embeddings.weight' is missing"),
        ("bert classifier", "bert.pooler.dense.weight", "pooler.dense.weight' is missing"),
        ("roberta tagger", "classifier.bias", "classifier.bias' is missing"),
    ],
)
def test_a_missing_tensor_is_named(
    wholes: Callable[[str], Path], tmp_path: Path, name: str, tensor: str, message: str
) -> None:
    folder = Path(shutil.copytree(wholes(name), tmp_path / "folder"))
    tensors = load_file(folder / "model.safetensors")
    save_file({key: one for key, one in tensors.items() if key != tensor}, folder / "model.safetensors")
    refused(folder, message)


def test_two_different_biases_of_one_layer_are_refused(wholes: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(wholes("bert"), tmp_path / "folder"))
    tensors = load_file(folder / "model.safetensors")
    bias = tensors["cls.predictions.bias"]
    save_file(tensors | {"cls.predictions.decoder.bias": torch.ones_like(bias)}, folder / "model.safetensors")
    refused(folder, "are one bias, but differ")


def rewritten(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    tree = json.loads(file.read_text())
    change(tree)
    file.write_text(json.dumps(tree))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("bert", lambda t: t["model"]["vocab"].update(more=9000), "a token with the id 9,000, but the embedding has"),
        ("bert", lambda t: t["model"].update(vocab=5), "no vocabulary in it"),
        ("bert", lambda t: t["model"].update(type="BPE"), "a WordPiece is needed, not 'BPE'"),
        ("bert", lambda t: t["model"]["vocab"].pop("[CLS]") and t.update(added_tokens=[]), "no cls_token|no sep_token"),
        ("bert", lambda t: t["model"]["vocab"].update(more=[1]), "its vocabulary is damaged"),
        ("bert", lambda t: t.update(added_tokens=["[CLS]"]), "its added_tokens are damaged"),
        ("bert", lambda t: t["added_tokens"][0].update(lstrip="\ud800"), "something in it is no text"),
        ("roberta", lambda t: t["model"].update(merges=[["never", "there"]]), "cannot be used"),
    ],
)
def test_a_tokenizer_that_disagrees_is_refused(
    wholes: Callable[[str], Path], tmp_path: Path, name: str, change: Any, message: str
) -> None:
    folder = Path(shutil.copytree(wholes(name), tmp_path / "folder"))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps({key: one for key, one in config.items() if key != "added_tokens_decoder"})
    )
    rewritten(folder / "tokenizer.json", change)
    refused(folder, message)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"tokenizer_class": "BertJapaneseTokenizer"}, "its tokenizer is a BertJapaneseTokenizer, which is not known"),
        ({"tokenizer_class": ["BertTokenizer"]}, "which is not known"),
        ({"cls_token": "[SEP]"}, "must be four tokens"),
        ({"mask_token": "[NONE]"}, "the tokenizer has no mask_token"),
        ({"unk_token": "[NONE]"}, r"the tokenizer has no unk_token '\[NONE\]'"),
        ({"do_lower_case": "yes"}, "must be true or false"),
        ({"do_basic_tokenize": False}, "only tokenizers that split texts themselves"),
        ({"model_max_length": 2}, "leaves no room for a text"),
    ],
)
def test_what_a_tokenizer_config_states_is_checked(
    wholes: Callable[[str], Path], tmp_path: Path, stated: dict[str, Any], message: str
) -> None:
    folder = Path(shutil.copytree(wholes("bert"), tmp_path / "folder"))
    rewritten(folder / "tokenizer_config.json", lambda tree: tree.update(stated))
    refused(folder, message)


def test_a_tokenizer_that_takes_hours_is_refused(wholes: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(wholes("bert"), tmp_path / "folder"))
    rewritten(folder / "tokenizer_config.json", lambda tree: tree.update(tokenizer_class="TokenizersBackend"))
    rewritten(folder / "tokenizer.json", lambda tree: tree["model"].update(max_input_chars_per_word=10**9))
    refused(folder, "words of 1000000000 characters are not supported")


def test_other_tokens_around_a_text_are_refused(wholes: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(wholes("bert"), tmp_path / "folder"))
    rewritten(folder / "tokenizer_config.json", lambda tree: tree.update(tokenizer_class="TokenizersBackend"))
    rewritten(folder / "tokenizer.json", lambda tree: tree["post_processor"]["single"].pop())
    refused(folder, r"texts are not put between \[CLS\] and \[SEP\]")
