"""A Translator at the limits of what its model knows."""

import pytest
import torch

import regard
from regard.assemble import build_model, resolve_model
from regard.config import Recipe
from regard.data.tokenizer.character import Character
from regard.errors import UserError
from regard.task._translation import check_options
from regard.task.translate import Translator
from regard.types import BEGIN, END


@pytest.mark.parametrize("beam", [1, 3])
def test_learned_positions_limit_what_is_written(beam, monkeypatch):
    tokenizer = Character.train(["abcdef"], seed=1)
    torch.manual_seed(0)
    tree = resolve_model({"preset": "tiny", "position": {"kind": "learned", "length": 24}})
    recipe = Recipe(model=tree)
    recipe.data.max_length = 20
    translator = Translator(recipe, tokenizer, build_model(tree, len(tokenizer)), torch.device("cpu"))
    project = translator.model.decoder.project

    def endless(hidden):
        logits = project(hidden)
        logits[..., END] = -torch.inf
        return logits

    monkeypatch.setattr(translator.model.decoder, "project", endless)
    found = translator.translate("abcdef" * 3, beam=beam, max_length=500, alignment=True)
    # Position 25 was never asked for, not even to align the whole text after BEGIN.
    assert len(found.tokens) == 23 and not found.finished


def test_too_few_positions_for_the_text_are_refused_before_training(tmp_path):
    for name in ("s", "t"):
        (tmp_path / name).write_text("".join(f"{name} word {number}\n" for number in range(60)))
    with pytest.raises(UserError, match="64 positions are too few for data.max_length=128"):
        regard.train(
            None,
            "model.preset=tiny",
            'model.position={kind="learned", length=64}',
            "tokenizer.kind=word",
            source=tmp_path / "s",
            target=tmp_path / "t",
            folder=tmp_path / "run",
            quiet=True,
        )


@pytest.mark.parametrize("wrong", [{"beam": 0}, {"n_best": 0}, {"length_penalty": -1.0}, {"max_length": 0}])
def test_limits_are_refused_before_anything_is_searched(wrong):
    with pytest.raises(UserError):
        check_options(
            wrong.get("beam", 4), wrong.get("n_best", 1), wrong.get("length_penalty"), wrong.get("max_length"), None
        )


def test_a_folder_left_by_a_refused_run_does_not_decide_the_next_ones_tokenizer(tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"mot {n}\tword {n}\n" for n in range(60)))
    options = ["model.preset=tiny", "tokenizer.kind=word", "data.hold_out_valid=2"]
    with pytest.raises(UserError, match="positions"):
        regard.train(
            None,
            *options,
            "tokenizer.size=10",
            'model.position={kind="learned", length=8}',
            source=tmp_path / "pairs.tsv",
            folder=tmp_path / "run",
            quiet=True,
        )
    run = regard.train(
        None,
        *options,
        "tokenizer.size=40",
        "training.steps=1",
        source=tmp_path / "pairs.tsv",
        folder=tmp_path / "run",
        quiet=True,
    )
    assert len(run.model.tokenizer) == 40


LOOKING = {
    "transformer": {"heads": 2},
    "bahdanau": {"encoder": "recurrent", "decoder": "attentional"},
    "luong": {
        "encoder": "recurrent",
        "decoder": {"kind": "attentional", "cell": "lstm", "order": "after", "attention": "multiplicative"},
    },
    "luong without feeding": {
        "encoder": "recurrent",
        "decoder": {"kind": "attentional", "order": "after", "feed": False, "attention": "multiplicative"},
    },
    "local": {"encoder": "recurrent", "decoder": {"kind": "attentional", "order": "after", "attention": "local"}},
}


def translator_of(tree: dict) -> Translator:
    tokenizer = Character.train(["abcdef ghi"], seed=1)
    torch.manual_seed(4)
    resolved = resolve_model({"width": 16, "layers": 2, **tree})
    model = build_model(resolved, len(tokenizer))
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return Translator(Recipe(model=resolved), tokenizer, model, torch.device("cpu"))


@pytest.mark.parametrize("tree", LOOKING.values(), ids=LOOKING)
@torch.no_grad()
def test_the_attention_that_is_shown_is_that_of_the_chosen_hypothesis(tree):
    """R20: against the steps taken one by one, alone, with the tokens of the hypothesis."""
    translator = translator_of(tree)
    sources = [translator.encode(text) for text in ("abc def", "fed", "ab ihg cdefab")]
    found = translator.search(sources, beam=3, n_best=2, max_length=12)
    pairs = [(source, h.ids) for source, hypotheses in zip(sources, found) for h in hypotheses]
    assert len({tuple(ids) for _, ids in pairs}) > 1
    for (source, written), shown in zip(pairs, translator.attention(pairs)):
        assert shown.shape == (len(written) + 1, len(source) + 1)
        torch.testing.assert_close(shown.sum(-1), torch.ones(len(shown)), atol=1e-5, rtol=0)
        ids = torch.tensor([[*source, END]])
        memory = translator.model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
        state = translator.model.decoder.start(memory, beams=1, capacity=20)
        rows = []
        for token in (BEGIN, *written):
            with regard.capture(translator.model.decoder) as seen:
                _, state = translator.model.decoder.step(torch.tensor([[token]]), state)
            looks = [calls[0].mean(1)[0, 0] for name, calls in seen.items() if "cross_attention" in name]
            rows.append(torch.stack(looks).mean(0))
        torch.testing.assert_close(shown, torch.stack(rows), atol=1e-5, rtol=1e-4)


def test_a_model_without_attention_says_so():
    translator = translator_of({"encoder": "recurrent", "decoder": "recurrent"})
    assert translator.translate("abc", max_length=5).alignment is None
    with pytest.raises(UserError, match="no attention"):
        translator.translate("abc", alignment=True, max_length=5)
