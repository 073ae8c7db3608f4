"""Language models learn what the next character depends on; from shuffled characters they learn nothing."""

import math
import random
import re
from collections import Counter

import pytest

import regard
from regard.config import read_recipe, tiny_form
from regard.data.format._base import Example
from regard.data.format.made_chorales import MadeChorales
from regard.data.format.made_text import ADJECTIVES, NOUNS, VERBS, MadeText
from regard.data.music import read_steps

RECIPES = {
    "char-rnn-shakespeare": MadeText,
    "gpt-shakespeare": MadeText,
    "gpt-shakespeare-small": MadeText,
    "llama-shakespeare": MadeText,
    "music-lstm": MadeChorales,
    "music-transformer": MadeChorales,
}
SLOW = ("gpt-shakespeare", "llama-shakespeare", "music-transformer")
"""Like the one beside them, as far as shuffled letters can tell."""


def trained(name, folder):
    return regard.train(tiny_form(read_recipe(name)), "training.device=cpu", folder=folder, quiet=True)


def entropy(signs) -> float:
    """Nats a sign of a model that only knows how frequent each is."""
    counts = Counter(signs)
    return -sum(n / len(signs) * math.log(n / len(signs)) for n in counts.values())


def test_letters_become_words_and_sentences(tmp_path):
    run = trained("char-rnn-shakespeare", tmp_path / "run")
    (valid,) = MadeText(count=500).read([], "valid")
    print(run.scores, entropy(valid.target))
    assert run.scores["loss"] < entropy(valid.target) - 2.0
    task = run.model
    text = task.generate("KING: ", length=1500, temperature=0.5, seed=1).text
    words = re.findall(r"[a-z]+", text)
    known = {"the", "me", "and", "it", "they", "you", *ADJECTIVES}
    known |= {word + s for word in (*NOUNS, *VERBS) for s in ("", "s")}
    print(text[:300])
    assert sum(word in known for word in words) > 0.9 * len(words) > 100
    after = [task.next_tokens(f"KING: the old {noun} know") for noun in ("cat", "cats")]
    singular, plural = ({one.text: one.probability for one in tokens} for tokens in after)
    assert singular.get("s", 0) > 0.5 > plural.get("s", 0)  # the cat knows, the cats know


def test_music_keeps_to_its_chords(tmp_path):
    run = trained("music-lstm", tmp_path / "run")
    pieces = [example.target.split() for example in MadeChorales().read([], "valid")]
    signs = [sign for piece in pieces for sign in piece]
    guessed = entropy(signs) * len(signs) / signs.count("|")
    print(run.scores, guessed)
    assert run.scores["nll_per_step"] < guessed - 10
    written = run.model.generate(count=8, seed=1, length=60, temperature=0.5)
    steps = [step for one in written for step in read_steps(str(one))[:-1]]
    print(steps)
    assert sum(len(step) == 4 for step in steps) > 0.8 * len(steps) > 20


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in RECIPES])
def test_from_shuffled_signs_nothing_is_learnt(name, tmp_path, monkeypatch):
    made, pick = RECIPES[name], random.Random(1)
    read = made.read

    def shuffled(self, files, part):
        found = []
        for example in read(self, files, part):
            signs = list(example.target) if made is MadeText else example.target.split()
            pick.shuffle(signs)
            found.append(Example("", ("" if made is MadeText else " ").join(signs)))
        return found

    monkeypatch.setattr(made, "read", shuffled)
    run = trained(name, tmp_path / "run")
    ((score, bound),) = read_recipe(name).tiny["beats"].items()
    print(run.scores, bound)
    assert run.scores[score] > 2 * bound
