"""V3: a step of writing is the model's own, and what a person chose is how the rest begins."""

from __future__ import annotations

import pytest
import torch
from inspection.test_record_translation import ATTENDS, LINES, SHAPES, made

from regard.data.batching import pad
from regard.errors import UserError
from regard.inspection.record.decoding_step import decoding_step
from regard.inspection.trace.base import CROSS
from regard.types import BEGIN, END, PAD


def log_probs(translator, written: list[int]) -> torch.Tensor:
    """Fed one token at a time, as a search does."""
    ids, mask = pad([[*translator.encode(LINES[2]), END]])
    decoder = translator.model.decoder
    with torch.inference_mode():
        state = decoder.start(translator.model.encode(ids, mask), beams=1, capacity=len(written) + 1)
        for token in (BEGIN, *written):
            logits, state = decoder.step(torch.tensor([[token]]), state)
    return logits[0, -1].log_softmax(-1)


@pytest.mark.parametrize("shape", SHAPES)
def test_V3_a_step_says_what_the_model_says(shape: str) -> None:
    translator = made(shape)
    written = [8, 5, 9]
    found = decoding_step(translator, LINES[2], written)
    chances = log_probs(translator, written).exp()
    allowed = [token for token in chances.argsort(descending=True).tolist() if token >= END]
    assert [one.probability for one in found.alternatives] == pytest.approx(chances[allowed[:10]].tolist(), abs=1e-5)
    for one in found.alternatives:
        assert one.probability == pytest.approx(float(chances[one.id]), abs=1e-5) and one.id >= END
        assert [one.token] == translator.tokenizer.pieces([one.id])
    for place, token in enumerate(written):
        sure = float(log_probs(translator, written[:place])[token].exp())
        assert found.probabilities[place] == pytest.approx(sure, abs=1e-5)
    assert bool(found.weights) == (shape in ATTENDS)
    for layer in found.weights:
        assert layer.shape[1] == len(translator.encode(LINES[2])) + 1
        assert layer.sum(-1) == pytest.approx(1, abs=1e-5)
    earlier = decoding_step(translator, LINES[2], [*written, END], step=2)
    assert [one.id for one in earlier.alternatives] == [
        one.id for one in decoding_step(translator, LINES[2], written[:2]).alternatives
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("beam", [1, 3])
def test_V3_what_is_given_is_how_it_begins(shape: str, beam: int) -> None:
    translator = made(shape)
    own = translator.inspect(LINES[2], beam=beam)
    given = [next(one.id for one in own.alternatives[0] if one.id not in (own.ids[0], END)), 7]
    look = translator.inspect(LINES[2], beam=beam, prefix=given)
    assert look.ids[:2] == given and look.given == 2
    assert len(look.ids) == len(look.target.tokens) == len(look.probabilities) == len(look.alternatives)
    assert look.of_kind(CROSS) == [] or look.token_matrix().shape[0] == len(look.ids)
    # What is given does not count, the rest does.
    rest = sum(float(log_probs(translator, look.ids[:place])[look.ids[place]]) for place in range(2, len(look.ids)))
    assert look.log_probability == pytest.approx(rest, abs=1e-3)
    ways = [branch.token for step in look.search for branch in [*step.open, *step.ended] if branch.chosen]
    assert ways == look.target.tokens[2 : 2 + len(ways)] and ways
    assert beam > 1 or look.ids[2] == look.alternatives[2][0].id  # greedy: the most likely token
    same = translator.inspect(LINES[2], beam=1, prefix=translator.inspect(LINES[2], beam=1).ids[:1])
    assert same.ids == translator.inspect(LINES[2], beam=1).ids  # its own beginning leads to its own end


def test_a_text_that_has_ended_is_looked_at_as_it_is() -> None:
    translator = made("transformer")
    look = translator.inspect(LINES[0], prefix=[7, 8, END])
    assert look.ids == [7, 8, END] and look.finished and look.search == []
    assert look.target.text == translator.tokenizer.decode([7, 8]).strip()


def test_alternatives_of_every_step_are_those_of_the_step() -> None:
    translator = made("bahdanau")
    look = translator.inspect(LINES[2])
    for place, thought in enumerate(look.alternatives):
        found = decoding_step(translator, LINES[2], look.ids[:place]).alternatives
        assert [one.id for one in thought] == [one.id for one in found]
        assert [one.probability for one in thought] == pytest.approx([one.probability for one in found], abs=1e-5)


def test_what_nobody_could_have_written_is_refused() -> None:
    translator = made("transformer")
    for given, said in (
        ([PAD], "not one that this model generates"),
        ([10**6], "not one that"),
        ([END, 5], "ends at position 0"),
    ):
        with pytest.raises(UserError, match=said):
            translator.inspect(LINES[0], prefix=given)
        with pytest.raises(UserError, match=said):
            decoding_step(translator, LINES[0], given)
    with pytest.raises(UserError, match="the steps are 0 to 1"):
        decoding_step(translator, LINES[0], [5], step=2)
