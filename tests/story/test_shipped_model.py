"""The shipped fr-en model, used as a newcomer would."""

import random
import re
from pathlib import Path

import pytest
import torch

import regard
from regard.layers.fast_linear import int8_is_fast
from regard.loading import export, load
from regard.pretrained import shipped_models
from regard.storage import read_folder
from regard.types import BEGIN, END

ROOT = Path(__file__).parents[2]
SPEECH = (
    "Mesdames et Messieurs, je voudrais tout d'abord remercier le rapporteur, qui a fait un excellent travail sur ce "
    "dossier difficile, et dire que notre groupe soutient la proposition de la Commission, parce qu'elle protège les "
    "consommateurs, parce qu'elle aide les petites entreprises, parce qu'elle respecte l'environnement, et parce que "
    "nos citoyens attendent depuis longtemps une réponse claire à leurs questions sur la sécurité des aliments, sur la "
    "qualité de l'eau, sur le prix des médicaments, sur l'avenir des retraites, sur la situation de l'emploi dans nos "
    "régions, et sur le rôle que l'Europe veut jouer dans le monde, avec ses voisins, pour défendre la paix"
)


@pytest.fixture(scope="module")
def translator():
    return regard.load("fr-en", device="cpu")


def test_it_is_whole_small_and_has_a_card():
    folder = read_folder(shipped_models()["fr-en"])
    assert sum((folder.path / name).stat().st_size for name in folder.names) < 25e6
    assert "CC BY 2.0" in (ROOT / "docs" / "fr-en.md").read_text(encoding="utf-8")


def test_the_card_shows_what_the_model_says(translator):
    """The table is the output, good and bad: 20 sentences that were chosen before there were weights."""
    chosen = (ROOT / "docs" / "everyday.fr.txt").read_text(encoding="utf-8").splitlines()
    card = (ROOT / "docs" / "fr-en.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \| (?:right|wrong)[^|]*\|$", card, re.MULTILINE))
    assert list(rows) == chosen
    assert [t.text for t in translator.translate(chosen)] == list(rows.values())


def test_alone_in_a_batch_and_in_any_order_the_answer_is_the_same(translator):
    texts = (ROOT / "docs" / "everyday.fr.txt").read_text(encoding="utf-8").splitlines()
    together = translator.translate([*texts, ""])
    shuffled = translator.translate([*reversed(texts)], batch_tokens=60)
    assert [t.text for t in shuffled] == [t.text for t in together[-2::-1]]
    assert [t.score for t in shuffled] == pytest.approx([t.score for t in together[-2::-1]], abs=1e-3)


@pytest.mark.parametrize("precision", ["int8", pytest.param("float32", marks=pytest.mark.slow)])
def test_R16_neighbours_change_nothing_not_even_the_last_bit_of_a_score(precision):
    """Whoever else is being translated for: sentences of many lengths, alone and in batches of chance company."""
    if precision == "int8" and not int8_is_fast():
        pytest.skip("this CPU is not fast in int8")
    ready = regard.load("fr-en", device="cpu", precision=precision)
    words = SPEECH.replace(",", "").split()
    chance = random.Random(5)
    texts = [" ".join(words[start : start + chance.randint(1, 40)]) for start in range(0, 60, 4)]
    alone = [ready.translate(text) for text in texts]
    order = chance.sample(range(len(texts)), len(texts))
    for size in (3, 13):
        for first in range(0, len(order), size):
            some = order[first : first + size]
            for number, found in zip(some, ready.translate([texts[i] for i in some], batch_tokens=100_000)):
                assert (found.text, found.score) == (alone[number].text, alone[number].score)


def test_sentences_that_nobody_waits_for_are_given_up_and_the_others_stay_the_same(translator, monkeypatch):
    texts = [f"{' '.join(SPEECH.split()[:count])}." for count in (3, 40, 20, 40)]
    steps, advance = [], translator.model.decoder.advance
    monkeypatch.setattr(translator.model.decoder, "advance", lambda *given: steps.append(1) or advance(*given))
    usual = translator.translate(texts)
    before = len(steps)
    found = translator.translate(texts, cancelled=lambda: [1, 3] if len(steps) > before + 5 else [])
    assert [found[i].text for i in (0, 2)] == [usual[i].text for i in (0, 2)]
    assert len(steps) - before < before  # the long ones were not finished
    translator.translate(texts, cancelled=lambda: range(4))
    assert len(steps) - before < before + 2


def test_a_long_text_that_nobody_waits_for_costs_nothing_more(translator, monkeypatch):
    """Neither its other batches nor their alignment."""
    text = " ".join(f"{' '.join(SPEECH.split()[number : number + 6])}." for number in range(60)).title()
    encoded, encode = [], translator.model.encode
    monkeypatch.setattr(translator.model, "encode", lambda *given: encoded.append(1) or encode(*given))
    translator.translate(text, beam=1, alignment=True, batch_tokens=100)
    usual = len(encoded)
    encoded.clear()
    found = translator.translate(
        [text, "Bonjour."], beam=1, alignment=True, batch_tokens=100, cancelled=lambda: [0] if len(encoded) > 2 else []
    )
    assert len(encoded) < 6 < usual / 4
    assert (found[1].text, found[1].alignment) == ("Good morning.", [(0, 0), (0, 1)])


def test_the_score_is_what_the_model_gives_the_finished_translation(translator):
    found = translator.translate("Les enfants jouent dans le jardin.")
    source = torch.tensor([[*translator.encode(found.source), END]])
    written = [*translator.tokenizer.encode(found.text), END]
    with torch.no_grad():
        logits = translator.model(
            source, torch.ones_like(source, dtype=torch.bool), torch.tensor([[BEGIN, *written[:-1]]])
        )
    forced = logits[0].log_softmax(-1)[range(len(written)), written].sum().item()
    assert found.log_probability == pytest.approx(forced, abs=1e-3)


def test_long_odd_and_repetitive_text(translator):
    said: list[str] = []
    sentence = "Je voudrais bien aller à la mer avec toi demain matin, si tu veux. "
    paragraph = translator.translate(sentence * 12, warn=said.append)
    assert not said and paragraph.text.count("sea") == 12  # nothing was cut off
    long = translator.translate(SPEECH, warn=said.append)
    assert len(said) == 1 and "split into 2 parts" in said[0]
    assert all(word in long.text for word in ("rapporteur", "environment", "pensions", "peace"))  # from end to end
    for odd in ("ha " * 40, "🙂🙂🙂", "x" * 100, "....", "42", "\u202eabc", "Non, non, non, non !"):
        found = translator.translate(odd)
        words = found.text.split()
        assert len(words) < 3 * len(odd.split()) + 60
    assert [t.text for t in translator.translate(["", "   ", "\u00a0"])] == ["", "", ""]


def test_a_copy_in_another_precision_says_the_same(translator, tmp_path):
    export("fr-en", tmp_path / "copy", "float32")
    texts = ["Quelle heure est-il ?", "Elle a oublié ses clés dans la voiture."]
    assert [t.text for t in load(tmp_path / "copy", "cpu").translate(texts)] == [
        t.text for t in translator.translate(texts)
    ]
