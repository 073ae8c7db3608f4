"""A translator of several languages, from a recipe with `[[data.pairs]]` to its use: scores, resuming, fine-tuning."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import regard
from regard.cli import app
from regard.config import Recipe, apply_overrides, recipe_from_dict
from regard.data.format.made_languages import MadeLanguages
from regard.directions import directions
from regard.errors import UserError
from regard.storage import read_folder
from regard.task.translate import Translator
from regard.types import BEGIN

CODES = [("en", "de"), ("en", "fa")]
SCORES = {"bleu", "chrf", "loss", "bleu_en-de", "bleu_de-en", "bleu_en-fa", "bleu_fa-en", "bleu_talk", "bleu_news"}


def recipe(data: Path) -> Recipe:
    made = MadeLanguages(count=400)
    entries = []
    for (start, to), kind in zip(CODES, ("talk", "news")):
        lines = [f"{one}\t{other}\n" for one, other in made.between(start, to, "train")]
        (data / f"{start}-{to}.tsv").write_text("".join(lines))
        entries.append({"from": start, "to": to, "source": f"{start}-{to}.tsv", "kind": kind, "hold_out_valid": 10})
    return recipe_from_dict(
        {
            "data": {
                "root": str(data),
                "pairs": entries,
                "workers": 0,
                "valid_limit": 4,
                "temperature": 2,
                "window": 500,
            },
            "tokenizer": {"size": 380, "sampling": 0.2},
            "model": {"width": 16, "heads": 2, "layers": 1, "feed_forward": 16},
            "training": {
                "steps": 24,
                "batch_tokens": 300,
                "warmup": 4,
                "save_every": 8,
                "validate_every": 0,
                "average": 1,
            }
            | {"device": "cpu", "samples": 1},
            "decoding": {"beam": 2, "max_length": 12},
        }
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    found = regard.train(recipe(folder), folder=folder / "run", quiet=True)
    (folder / "run/scores.json").write_text(json.dumps(found.scores))
    return folder / "run"


def invoke(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_scores_are_of_each_direction_and_kind_and_their_mean(run: Path) -> None:
    scores = json.loads((run / "scores.json").read_text())
    assert set(scores) == SCORES
    found = regard.load(run, "cpu", engine="torch")
    of, losses = [], []
    for number, (start, to) in enumerate(CODES, 1):
        texts = [
            (run / f"held_out/valid.{number}.{start}-{to}.{side}").read_text().split("\n")
            for side in ("source", "target")
        ]
        pairs = [tuple(pair) for pair in zip(*texts)][:10]
        pairs = [pair for i, pair in enumerate(pairs) if i in (0, 2, 5, 7)]  # valid_limit
        for source, target, rows in ((start, to, pairs), (to, start, [pair[::-1] for pair in pairs])):
            asked = {"source": source, "target": target, "beam": 1}
            mine, _ = regard.evaluate(found, [a for a, _ in rows], [b for _, b in rows], **asked)
            assert scores[f"bleu_{source}-{target}"] == pytest.approx(mine.bleu)
            of.append(mine.bleu)
            losses.append(found.loss(rows, direction=(source, target)))
    assert scores["bleu"] == pytest.approx(sum(of) / 4) and scores["bleu_talk"] == pytest.approx(sum(of[:2]) / 2)
    assert scores["loss"] == pytest.approx(sum(losses) / 4, rel=1e-4)


def test_the_metric_may_be_a_direction_of_the_recipe(run: Path, tmp_path: Path) -> None:
    described = recipe(tmp_path)
    assert Translator.scores_of(described)["bleu_fa-en"] == "higher" and set(Translator.scores_of(described)) == SCORES
    with pytest.raises(UserError, match="validation gives no 'bleu_fa-de'; did you mean"):
        regard.train(described, "training.metric=bleu_fa-de", folder=tmp_path / "run", quiet=True)


def test_the_saved_model_knows_its_languages_and_names_no_files(run: Path) -> None:
    saved = regard.load(run, "cpu").recipe
    assert not saved.data.pairs and saved.languages.target_tag == "source"
    assert sorted(directions(saved)) == sorted((a, b) for a in ("en", "de", "fa") for b in ("en", "de", "fa") if a != b)


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_it_is_evaluated_and_used_by_direction(run: Path, engine: str) -> None:
    files = [run / f"held_out/valid.2.en-fa.{side}" for side in ("target", "source")]
    told = ("--engine", engine, "--device", "cpu", "--quiet")
    forth = invoke("evaluate", run, "--from", "fa", "--to", "en", *files, *told)
    assert forth.startswith("BLEU ")
    source = files[0].read_text().splitlines()[0] + " >>de<<"  # no tag, but text
    translator = regard.load(run, "cpu", engine=engine)
    text = translator.translate(source, source="fa", target="en").text
    assert not any(tag in text for tag in (">>en<<", ">>de<<", ">>fa<<"))
    with pytest.raises(UserError, match="several languages; say which"):
        translator.translate("x")


def test_transformers_reads_the_tags_of_an_export(run: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    invoke("export", run, "--format", "huggingface", "--output", tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    ours = regard.load(run, "cpu", engine="torch")
    text = (run / "held_out/valid.1.en-de.source").read_text().splitlines()[0]
    first = []
    for to in ("de", "fa"):
        batch = tokenizer(f">>{to}<< {text}", return_tensors="pt")
        assert batch.input_ids[0].tolist() == ours.source_row(ours.encode(text, ours.marks([text], "en", to)[0]))
        begin = torch.tensor([[model.config.decoder_start_token_id]])
        with torch.no_grad():
            theirs = model(**batch, decoder_input_ids=begin).logits[0, 0].log_softmax(-1)
            mine = ours.model(batch.input_ids, torch.ones_like(batch.input_ids).bool(), torch.tensor([[BEGIN]]))
        wanted = mine[0, 0].log_softmax(-1)
        assert torch.allclose(theirs[4 : len(wanted)], wanted[4:], atol=1e-3)
        first.append(wanted)
    assert not torch.allclose(*first, atol=1e-3)  # the tag matters


def test_a_run_stopped_and_resumed_ends_with_the_same_weights(run: Path, tmp_path: Path) -> None:
    short = apply_overrides(recipe(tmp_path), ["training.steps=24"])
    regard.train(short, folder=tmp_path / "run", quiet=True)
    for later in (tmp_path / "run/checkpoints").glob("step-*"):
        if not later.name.startswith("step-00000008"):
            shutil.rmtree(later)
    shutil.rmtree(tmp_path / "run/model")
    regard.train(resume=tmp_path / "run", quiet=True)
    again, whole = (read_folder(one / "model") for one in (tmp_path / "run", run))
    assert again.read("tokenizer.model") == whole.read("tokenizer.model")
    one, other = again.weights(), whole.weights()
    assert all((one[name] == other[name]).all() for name in other)


def test_fine_tuning_goes_on_with_its_own_languages(run: Path, tmp_path: Path) -> None:
    base = recipe(tmp_path)
    entry = '{from="fa", to="en", source="en-fa.tsv#2", target="en-fa.tsv#1", both=false, hold_out_valid=5}'
    told = ["training.steps=2", f"data.pairs=[{entry}]"]
    tuned = regard.train(base, *told, start_from=run, folder=tmp_path / "tuned", quiet=True)
    assert set(tuned.scores) == {"bleu", "chrf", "loss", "bleu_fa-en"}
    assert len(directions(tuned.model.recipe)) == 6 and tuned.model.tokenizer.id_of(">>fa<<") == 6
    for changed, message in (
        (entry.replace('"fa"', '"fr"'), r"data.pairs.1 \(fr-en\): this model does not translate from fr"),
        (entry.replace("both=false", 'tag="<bt>"'), r"data.pairs.1 \(fa-en\): the tokenizer has no token <bt>"),
    ):
        with pytest.raises(UserError, match=message):
            regard.train(base, "training.steps=2", f"data.pairs=[{changed}]", start_from=run, folder=tmp_path / "x")
        assert not (tmp_path / "x").exists()


def test_a_model_of_one_direction_cannot_take_several(tmp_path: Path) -> None:
    base = recipe(tmp_path)
    single = apply_overrides(base, ["data.pairs=[]", "training.steps=1", "source_language=en", "target_language=de"])
    single = apply_overrides(single, ["data.source=en-de.tsv", "tokenizer.size=300"])
    regard.train(single, folder=tmp_path / "one", quiet=True)
    with pytest.raises(UserError, match="translates in one direction; train a new model for several"):
        regard.train(base, start_from=tmp_path / "one", folder=tmp_path / "x", quiet=True)


def test_languages_that_are_made() -> None:
    made = MadeLanguages(count=50, shortest=2, longest=3)
    pairs = made.between("en", "de", "train")
    assert pairs == made.between("en", "de", "train") != made.between("en", "de", "valid")
    assert [pair[::-1] for pair in pairs] == made.between("de", "en", "train")
    for english, german in pairs:
        words = english.split(), german.split()
        assert 2 <= len(words[0]) <= 3 and english != german
        onsets = [[word[0] for word in side] for side in words]
        assert onsets[0] == onsets[1][::-1]  # a word begins alike in all languages; German turns the order round
