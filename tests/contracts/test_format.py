"""The laws of data formats. Every file in data/format is found and held to them.

A format that reads files is held to its own `sample()`; one that has none makes its examples itself.
"""

import gzip
from pathlib import Path

import numpy as np
import pytest

from regard import registry
from regard.config import Data
from regard.data.format._made import PARTS
from regard.data.splitting import read_parts
from regard.errors import UserError

KINDS = registry.kinds("data/format")
READING = [kind for kind in KINDS if registry.factory("data/format", kind).sample() is not None]
MAKING = [kind for kind in KINDS if kind not in READING]
COUNT = 6


def made(kind, **options):
    return registry.create("data/format", kind, "data.format", **options)


def plain(value):
    """Examples in a form that == compares: arrays with their type and shape."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def is_text(content):
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False


def refused(kind, files):
    """The line that refuses files as the training data of a recipe."""
    with pytest.raises(UserError) as error:
        read_parts(Data(train=[str(file) for file in files], format={"kind": kind}))
    line = str(error.value)
    assert line and "\n" not in line
    return line


@pytest.fixture(params=READING)
def kind(request):
    return request.param


@pytest.fixture(params=MAKING)
def making(request):
    return request.param


@pytest.fixture
def sample(kind):
    return registry.factory("data/format", kind).sample()


@pytest.fixture
def files(sample, tmp_path):
    for name, content in sample.files.items():
        (tmp_path / name).write_bytes(content)
    return [tmp_path / name for name in sample.files]


def test_formats_of_both_sorts_are_found():
    assert READING and MAKING


def test_it_reads_what_its_sample_says(kind, sample, files):
    assert sample.examples
    assert plain(made(kind).read(files, "train")) == plain(list(sample.examples))


def test_it_reads_the_same_every_time_and_writes_nothing(kind, sample, files):
    form = made(kind)
    first = plain(form.read(files, "train"))
    assert plain(form.read(files, "train")) == first == plain(made(kind).read(files, "train"))
    assert {path.name: path.read_bytes() for path in files[0].parent.iterdir()} == dict(sample.files)


def test_every_file_matters_to_its_last_line(kind, files):
    """Without the last line of a text file, or without a binary file: other examples or a refusal."""
    before = plain(made(kind).read(files, "train"))
    for path in files:
        content = path.read_bytes()
        left = files
        if is_text(content):
            path.write_bytes(b"".join(content.splitlines(keepends=True)[:-1]))
        else:
            left = [other for other in files if other != path]
        try:
            after = plain(made(kind).read(left, "train"))
        except UserError:
            after = None
        assert after != before
        path.write_bytes(content)


def test_compressed_text_is_read_the_same(kind, sample, files):
    packed = []
    for path in files:
        if is_text(content := path.read_bytes()):
            path = path.with_name(f"{path.name}.gz")
            path.write_bytes(gzip.compress(content))
        packed.append(path)
    assert plain(made(kind).read(packed, "train")) == plain(list(sample.examples))
    for whole, file in zip(files, packed):
        if file != whole:
            content = file.read_bytes()
            file.write_bytes(content[: len(content) // 2])
            assert str(file) in refused(kind, packed)
            file.write_bytes(content)


def test_text_that_is_not_utf_8_is_refused_with_file_and_line(kind, files):
    for path in files:
        if is_text(content := path.read_bytes()):
            *before, last = content.splitlines(keepends=True)
            path.write_bytes(b"".join([*before, last[:-2] + b"\xff" + last[-2:]]))
            assert f"{path}, line {len(before) + 1}:" in refused(kind, files)
            path.write_bytes(content)


def test_binary_files_that_are_damaged_are_refused_by_name(kind, files):
    for path in files:
        if not is_text(content := path.read_bytes()):
            for damaged in (content[: min(100, len(content) - 1)], b"\xff\xfe" * 50):
                path.write_bytes(damaged)
                assert str(path) in refused(kind, files)
            path.write_bytes(content)


def test_empty_and_missing_files_are_refused_by_name(kind, files):
    for path in files:
        path.write_bytes(b"")
    line = refused(kind, files)
    assert any(str(path) in line for path in files)
    for path in files:
        path.unlink()
    assert str(files[0]) in refused(kind, files)


def test_made_examples_depend_on_seed_and_part_alone(making):
    first = {part: plain(made(making, count=COUNT, seed=3).read([], part)) for part in PARTS}
    assert all(first.values())
    assert first["train"] != first["valid"] != first["test"] != first["train"]
    form = made(making, count=COUNT, seed=3)
    for part in reversed(PARTS):  # in any order, from one object
        assert plain(form.read([], part)) == first[part]
    assert all(plain(made(making, count=COUNT, seed=4).read([], part)) != first[part] for part in PARTS)


def test_made_examples_ignore_the_state_of_the_process(making, monkeypatch, tmp_path):
    first = plain(made(making, count=COUNT).read([], "train"))
    np.random.seed(7)
    monkeypatch.chdir(tmp_path)
    assert plain(made(making, count=COUNT).read([], "train")) == first and not list(Path().iterdir())


@pytest.mark.parametrize("key, value", [("count", 0), ("count", 10**12), ("seed", -1)])
def test_counts_and_seeds_out_of_range_are_refused_by_key(making, key, value):
    with pytest.raises(UserError, match=f"^data.format.*{key}") as error:
        made(making, **{key: value})
    assert "\n" not in str(error.value)
