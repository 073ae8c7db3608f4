"""What the laws of inputs and of targets share: how a codec is saved, and how it is damaged."""

import json

import pytest

from regard.assemble import GIVEN
from regard.errors import UserError
from regard.loading import CODEC_FILES

SENTENCEPIECE = "tokenizer.model"
"""The one file that is not ours to write as JSON."""


def check_saved(codec):
    """Files are JSON, sizes are arguments of model parts, and a loaded codec saves the same files."""
    files = codec.files()
    for name, content in files.items():
        assert isinstance(content, bytes) and name.startswith(CODEC_FILES)
        if name != SENTENCEPIECE:
            assert name.endswith(".json")
            json.loads(content)
    assert codec.files() == files
    assert set(codec.sizes()) <= set(GIVEN)
    assert all(type(size) is int and size > 0 for size in codec.sizes().values())
    loaded = type(codec).from_files(files)
    assert loaded.files() == files and loaded.sizes() == codec.sizes()
    return loaded


def check_damage(codec):
    """Every file, damaged, is refused in one line that names it."""
    files = codec.files()
    for name, content in files.items():
        for damaged in (b"", b"nonsense", b"[]", b"{}", b"null", b"\xff\xfe", content[: len(content) // 2]):
            with pytest.raises(UserError, match=name.partition(".")[0]) as error:
                type(codec).from_files({**files, name: damaged})
            assert "\n" not in str(error.value)
