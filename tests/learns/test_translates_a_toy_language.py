"""Models learn a toy language with reversed word order, without a mistake on held-out pairs."""

import random

import pytest

import regard

WORDS = dict(
    zip(
        ["un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit"],
        ["one", "two", "three", "four", "five", "six", "seven", "eight"],
    )
)


def corpus(count: int, seed: int) -> list[tuple[str, str]]:
    pick = random.Random(seed)
    pairs = []
    for _ in range(count):
        words = pick.choices(list(WORDS), k=pick.randint(1, 5))
        pairs.append((" ".join(words), " ".join(WORDS[word] for word in reversed(words))))
    return pairs


MODELS = {
    "transformer": ["model.layers=2", "model.heads=4", "model.feed_forward=128", "model.norm=pre"],
    "ssru": ["model.layers=2", "model.heads=4", "model.feed_forward=128", "model.norm=pre", "model.decoder=ssru"],
    "bahdanau": ["model.layers=1", "model.encoder=recurrent", "model.decoder=attentional"],
    "luong": [
        "model.layers=1",
        "model.encoder=recurrent",
        'model.decoder={kind = "attentional", cell = "lstm", order = "after", attention = "multiplicative"}',
    ],
}


@pytest.fixture(
    scope="module",
    params=["transformer", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ssru", "bahdanau", "luong"))],
)
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    for side, name in enumerate(("toy.fr", "toy.en")):
        text = "".join(f"{pair[side]}\n" for pair in corpus(6000, seed=1))
        (folder / name).write_text(text, encoding="utf-8")
    return regard.train(
        None,
        "tokenizer.kind=word",
        *MODELS[request.param],
        "model.width=64",
        "model.dropout=0.0",
        "training.steps=500",
        "training.warmup=50",
        "training.schedule=cosine",
        "training.learning_rate=3e-3",
        "training.batch_tokens=1000",
        "training.validate_every=500",
        "training.save_every=500",
        "training.average=1",
        "training.device=cpu",
        "data.hold_out_valid=100",
        source=folder / "toy.fr",
        target=folder / "toy.en",
        folder=folder / "run",
        quiet=True,
    )


def test_it_translates_what_it_never_saw(run):
    assert run.scores["bleu"] > 99
    fresh = corpus(200, seed=2)
    found = run.model.translate([source for source, _ in fresh])
    assert sum(t.text == target for t, (_, target) in zip(found, fresh)) >= 196


def test_its_attention_knows_which_word_is_which(run):
    source = "un deux trois quatre cinq"
    found = run.model.translate(source, alignment=True)
    assert found.text == "five four three two one"
    assert set(found.alignment) >= {(4, 0), (3, 1), (2, 2), (1, 3), (0, 4)}


def test_batches_beams_and_order_do_not_change_an_answer(run):
    texts = [source for source, _ in corpus(25, seed=3)] + ["", "  ", "un"]
    alone = [run.model.translate(text) for text in texts]
    for budget in (40, 4096):
        together = run.model.translate(texts, batch_tokens=budget)
        assert [t.text for t in together] == [t.text for t in alone]
        assert [t.score for t in together] == pytest.approx([t.score for t in alone], abs=1e-4)
    assert alone[-3].text == alone[-2].text == ""
