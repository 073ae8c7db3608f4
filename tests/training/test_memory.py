"""`regard train --memory`: a tiny model learns five corrections, still gives the rest, and says what it did not."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
import torch

import regard
from regard.assemble import build_model, resolve_model
from regard.config import Recipe
from regard.data.batching import pad
from regard.data.tokenizer.word import Word
from regard.errors import UserError
from regard.evaluation.translation import corpus_scores
from regard.loading import model_files
from regard.runs.memory import Learnt, read_memory
from regard.storage import write_folder
from regard.suggestions import Suggestions
from regard.types import BEGIN, END, Batch

TINY = ("training.learning_rate=2e-3", "training.steps=60", "data.workers=0", "--device", "cpu")
"""So small a model needs larger steps than those that suit a large one."""
WORDS = ["un", "deux", "trois", "chat", "chien", "mer", "jour", "nuit", "pain", "vin", "lit", "roi"]
CORRECTIONS = {
    "un chat": "CHIEN yes",
    "roi": "no\nno",
    "deux mer": "MER no",
    "pain vin": "VIN PAIN",
    "nuit jour nuit": "yes",
}


def sentences(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 5))) for _ in range(count)]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that translates each word into its capitals, mostly."""
    torch.manual_seed(1)
    torch.set_num_threads(1)  # so small a model is slower with more
    tokenizer = Word.train([" ".join([*WORDS, *map(str.upper, WORDS), "yes no"])], seed=1)
    shape = {"width": 32, "heads": 4, "layers": 1, "feed_forward": 64, "dropout": 0.0, "norm": "pre"}
    tree = resolve_model(shape)
    model = build_model(tree, len(tokenizer))
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for step in range(150):
        lines = sentences(32, step)
        source, source_mask = pad([[*tokenizer.encode(line), END] for line in lines])
        target, target_mask = pad([[BEGIN, *tokenizer.encode(line.upper()), END] for line in lines])
        target_mask[:, 0] = False
        loss = model.loss(Batch(source, source_mask, target, target_mask, int(target_mask.sum())))
        optimizer.zero_grad()
        (loss.total / loss.units).backward()
        optimizer.step()
    folder = tmp_path_factory.mktemp("models") / "tiny"
    recipe = Recipe(model=tree, tokenizer={"kind": "word"}, source_language="fr", target_language="en")
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    write_folder(folder, model_files(recipe, tokenizer, weights, "float32"))
    return folder


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    store = Suggestions(tmp_path / "memory.db")
    for text, suggestion in CORRECTIONS.items():
        store.add("", "fr", "en", text, suggestion)
    store.add("", "de", "en", "Ja.", "Yes.")  # of another model
    store.close()
    return tmp_path / "memory.db"


def agreement(one: Path, other: Path) -> float:
    """chrF of what a model says to other sentences, with what another one says as the reference."""
    lines = sentences(100, 999)
    outputs, references = (
        [found.text for found in regard.load(model, device="cpu").translate(lines)] for model in (one, other)
    )
    return corpus_scores(outputs, references).chrf


def test_five_corrections_are_learnt_and_the_rest_stays(start: Path, memory: Path, tmp_path: Path, run_regard):
    rest = tmp_path / "rest.txt"
    rest.write_text("\n".join(sentences(300, 5)) + "\n")
    given = ("train", "--start", start, "--memory", memory, "--quiet", *TINY)
    out, err = run_regard(*given, "--valid-source", rest, "--output", tmp_path / "run")
    assert "corrections: 5 of 5 word for word (0 before)" in out and err == ""
    found = regard.load(tmp_path / "run", device="cpu").translate(list(CORRECTIONS))
    assert [one.text for one in found] == [" ".join(text.split()) for text in CORRECTIONS.values()]
    said = float(re.search(r"the rest: +chrF ([0-9.]+) to what it said before, of 14\d held-out", out)[1])
    assert said > 90  # measured: 94.0


@pytest.mark.slow
def test_the_control_the_same_training_on_the_corrections_alone_forgets_the_rest(start, memory, tmp_path, run_regard):
    rest = tmp_path / "rest.txt"
    rest.write_text("\n".join(sentences(300, 5)) + "\n")
    given = ("train", "--start", start, "--memory", memory, "--quiet", *TINY)
    run_regard(*given, "--valid-source", rest, "--output", tmp_path / "run")
    run_regard(*given, "--output", tmp_path / "alone")
    assert agreement(tmp_path / "alone", start) < agreement(tmp_path / "run", start) - 20


def test_without_other_text_it_is_said_that_nothing_was_checked(start: Path, memory: Path, tmp_path: Path, run_regard):
    given = ("--start", start, "--memory", memory, "--output", tmp_path / "run", "--device", "cpu", "--steps", "1")
    out, err = run_regard("train", *given)
    assert "corrections: 0 of 5" in out and "the rest" not in out
    assert "was not checked; give some text with --valid-source FILE" in err


def test_the_verdict_depends_on_the_reference() -> None:
    run = regard.runs.Run(Path("run"), "steps")
    for before, after, own, worse in (
        (40, 39.5, False, False),
        (40, 38.5, False, True),
        (100, 91, True, False),
        (100, 89, True, True),
    ):
        assert Learnt(run, 5, 0, 5, 10, before, after, own).got_worse is worse
    assert not Learnt(run, 5, 0, 5, 0, 0, 0, True).got_worse


def test_a_memory_is_a_file_of_suggestions_or_a_table(memory: Path, tmp_path: Path) -> None:
    recipe = Recipe(source_language="fr", target_language="en")
    pairs, languages = read_memory(memory, None, None, recipe)
    assert len(pairs) == 5 and languages == ("fr", "en") and ("roi", "no no") in pairs
    table = tmp_path / "memory.tsv"
    table.write_text("un\tone\tfr\ten\tnow\ndeux\ttwo\ndeux\tTWO\n\tnothing\n")
    assert read_memory(table, None, None, recipe)[0] == [("un", "one"), ("deux", "TWO")]
    table.write_text("un\t\n")
    for path, languages, message in (
        (table, (None, None), "has no corrections from fr to en"),
        (memory, ("es", "en"), "es to en"),
        (tmp_path / "no", (None, None), "does not exist"),
    ):
        with pytest.raises(UserError, match=message):
            read_memory(path, *languages, recipe)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--memory", "m.tsv"], "give it with --start MODEL"),
        (["--memory", "m.tsv", "--start", "fr-en", "--source", "a"], "without other data"),
        (["fr-en", "--memory", "m.tsv", "--start", "fr-en"], "--memory takes no recipe"),
        (["--memory", "m.tsv", "--start", "fr-en", "--valid-target", "a"], "--valid-source, which is missing"),
        (["--memory", "none.tsv", "--start", "fr-en"], "none.tsv does not exist"),
    ],
)
def test_what_does_not_go_together_is_one_line(arguments: list[str], message: str, run_regard) -> None:
    out, err = run_regard("train", *arguments, code=2)
    assert message in err and err.count("\n") == 1 and out == ""
