"""Encoders that are trained here: on from an imported model, and as models of transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import regard
from regard.assemble import build_model, resolve_model
from regard.config import Data, Recipe
from regard.data.codec import Pair
from regard.data.format._base import Example
from regard.data.input.text import Text
from regard.data.target.label import Label
from regard.data.target.masked import Masked
from regard.data.target.tags import Tags
from regard.data.tokenizer.character import Character
from regard.data.tokenizer.subword import Subword
from regard.data.tokenizer.word import Word
from regard.loading import model_files
from regard.storage import write_folder
from regard.types import BEGIN, END
from tests.data import imported_text
from tests.interchange.made_encoders import LABELS, LONGEST, TAGS, VARIANTS, make

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SHAPE: dict[str, Any] = {
    "stem": {"width": 16, "position": {"kind": "learned", "length": 40}, "scale": False, "embedding_norm": True},
    "encoder": {
        "width": 16,
        "layers": 2,
        "heads": 2,
        "feed_forward": 24,
        "activation": "gelu",
        "norm": "post",
    },
}
"""As in the recipe bert-english, but smaller."""
HEADS: dict[str, dict[str, Any]] = {
    "fill": {"kind": "masked_language_model"},
    "classify": {"kind": "classifier", "pooling": "first", "head_activation": "tanh"},
    "tag": {"kind": "tagger"},
}
TARGETS = {"fill": Masked(), "classify": Label(LABELS), "tag": Tags(Label(TAGS))}
CLASSES = {
    "fill": ("AutoModelForMaskedLM", "BertForMaskedLM"),
    "classify": ("AutoModelForSequenceClassification", "BertForSequenceClassification"),
    "tag": ("AutoModelForTokenClassification", "BertForTokenClassification"),
}


@pytest.fixture(scope="module")
def subword() -> Any:
    return Subword.train(imported_text.lines(100), seed=1, size=800)


def trained_here(folder: Path, task: str, tokenizer: Any, **changes: Any) -> Path:
    """A model folder of ours with random weights."""
    torch.manual_seed(5)
    codec = Pair(Text(tokenizer), TARGETS[task])
    shape = resolve_model(SHAPE | HEADS[task] | changes)
    model = build_model(shape, **codec.sizes())
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    recipe = Recipe(task=task, model=shape, data=Data(max_length=38), tokenizer={"kind": tokenizer.kind})
    write_folder(folder, model_files(recipe, codec, dict(model.named_parameters()), "float32"))
    return folder


def agree(ours: Any, folder: Path) -> None:
    """Tokens and logits of a model of ours and of the one in transformers that it became."""
    maker, name = CLASSES[ours.recipe.task]
    theirs = getattr(transformers, maker).from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert type(theirs).__name__ == name
    reader = ours.pair.input
    rows = list(range(len(reader.tokenizer)))
    if saved := getattr(reader.tokenizer, "_saved", None):
        rows = [*saved["special"], *saved["order"]]
    columns = rows if ours.recipe.task == "fill" else slice(None)
    longest = ours.recipe.data.max_length + (2 if reader.enclosed else 0)
    for text in imported_text.lines(20, seed=4):
        read = tokenizer(text, return_tensors="pt", truncation=True, max_length=longest)
        ids = torch.tensor(reader.cut(reader.encode(text), ours.recipe.data.max_length))[None]
        assert read.input_ids[0].tolist() == [rows[id] for id in ids[0]], text
        with torch.no_grad():
            wanted = theirs(**read).logits[..., columns]
            found = ours.model(ids, torch.ones_like(ids, dtype=torch.bool))
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("task", HEADS)
def test_a_model_trained_here_computes_the_same_in_transformers(tmp_path: Path, subword: Any, task: str) -> None:
    folder = trained_here(tmp_path / "ours", task, subword)
    regard.export(folder, tmp_path / "theirs", format="huggingface")
    ours = regard.load(folder, device="cpu")
    agree(ours, tmp_path / "theirs")
    again = regard.load(regard.import_model(tmp_path / "theirs", tmp_path / "again"), device="cpu")
    ids = torch.tensor(ours.pair.input.encode("das Haus läuft"))[None]
    assert again.pair.input.encode("das Haus läuft").tolist() == ids[0].tolist()
    mask = torch.ones_like(ids, dtype=torch.bool)
    with torch.no_grad():
        torch.testing.assert_close(again.model(ids, mask), ours.model(ids, mask), atol=1e-5, rtol=1e-5)
    if task == "fill":
        assert again.fill("das _ läuft").text == ours.fill("das _ läuft").text


def test_a_character_tokenizer_goes_along(tmp_path: Path) -> None:
    folder = trained_here(tmp_path / "ours", "tag", Character.train(imported_text.lines(100), seed=1, size=300))
    regard.export(folder, tmp_path / "theirs", format="huggingface")
    agree(regard.load(folder, device="cpu"), tmp_path / "theirs")


@pytest.mark.parametrize(
    ("task", "changes", "message"),
    [
        ("classify", {"pooling": "mean"}, "bert: only model.pooling = first, not mean"),
        ("classify", {"head_activation": "none"}, "bert: only model.head_activation = tanh, not none"),
        ("tag", {"kind": "crf_tagger"}, "bert: only a tagger, not a crf_tagger"),
        ("fill", {"encoder": SHAPE["encoder"] | {"norm": "pre"}}, "bert: only encoder.norm = post, not pre"),
        ("fill", {"stem": SHAPE["stem"] | {"scale": True}}, "bert: only stem.scale = false, not true"),
        ("fill", {"stem": SHAPE["stem"] | {"position": "sinusoidal"}}, "only learned positions, not sinusoidal"),
        ("fill", {"activation": "relu"}, "bert: only model.activation = gelu"),
        ("fill", {"norm_epsilon": 1e-3, "encoder": SHAPE["encoder"] | {"norm_epsilon": 1e-5}}, "only one norm_epsilon"),
        ("fill", {"encoder": SHAPE["encoder"] | {"attention": "dot"}}, "only the attention multi_head"),
        ("fill", {"encoder": {"kind": "recurrent", "width": 16}}, "only encoder.kind = transformer, not recurrent"),
    ],
)
def test_what_no_family_computes_is_refused_in_one_line(
    tmp_path: Path, subword: Any, task: str, changes: dict[str, Any], message: str
) -> None:
    folder = trained_here(tmp_path / "ours", task, subword, **changes)
    with pytest.raises(regard.UserError, match=message) as error:
        regard.export(folder, tmp_path / "theirs", format="huggingface")
    assert "\n" not in str(error.value) and not (tmp_path / "theirs").exists()


def test_a_tokenizer_without_a_form_in_transformers_is_refused_by_name(tmp_path: Path) -> None:
    folder = trained_here(tmp_path / "ours", "fill", Word.train(imported_text.lines(100), seed=1))
    with pytest.raises(regard.UserError, match="a tokenizer of the kind word has no form"):
        regard.export(folder, tmp_path / "theirs", format="huggingface")


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name in ("bert cased", "roberta"):
        folder = tmp_path_factory.mktemp("folder")
        make(folder, VARIANTS[name])
        made[name] = regard.import_model(folder, tmp_path_factory.mktemp("ours") / "model")
    return made


STATED = (f"data.max_length={LONGEST - 2}", "training.warmup=1")


@pytest.mark.parametrize(
    ("name", "recipe", "head"),
    [
        ("bert cased", "sentiment-bert", ["model.pooling=first", "model.head_activation=tanh"]),
        ("roberta", "entities-bert", ["model.kind=tagger"]),
    ],
)
def test_the_encoder_is_taken_and_the_head_is_new(
    imported: dict[str, Path], tmp_path: Path, name: str, recipe: str, head: list[str]
) -> None:
    """And what was trained is a model of transformers again."""
    run = regard.train(
        recipe,
        *STATED,
        *head,
        "data.format.count=60",
        "training.learning_rate=1e-12",
        start_from=imported[name],
        tiny=True,
        steps=2,
        out=tmp_path / "run",
        quiet=True,
    )
    start = regard.load(imported[name], device="cpu").model.state_dict()
    trained = run.model.model.state_dict()
    kept = [one for one in trained if one.startswith(("stem.", "encoder."))]
    assert kept == [one for one in start if one.startswith(("stem.", "encoder."))]
    for one in kept:
        torch.testing.assert_close(trained[one], start[one], atol=1e-6, rtol=0)
    reader = run.model.pair.input
    ids = reader.encode("das Haus").tolist()
    assert reader.enclosed and (ids[0], ids[-1]) == (BEGIN, END)
    assert len(trained["head.weight"]) == len(json.loads(run.model.pair.files()["labels.json"])["names"])
    folder = regard.export(tmp_path / "run", tmp_path / "back", format="huggingface")
    ours = regard.load(tmp_path / "run", device="cpu")
    agree(ours, folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert cased", "roberta"])
def test_a_random_model_learns_to_tag(imported: dict[str, Path], tmp_path: Path, name: str) -> None:
    run = regard.train(
        "entities-bert", *STATED, start_from=imported[name], tiny=True, steps=1000, out=tmp_path / "run", quiet=True
    )
    assert run.scores["f1"] > 80


def test_pre_training_goes_on_with_the_mask_of_the_model(imported: dict[str, Path], tmp_path: Path) -> None:
    run = regard.train(
        "bert-english",
        *STATED,
        "data.format.count=60",
        start_from=imported["bert cased"],
        tiny=True,
        steps=20,
        out=tmp_path / "run",
        quiet=True,
    )
    assert run.model.mask == regard.load(imported["bert cased"], device="cpu").mask == run.model.model.mask > END
    (long, short) = type(run.model).epochs(run.model.recipe, run.model.pair, [Example("x " * (LONGEST + 2), None)])(0)
    assert (len(long.source), len(short.source)) == (LONGEST, 6)
    assert {(one.source[0], one.source[-1]) for one in (long, short)} == {(BEGIN, END)}
    assert run.model.fill("das [MASK] läuft").text.count("[MASK]") == 0
