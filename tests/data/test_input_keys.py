"""Keys of `[input]` that a kind of input does not take are refused before any data are read."""

from __future__ import annotations

import pytest

from regard.data.input import check_keys
from regard.errors import UserError


@pytest.mark.parametrize(
    ("kind", "known", "wrong", "message"),
    [
        ("image", ["size", "channels"], "sise", "input: no key 'sise'; did you mean 'size'?"),
        ("clip", ["size", "channels"], "chanels", "input: no key 'chanels'; did you mean 'channels'?"),
        ("sound", ["rate"], "rat", "input: no key 'rat'; did you mean 'rate'?"),
        ("series", ["columns"], "colums", "input: no key 'colums'; did you mean 'columns'?"),
        ("text", [], "size", "input: this model reads text, which has no key 'size'; leave it out"),
    ],
)
def test_an_unknown_key_is_refused_and_a_known_one_suggested(kind, known, wrong, message) -> None:
    check_keys(known, kind)
    with pytest.raises(UserError) as refused:
        check_keys([*known, wrong], kind)
    assert str(refused.value) == message
