"""The models differ in their positions alone; what flips the verdict."""

from __future__ import annotations

import copy
import gzip
from pathlib import Path

import pytest
import torch

from regard.assemble import build_model
from regard.errors import UserError
from regard.lab import positions
from regard.lab._experiment import Setting
from regard.lab._translators import Attempt, train_all, written
from regard.lab.positions import BEYOND, INSIDE, KINDS, SIZES, TABLE, Positions, bleu, difference
from regard.layers.position.learned import Learned
from regard.loading import load
from regard.runs import train

EXPERIMENT = Positions()
SIZE = SIZES["tiny"]
BLEU = {"sinusoidal": [[40.0, 20.0], [42.0, 22.0]], "learned": [[41.0, 5.0], [42.5, 3.0]], "none": [[10.0, 9.0]] * 2}
NUMBERS = {
    "size": {"trained": 10, "longest": 20, "seeds": 2},
    "corpus": "made up",
    "runs": [
        {"positions": kind, "seed": seed, "bleu": found[seed], "length_ratio": 1.0}
        for kind, found in BLEU.items()
        for seed in (0, 1)
    ],
    "p_values": [[0.2, 0.001], [0.04, 0.001]],
}


def changed(kind: str, inside: float) -> dict:
    numbers = copy.deepcopy(NUMBERS)
    for run in numbers["runs"]:
        if run["positions"] == kind:
            run["bleu"][0] = inside
    return numbers


def test_the_verdict_and_what_flips_it():
    verdict = EXPERIMENT.verdict(NUMBERS)
    assert verdict.held
    assert "41.0 with sinusoidal and 41.8 with learned positions, 10.0 without any" in verdict.sentence
    assert "different for 1 of 2 seeds" in verdict.sentence
    assert not EXPERIMENT.verdict(changed("learned", 39.9)).held
    assert not EXPERIMENT.verdict(changed("learned", 42.1)).held  # better is not the same either
    assert not EXPERIMENT.verdict(changed("none", 39.1)).held  # the control: positions that nobody needs
    assert EXPERIMENT.verdict(changed("none", 38.9)).held


def test_a_thin_margin_is_said():
    assert "BLEU behind" not in EXPERIMENT.verdict(NUMBERS).but
    assert EXPERIMENT.verdict(changed("learned", 40.2)).but.startswith("learned ones are 0.8 BLEU behind, and not for")


def test_what_is_lost_beyond_the_trained_length_is_said():
    assert "not the same: learned positions are 17.0 BLEU behind, significantly for 2 of 2" in EXPERIMENT.remark(
        NUMBERS
    )
    alike = copy.deepcopy(NUMBERS)
    for run in alike["runs"]:
        run["bleu"][1] = 20.0
    assert "not the same" not in EXPERIMENT.remark(alike)


def test_seeds_are_compared_one_by_one():
    assert bleu(NUMBERS, "learned", BEYOND) == [5.0, 3.0]
    assert difference(NUMBERS, INSIDE) == [1.0, 0.5]
    assert EXPERIMENT.table(NUMBERS)[4][1] == "0.8 ± 0.4"  # of 1.0 and 0.5: 0.75 and sqrt(2 * 0.25^2)


def test_what_is_tested_beyond_is_longer_than_all_that_is_learnt():
    corpus = positions._made_up(SIZES["small"], Setting(seed=2))
    lengths = [[len(source.split()) for source, _ in pairs] for pairs in (corpus.train, corpus.valid, *corpus.test)]
    assert [(min(some), max(some)) for some in lengths] == [(1, 8), (1, 8), (1, 8), (9, 12)]
    assert [len(pairs) for pairs in corpus.test] == [SIZES["small"].tests] * 2


def test_models_differ_in_their_positions_only():
    counts = {}
    for kind in KINDS:
        recipe = positions._recipe(kind, SIZE, Path("."), Setting(), 1)
        counts[kind] = sum(parameter.numel() for parameter in build_model(recipe.model, 20).parameters())
    assert counts["none"] == counts["sinusoidal"]
    assert counts["learned"] == counts["none"] + 2 * TABLE * SIZE.width


def test_rows_of_positions_that_training_never_met_stay_as_they_were_drawn(tmp_path):
    corpus = positions._made_up(SIZE, Setting())
    corpus.write(tmp_path)
    attempt = Attempt("learned", positions._recipe("learned", SIZE, tmp_path, Setting(), 1), 20, 1e-2)
    train_all([attempt], corpus, tmp_path, Setting())
    translator = load(attempt.folder(tmp_path), device="cpu")
    table = translator.model.stem.embedding.position.table.weight
    met = SIZE.trained + 1  # the words and the mark at the end
    assert table[met:].std().item() == pytest.approx(0.02, rel=0.1)
    assert table[:met].std().item() > 0.04
    assert len(written(translator, corpus.test)[1]) == SIZE.tests  # it goes on all the same


def test_beyond_the_table_there_is_nothing(tmp_path):
    with pytest.raises(IndexError):
        Learned(8, length=4)(torch.arange(5))
    positions._made_up(SIZE, Setting()).write(tmp_path)
    recipe = positions._recipe("learned", SIZE, tmp_path, Setting(), 1)
    recipe.model["stem"]["position"] = {"kind": "learned", "length": SIZE.trained}
    with pytest.raises(UserError, match="positions are too few"):
        train(recipe, folder=tmp_path / "run", quiet=True)


def test_tatoeba_is_parted_by_length_and_nothing_tested_is_learnt(tmp_path):
    lines = [f"e{i} {'x ' * (i % 20)}\tf{i} {'y ' * (i % 20)}\n" for i in range(20_000)]
    file = tmp_path / positions.TATOEBA
    file.parent.mkdir()
    file.write_bytes(gzip.compress("".join(lines).encode()))
    corpus = positions._tatoeba(SIZES["full"], Setting(data=tmp_path))
    inside, beyond = corpus.test
    assert len(corpus.valid) == 500 and len(inside) == len(beyond) == 1000
    assert max(len(source.split()) for source, _ in [*corpus.train, *corpus.valid, *inside]) == 10
    assert min(len(source.split()) for source, _ in beyond) == 11
    learnt = {source.strip() for source, _ in corpus.train}
    assert len(learnt) == 10_000 - 1500
    assert not learnt & {source for source, _ in [*corpus.valid, *inside, *beyond]}
