"""What `regard export --format huggingface` writes computes the same in transformers, and reads back as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import regard
from regard.assemble import build_model, resolve_model
from regard.config import Recipe
from regard.data.tokenizer.subword import Subword
from regard.data.tokenizer.word import Word
from regard.errors import UserError
from regard.interchange.imported import Imported
from regard.interchange.read import hugging_face
from regard.loading import model_files
from regard.storage import write_folder
from regard.types import BEGIN, END
from tests.data import imported_text
from tests.interchange.made_folders import VARIANTS

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SHAPE = {"width": 32, "heads": 4, "layers": 2, "feed_forward": 48, "dropout": 0.0}
MARIAN, PEGASUS = {"norm": "post", "activation": "relu"}, {"norm": "pre", "activation": "gelu"}


def saved(imported: Imported, folder: Path) -> Path:
    write_folder(folder, model_files(imported.recipe, imported.tokenizer, imported.weights, "float32"))
    return folder


@pytest.fixture(scope="module")
def subwords() -> Subword:
    return Subword.train(imported_text.lines(), seed=1, size=560)


def made(tree: dict[str, Any], tokenizer: Any, folder: Path) -> Any:
    """A random model of ours; every weight is moved, so that none can be left out unnoticed."""
    torch.manual_seed(5)
    recipe = Recipe(model=resolve_model({**SHAPE, **tree}), tokenizer={"kind": tokenizer.kind})
    recipe = replace(recipe, data=replace(recipe.data, root="data"))
    model = build_model(recipe.model, len(tokenizer)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    write_folder(folder, model_files(recipe, tokenizer, dict(model.named_parameters()), "float32"))
    return model


@pytest.mark.parametrize(
    ("tree", "family"),
    [
        (MARIAN, "MarianMTModel"),
        (MARIAN | {"tie": False, "share": False, "scale": False, "activation": "gelu_tanh"}, "MarianMTModel"),
        (PEGASUS, "PegasusForConditionalGeneration"),
        (PEGASUS | {"encoder": {"layers": 3}, "decoder": {"feed_forward": 64}}, "PegasusForConditionalGeneration"),
        (
            MARIAN | {"embedding_norm": True, "position": {"kind": "learned", "length": 40}},
            "BartForConditionalGeneration",
        ),
        (
            PEGASUS | {"embedding_norm": True, "position": {"kind": "learned", "length": 40}},
            "MBartForConditionalGeneration",
        ),
    ],
)
def test_ours_computes_the_same_in_transformers(
    tree: dict[str, Any], family: str, subwords: Subword, tmp_path: Path
) -> None:
    model = made(tree, subwords, tmp_path / "ours")
    folder = regard.export(tmp_path / "ours", tmp_path / "theirs", format="huggingface")
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    assert type(theirs).__name__ == family
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    lines = [*imported_text.lines(60, seed=9), "Ça  va\u00a0? \U0001f600 a\u00adb", "l\u2019été"]
    numbers = tokenizer.get_vocab()
    rows = torch.tensor([numbers.get(piece, 0) for piece in subwords.pieces(range(len(subwords)))])
    if family == "MarianMTModel":  # its ids are another order of ours, and it normalises less
        lines = lines[:-2]
        rows[BEGIN] = theirs.config.decoder_start_token_id
    assert tokenizer(lines).input_ids == [
        [*rows[subwords.encode(line.replace("\u2019", "'"))], rows[END]] for line in lines
    ]
    ids = torch.randint(4, len(subwords), (3, 9))
    ids[:, -1] = END
    target = torch.randint(4, len(subwords), (3, 7))
    target[:, 0] = BEGIN
    with torch.no_grad():
        ours = model(ids, torch.ones_like(ids, dtype=torch.bool), target)
        logits = theirs(input_ids=rows[ids], decoder_input_ids=rows[target]).logits
    torch.testing.assert_close(logits[..., rows], ours, atol=1e-4, rtol=1e-4)
    written = [*subwords.encode(lines[0]), END]
    assert tokenizer.decode(rows[written], skip_special_tokens=True).strip() == lines[0]


@pytest.mark.parametrize("name", VARIANTS)
def test_an_import_goes_back_to_its_own_family(name: str, tmp_path: Path) -> None:
    maker, changes = VARIANTS[name]
    original, _ = maker(tmp_path / "first", **changes)
    imported = hugging_face.read(tmp_path / "first")
    ours = saved(imported, tmp_path / "ours")
    folder = regard.export(ours, tmp_path / "second", format="huggingface")
    again = hugging_face.read(folder)
    assert again.weights.keys() == imported.weights.keys()
    for key, tensor in imported.weights.items():
        torch.testing.assert_close(again.weights[key], tensor, atol=1e-6, rtol=1e-5)
    assert again.recipe.model == imported.recipe.model
    assert again.recipe.languages == imported.recipe.languages
    texts = imported_text.lines(40, seed=3)
    assert again.tokenizer.encode_many(texts) == imported.tokenizer.encode_many(texts)
    assert again.tokenizer.target.pieces(range(4, len(again.tokenizer.target))) == imported.tokenizer.target.pieces(
        range(4, len(imported.tokenizer.target))
    )
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    assert theirs.config.vocab_size == original.config.vocab_size
    transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        ({"norm": "pre", "position": {"kind": "shifted"}}, "no family of transformers computes this model"),
        ({"decoder": {"kind": "ssru"}}, "only Transformers, not ssru"),
        ({"activation": "elu"}, "no activation elu"),
        ({"width": 33, "heads": 3, "norm": "post"}, "only even widths"),
    ],
)
def test_what_no_family_computes_is_refused_in_one_line(
    tree: dict[str, Any], why: str, subwords: Subword, tmp_path: Path
) -> None:
    made(tree, subwords, tmp_path / "ours")
    with pytest.raises(UserError, match=why) as refused:
        regard.export(tmp_path / "ours", tmp_path / "theirs", format="huggingface")
    assert "\n" not in str(refused.value) and not (tmp_path / "theirs").exists()


def test_words_and_unknown_precisions_are_refused(tmp_path: Path, subwords: Subword) -> None:
    made(MARIAN, Word([f"w{i}" for i in range(40)]), tmp_path / "words")
    with pytest.raises(UserError, match="kind word"):
        regard.export(tmp_path / "words", tmp_path / "out", format="huggingface")
    with pytest.raises(UserError, match="int8"):
        regard.export(tmp_path / "words", tmp_path / "out", format="huggingface", precision="int8")


@pytest.mark.slow
def test_the_shipped_model_says_the_same(tmp_path: Path) -> None:
    folder = regard.export("fr-en", tmp_path / "theirs", format="huggingface")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    words = [
        "le",
        "chat",
        "noir",
        "mange",
        "une",
        "petite",
        "pomme",
        "dans",
        "la",
        "maison",
        "de",
        "ma",
        "grand-mère",
        "avec",
        "son",
        "ami",
    ]
    texts = [f"{' '.join(words[i % 5 : i % 5 + 4 + i % 9])} {i}." for i in range(50)]
    encoded = tokenizer(texts, padding=True, return_tensors="pt")
    encoded.pop("token_type_ids", None)
    ids = model.generate(**encoded, num_beams=1, max_new_tokens=80)
    found = [one.strip() for one in tokenizer.batch_decode(ids, skip_special_tokens=True)]
    ours = regard.load("fr-en", engine="torch")
    assert [one.text for one in ours.translate(texts, beam=1)] == found
    assert len(set(found)) > 40
