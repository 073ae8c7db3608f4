"""Word dropout: the given share of tokens is unknown in training, none in use."""

import pytest
import torch

from regard.assemble import build_model
from regard.errors import UserError
from regard.stem.tokens import Tokens
from regard.types import UNKNOWN


def test_so_many_tokens_are_unknown_in_training_only():
    torch.manual_seed(0)
    stem = Tokens(30, 8, position="none", dropout=0.0, word_dropout=0.3)
    source = torch.randint(4, 30, (100, 50))
    mask = torch.ones_like(source, dtype=torch.bool)
    plain, unknown = stem.embedding(source), stem.embedding(torch.full_like(source, UNKNOWN))
    found, again = stem(source, mask)[0], stem(source, mask)[0]
    dropped = (found == unknown).all(-1)
    assert dropped.float().mean() == pytest.approx(0.3, abs=0.03)
    assert torch.equal(found[~dropped], plain[~dropped]) and not torch.equal(found, again)
    assert torch.equal(stem.eval()(source, mask)[0], plain)
    torch.manual_seed(4)
    first = stem.train()(source, mask)[0]
    torch.manual_seed(4)
    assert torch.equal(stem(source, mask)[0], first)


def test_a_recipe_may_say_it():
    with pytest.raises(UserError, match="no key 'word_droput'; did you mean 'word_dropout'"):
        build_model({"kind": "classifier", "stem": {"word_droput": 0.1}}, vocabulary=9, labels=2)
