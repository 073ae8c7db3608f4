"""Damaged and hostile CTranslate2 folders: refused in one line, without much memory; damaged bytes never crash."""

from __future__ import annotations

import json
import os
import shutil
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from regard.errors import UserError
from regard.interchange.read._ctranslate2_file import Variables
from regard.interchange.read.ctranslate2 import read

pytest.importorskip("ctranslate2")
pytest.importorskip("transformers")
from tests.interchange import made_ctranslate2 as made


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    return made.opennmt(tmp_path_factory.mktemp("good") / "model", "int8")


@pytest.fixture
def folder(good, tmp_path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "model"))


def text(name: str) -> bytes:
    return struct.pack("<H", len(name) + 1) + name.encode() + b"\0"


def model(
    *variables: bytes, format: int = 6, name: str = "TransformerSpec", revision: int = 7, count: int = -1
) -> bytes:
    head = struct.pack("<I", format) + text(name) + struct.pack("<I", revision)
    return head + struct.pack("<I", len(variables) if count < 0 else count) + b"".join(variables) + struct.pack("<I", 0)


def variable(name: str, shape: tuple[int, ...] = (2,), kind: int = 0, size: int = 8, data: bytes = b"\0" * 8) -> bytes:
    described = struct.pack(f"<B{len(shape)}IBI", len(shape), *shape, kind, size)
    return text(name) + described + data


FILES = {
    "another format": (model(format=7), "format is number 7"),
    "a format of long ago": (model(format=1), "format is number 1"),
    "another network": (model(name="WhisperSpec"), "WhisperSpec"),
    "a later layout": (model(revision=8), "revision 8"),
    "an empty file": (b"", "ends too early"),
    "a billion arrays": (model(count=10**9), "arrays"),
    "fewer arrays than it says": (model(count=5), "ends too early"),
    "a name that is no text": (model(b"\2\0\xff\0" + b"\0" * 20), "not text"),
    "an array of 4 GB": (
        model(variable("a", (1 << 30,), size=(1 << 32) - 4)),
        "another size than its shape|ends within",
    ),
    "a shape beyond all numbers": (model(variable("a", (1 << 31,) * 8)), "another size"),
    "sixty dimensions": (model(variable("a", (1,) * 60)), "60 dimensions"),
    "a type of its own": (model(variable("a", kind=9)), "type that is not known"),
    "a size that lies": (model(variable("a", size=4)), "another size"),
    "the same name twice": (model(variable("a"), variable("a")), "occurs twice"),
    "more than is listed": (model(variable("a")) + b"x", "more in it"),
    "nothing of a model": (model(variable("a")), "decoder/embeddings/weight"),
    "a table of one dimension": (model(variable("decoder/embeddings/weight")), "two dimensions"),
}


@pytest.mark.parametrize("kind", FILES)
def test_files_that_are_no_models(kind, folder):
    content, why = FILES[kind]
    (folder / "model.bin").write_bytes(content)
    tracemalloc.start()
    with pytest.raises(UserError, match=why) as refused:
        read(folder, print)
    assert "\n" not in str(refused.value) and tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def edited(file: str, **changes):
    def change(folder: Path) -> None:
        path = folder / file
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def replaced(file: str, content: bytes):
    return lambda folder: (folder / file).write_bytes(content)


def linked(file: str):
    def change(folder: Path) -> None:
        (folder / file).unlink()
        (folder / file).symlink_to("/etc/hostname")

    return change


def renamed(old: str, new: str):
    """Another name for an array, of the same length."""

    def change(folder: Path) -> None:
        content = (folder / "model.bin").read_bytes()
        assert old.encode() in content and len(old) == len(new)
        (folder / "model.bin").write_bytes(content.replace(old.encode(), new.encode()))

    return change


