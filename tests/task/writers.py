"""The laws of tasks that write text: its score does not depend on how it was found or on its batch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from regard.config import read_recipe, tiny_form
from regard.data.input._base import Raw
from regard.data.splitting import read_parts
from regard.task._writing import Writer, Written
from regard.types import BEGIN, END


def forced(task: Writer, raw: Raw, ids: list[int]) -> list[float]:
    """log p of each token and of END, by feeding the model the text itself."""
    _, source, mask = next(task.batches([raw]))
    with torch.inference_mode():
        found = task.model(source, mask, torch.tensor([[BEGIN, *ids]]))[0].log_softmax(-1)
    return [float(row[token]) for row, token in zip(found, [*ids, END], strict=True)]


def same(one: Written, other: Written) -> None:
    assert (one.text, one.ids, one.tokens) == (other.text, other.ids, other.tokens)
    assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
    assert one.token_probabilities == pytest.approx(other.token_probabilities, abs=1e-4)
    assert len(one.alternatives) == len(other.alternatives)
    for pair in zip(one.alternatives, other.alternatives):
        same(*pair)


def neighbours_do_not_matter(task: Writer, raws: list[Raw], monkeypatch: pytest.MonkeyPatch) -> None:
    together = task.written(raws, n_best=2)
    for raw, one in zip(raws, together, strict=True):
        same(one, task.written([raw], n_best=2)[0])
    monkeypatch.setattr(task.recipe.training, "batch_examples", 3)
    finished: list[int] = []
    for pair in zip(together, task.written(raws, n_best=2, progress=finished.append), strict=True):
        same(*pair)
    assert sum(finished) == len(raws) and max(finished) == 3


def scores_are_probabilities(task: Writer, raws: list[Raw]) -> None:
    """What the search says of a text is what the model says of it, for beam and greedy and every alternative."""
    for options in ({"beam": 1}, {"beam": 5, "n_best": 3}, {"beam": 4, "max_length": 2}):
        for raw, best in zip(raws, task.written(raws, **options), strict=True):  # type: ignore[arg-type]
            assert len(best.token_probabilities) == len(best.ids) == len(best.tokens)
            for one in (best, *best.alternatives):
                found = forced(task, raw, one.ids)
                found = found if one.finished else found[:-1]
                assert one.log_probability == pytest.approx(sum(found), abs=1e-3)
            found = forced(task, raw, best.ids)
            assert best.token_probabilities == pytest.approx([math.exp(p) for p in found[:-1]], abs=1e-4)
            ends = math.exp(found[-1]) if best.finished else 1.0
            assert math.prod(best.token_probabilities) * ends == pytest.approx(math.exp(best.log_probability), rel=1e-3)
            assert [
                other.log_probability for other in best.alternatives if not other.finished
            ] == [] or not best.finished
    assert not any(one.finished for one in task.written(raws, max_length=1) if one.ids)


def looks_are_shares(task: Writer, raw: Raw, positions: int) -> None:
    one = task.written([raw])[0]
    looks = task.attention(raw, one.ids)
    assert looks.shape == (len(one.ids), positions) and len(one.ids) > 0
    assert (looks >= 0).all() and looks.sum(1) == pytest.approx(torch.ones(len(one.ids)), abs=1e-5)
    assert torch.allclose(task.attention(raw, one.ids[:1]), looks[:1], atol=1e-5), "later words change earlier looks"
    assert task.attention(raw, []).shape == (0, positions)


def tiny(name: str, *overrides: str, folder: Any) -> Any:
    import regard

    return regard.train(tiny_form(read_recipe(name)), "training.device=cpu", *overrides, folder=folder, quiet=True)


def inputs(name: str, count: int = 12) -> list[Raw]:
    return [example.input for example in read_parts(tiny_form(read_recipe(name)).data).test[:count]]