CHANGES = {
    "no weights": (lambda folder: (folder / "model.bin").unlink(), "model.bin"),
    "weights that are a link": (linked("model.bin"), "model.bin is missing, or is a link"),
    "weights that are a pipe": (
        lambda folder: ((folder / "model.bin").unlink(), os.mkfifo(folder / "model.bin")),
        "not a regular file",
    ),
    "a config that is a list": (replaced("config.json", b"[]"), "not a JSON object"),
    "a config that nests": (replaced("config.json", b"[" * 100_000), "not valid JSON"),
    "a start that is a number": (edited("config.json", decoder_start_token=3), "spelling of a token"),
    "no start": (edited("config.json", decoder_start_token=None), "no fixed first token"),
    "an unknown end": (edited("config.json", eos_token="<eos>"), "has no '<eos>'"),
    "a begin of sources": (edited("config.json", add_source_bos=True), "add_source_bos"),
    "an epsilon of nonsense": (edited("config.json", layer_norm_epsilon="small"), "layer_norm_epsilon"),
    "a vocabulary that is missing": (lambda f: (f / "source_vocabulary.json").unlink(), "source_vocabulary.json"),
    "a vocabulary of numbers": (replaced("target_vocabulary.json", b"[1, 2, 3, 4]"), "list of tokens"),
    "a vocabulary of three": (replaced("target_vocabulary.json", b'["a", "b", "c"]'), "3 tokens"),
    "a vocabulary that is short": (
        replaced("target_vocabulary.json", b'["<unk>", "<s>", "</s>", "a", "b"]'), "has shape",
    ),
    "no tokenizer": (lambda folder: (folder / "sentencepiece.model").unlink(), "put the model's sentencepiece.model"),
    "a tokenizer that is none": (replaced("sentencepiece.model", b"zzz"), "sentencepiece"),
    "a part we lack": (renamed("ffn/linear_0/bias", "ffn/linear_0/hias"), "hias"),
    "a weight that is missing": (renamed("encoder/layer_norm/gamma", "encoder/layer_norm/gemma"), "norm"),
    "heads that do not divide": (lambda folder: set_number(folder, "decoder/num_heads", 5), "divided among 5 heads"),
    "an activation we lack": (lambda folder: set_number(folder, "encoder/activation", 6), "sigmoid"),
    "a weight that is infinite": (lambda folder: infinite(folder), "not finite"),
    "a scale of zero": (lambda folder: infinite(folder, "encoder/layer_0/ffn/linear_0/weight_scale", 0.0), "positive"),
}  # fmt: skip


def set_number(folder: Path, name: str, value: int) -> None:
    path = folder / "model.bin"
    stored = Variables(path)._stored[name]
    content = bytearray(path.read_bytes())
    content[stored.offset : stored.offset + stored.size] = value.to_bytes(stored.size, "little")
    path.write_bytes(content)


def infinite(folder: Path, name: str = "decoder/layer_1/ffn/layer_norm/gamma", value: float = float("inf")) -> None:
    path = folder / "model.bin"
    content = bytearray(path.read_bytes())
    struct.pack_into("<f", content, Variables(path)._stored[name].offset, value)
    path.write_bytes(content)


@pytest.mark.parametrize("kind", CHANGES)
def test_damaged_folders_are_refused_in_one_line(kind, folder):
    change, why = CHANGES[kind]
    change(folder)
    with pytest.raises(UserError, match=why) as refused:
        read(folder, print)
    assert "\n" not in str(refused.value)


def test_any_damaged_byte_is_refused_or_read(folder):
    """Every outcome but a model or one line is a bug."""
    path, random = folder / "model.bin", np.random.default_rng(1)
    whole = path.read_bytes()
    for turn in range(60):
        damaged = bytearray(whole[: random.integers(1, len(whole))] if turn % 2 else whole)
        for _ in range(4):
            damaged[random.integers(len(damaged))] = random.integers(256)
        path.write_bytes(damaged)
        try:
            read(folder, print)
        except UserError as error:
            assert "\n" not in str(error)
