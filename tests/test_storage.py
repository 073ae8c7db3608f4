"""Model folders are written and read as a whole (R5, R9); malformed files are refused quickly (S1, S3)."""

from __future__ import annotations

import ast
import json
import os
import pickle
import random
import re
import resource
import shutil
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load as library_load
from safetensors.torch import save as library_save

import regard
from regard import storage
from regard.errors import UserError
from regard.safetensors_header import read_header
from regard.storage import Folder, clean_leftovers, read_folder, write_folder
from regard.weights import (
    PRECISIONS,
    load_tensors,
    load_weights,
    lossless_precision,
    save_tensors,
    save_weights,
    write_weights,
)
from tests.training.toys import run_child

WEIGHTS = {"a.weight": torch.linspace(-2, 3, 12).reshape(3, 4), "a.bias": torch.tensor([0.1, -7.0, 1e-9])}
FILES: dict[str, Any] = {
    "recipe.toml": b'task = "translate"\n',
    "weights.safetensors": save_weights(WEIGHTS),
    "tokenizer.txt": b"one\ntwo\nthree\n",
}

# ------------------------------------------------------------------------------------------------------------- folders


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", {**FILES, "made.bin": lambda path: path.write_bytes(b"by a function")})
    folder = read_folder(tmp_path / "model")
    assert set(folder.names) == {*FILES, "made.bin"}
    assert folder.read("recipe.toml") == FILES["recipe.toml"] and folder.read("made.bin") == b"by a function"
    assert all(torch.equal(folder.weights()[name], tensor) for name, tensor in WEIGHTS.items())
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    with pytest.raises(UserError, match=r"there is no other\.txt"):
        folder.read("other.txt")


def test_a_folder_moves_and_its_hash_speaks_for_all_files(tmp_path: Path) -> None:
    write_folder(tmp_path / "a", FILES)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    write_folder(tmp_path / "c", {**FILES, "tokenizer.txt": b"two\none\nthree\n"})
    a, b, c = (read_folder(tmp_path / name).hash for name in "abc")
    assert a == b != c


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", {**FILES, "old.txt": b"old"})
    write_folder(tmp_path / "model", FILES)
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == sorted([*FILES, "manifest.json"])
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", FILES)

    def fails(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match=r"cannot write .*model: No space left on device"):
        write_folder(tmp_path / "model", {"recipe.toml": b"new", "weights.safetensors": fails})
    assert read_folder(tmp_path / "model").read("recipe.toml") == FILES["recipe.toml"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_leftovers_are_cleaned_and_nothing_else(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", FILES)
    (tmp_path / ".model.123.tmp").mkdir()
    (tmp_path / ".model.123.tmp" / "weights.safetensors").write_bytes(b"half")
    (tmp_path / ".hidden").touch()
    clean_leftovers(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".hidden", "model"]


@pytest.mark.parametrize("name", ["../out", "a/b", "", ".hidden", "manifest.json", "a\0b", "a\\b", "/etc/passwd"])
def test_only_plain_names_are_files_of_a_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be a file"):
        write_folder(tmp_path / "model", {name: b"x"})
    assert not list(tmp_path.iterdir())


def test_a_manifest_cannot_point_outside(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    write_folder(tmp_path / "model", FILES)
    from regard.storage import _manifest, _sha256

    entry = {"size": 6, "sha256": _sha256(tmp_path / "secret")}
    (tmp_path / "model" / "manifest.json").write_bytes(_manifest({"../secret": entry}))
    with pytest.raises(UserError, match=r"manifest\.json is damaged"):
        read_folder(tmp_path / "model")


@pytest.mark.parametrize("version", [0, 2, 99, "1", None])
def test_other_format_versions_are_refused_by_number(version: Any, tmp_path: Path) -> None:
    write_folder(tmp_path / "model", FILES)
    path = tmp_path / "model" / "manifest.json"
    path.write_text(path.read_text().replace('"format": 1', f'"format": {json.dumps(version)}'))
    with pytest.raises(UserError, match=f"format version {version}.*reads 1"):
        read_folder(tmp_path / "model")


def test_what_is_not_a_model_folder_says_so(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(UserError, match="not a model folder"):
            read_folder(path)


def mutations(folder: Path, other: Path, count: int) -> list[tuple[str, str]]:
    """Changes one file of a folder in one random way at a time; yields nothing, checks each and mends it."""
    chance, names, silent = random.Random(0), [*FILES, "manifest.json"], []
    for _ in range(count):
        name = chance.choice(names)
        path, before = folder / name, (folder / name).read_bytes()
        content, kind = bytearray(before), chance.choice(["bit", "cut", "grow", "swap", "gone", "lines"])
        if kind == "bit":
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        elif kind == "cut":
            content = content[:-1]
        elif kind == "grow":
            content += b"\n"
        elif kind == "swap":
            content = bytearray((other / name).read_bytes())
        elif kind == "lines" and name == "tokenizer.txt":
            content = bytearray(b"two\none\nthree\n")
        path.unlink() if kind == "gone" else path.write_bytes(content)
        if kind == "gone" or bytes(content) != before:
            try:
                read_folder(folder)
                silent.append((name, kind))
            except UserError as error:
                if name not in str(error) and not (name == "manifest.json" and kind == "swap"):
                    silent.append((name, kind))
        path.write_bytes(before)
    read_folder(folder)
    return silent


def test_two_hundred_mutations_and_no_silent_load(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", FILES)
    another = {name: content + b" " for name, content in FILES.items()}
    write_folder(tmp_path / "other", another)
    assert mutations(tmp_path / "model", tmp_path / "other", 200) == []


# ------------------------------------------------------------------------------------- files that are no regular files


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 << 30)


SPECIAL: dict[str, Any] = {
    "a FIFO": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "larger|changed|damaged": sparse,
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
@pytest.mark.parametrize("kind", SPECIAL)
def test_only_regular_files_of_the_stated_size_are_opened(kind: str, name: str, tmp_path: Path) -> None:
    write_folder(tmp_path / "model", FILES)
    (tmp_path / "model" / name).unlink()
    SPECIAL[kind](tmp_path / "model" / name)
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(UserError, match=kind) as refused:
        read_folder(tmp_path / "model")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - began < 2 and peak < 10_000_000 and "\n" not in str(refused.value)


@pytest.mark.timeout(30)
def test_a_header_of_something_else_than_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero"), tmp_path, tmp_path / "none"):
        with pytest.raises(UserError, match="cannot be read"):
            load_weights(path)


def test_files_beside_the_weights_are_few_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kept in memory, so what could not be read again is not even written."""
    monkeypatch.setattr(storage, "_MAX_SMALL", 100)
    write_folder(
        tmp_path / "model", {"a.txt": bytes(50), "b.txt": bytes(50), "weights.safetensors": save_weights(WEIGHTS)}
    )
    with pytest.raises(UserError, match=r"b\.txt: 51 bytes"):
        write_folder(tmp_path / "other", {"a.txt": bytes(50), "b.txt": bytes(51)})
    monkeypatch.setattr(storage, "_MAX_SMALL", 99)
    with pytest.raises(UserError, match="may have 99"):
        read_folder(tmp_path / "model")


def test_shapes_from_the_header_are_those_of_the_weights(tmp_path: Path) -> None:
    for precision in PRECISIONS:
        write_folder(
            tmp_path / "model", {"weights.safetensors": save_weights({**WEIGHTS, "n": torch.arange(3)}, precision)}
        )
        folder = read_folder(tmp_path / "model")
        meta, real = folder.weights_on_meta(), folder.weights()
        assert meta.keys() == real.keys() and all(tensor.is_meta for tensor in meta.values())
        assert all((meta[k].shape, meta[k].dtype) == (real[k].shape, real[k].dtype) for k in real)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_fuzzed_manifests(count: int, tmp_path: Path) -> None:
    """Any manifest is either the one that was written or refused with one line."""
    write_folder(tmp_path / "model", FILES)
    path, chance = tmp_path / "model" / "manifest.json", random.Random(1)
    good = path.read_bytes()
    pieces = [b"[" * 2000, b"{", b"}", b'"', b"-1", b"9" * 5000, b"null", b"\xff", b"\x00", b"../x", b"1e999", b"NaN"]
    for _ in range(count):
        content = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(content))
            content[at : at + chance.randrange(12)] = chance.choice([*pieces, chance.randbytes(3)])
        path.write_bytes(content)
        with pytest.raises(UserError) as refused:
            read_folder(tmp_path / "model")
        assert "\n" not in str(refused.value) and str(refused.value).isprintable()


# ------------------------------------------------------------------------------------------------------------- tensors


def test_float32_and_bfloat16_round_as_torch_does() -> None:
    kept = load_weights(save_weights(WEIGHTS))
    assert all(torch.equal(kept[name], tensor) for name, tensor in WEIGHTS.items())
    rounded = load_weights(save_weights(WEIGHTS, "bfloat16"))
    for name, tensor in WEIGHTS.items():
        assert rounded[name].dtype == torch.float32
        assert torch.equal(rounded[name], tensor.bfloat16().float())


@given(st.integers(1, 5), st.integers(1, 9), st.integers(0, 2**31), st.floats(-12, 12))
def test_int8_is_within_half_a_step_of_every_row(rows: int, columns: int, seed: int, magnitude: float) -> None:
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * 10**magnitude
    weight[0] = 0.0
    found = load_weights(save_weights({"w": weight, "b": weight[:, 0]}, "int8"))
    step = weight.abs().amax(1, keepdim=True) / 127
    assert ((found["w"] - weight).abs() <= step * 0.5001).all()
    assert torch.equal(found["b"], weight[:, 0]), "one-dimensional tensors are not rounded"
    assert found.keys() == {"w", "b"}


def test_int8_is_a_quarter_of_the_size() -> None:
    weight = {"w": torch.randn(256, 256)}
    assert len(save_weights(weight, "int8")) < 0.27 * len(save_weights(weight))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_file_written_tensor_by_tensor_is_the_same(precision: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    shapes = {"b.weight": (5, 7), "b.bias": (5,), "a": (3, 3, 3), "empty": (0, 4), "one": ()}
    tensors = {name: torch.randn(shape) for name, shape in shapes.items()}
    tensors |= {
        "n": torch.arange(4),
        "flag": torch.tensor(True),
        "half": torch.randn(2, 2).half(),
        "turned": torch.randn(7, 5).t(),
    }
    expected = save_weights(tensors, precision)
    write_weights(tmp_path / "file", tensors, precision)
    assert (tmp_path / "file").read_bytes() == expected
    assert tensors == {}, "each is released once it is written"
    with pytest.raises(UserError, match="not finite"):
        write_weights(tmp_path / "file", {"nan": torch.full((2, 2), torch.nan)}, precision)


def test_the_precision_that_loses_nothing() -> None:
    torch.manual_seed(0)
    matrix, bias = torch.randn(8, 16), torch.randn(16)
    (whole,) = load_weights(save_weights({"w": matrix}, "int8")).values()
    assert lossless_precision({"w": matrix, "b": bias}) == "float32"
    assert lossless_precision({"w": whole, "b": bias}) == "int8"
    assert lossless_precision({"w": whole, "other": matrix}) == "float32"
    assert lossless_precision({"w": matrix.bfloat16().float(), "b": bias}) == "bfloat16"
    assert lossless_precision({"w": matrix.half().float()}) == lossless_precision({"w": matrix.half()}) == "float16"
    assert lossless_precision({"b": bias}) == "float32"


def test_tensors_of_every_type_come_back_and_the_library_agrees() -> None:
    types = [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool]
    tensors = {str(t): torch.arange(6).reshape(2, 3).to(t) for t in types} | {"empty": torch.zeros(0, 3)}
    stored = save_tensors(tensors)
    for found in (load_tensors(stored), library_load(stored)):
        assert found.keys() == tensors.keys()
        assert all(torch.equal(found[name], t) and found[name].dtype == t.dtype for name, t in tensors.items())


def test_tensors_that_share_memory_are_stored_each() -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    shared = {"a": whole, "b": whole, "c": whole[1:], "d": whole.T}
    found = load_tensors(save_tensors(shared))
    assert all(torch.equal(found[name], tensor) for name, tensor in shared.items())


def test_the_same_tensors_give_the_same_bytes() -> None:
    assert len({save_weights(dict(reversed(WEIGHTS.items())), "int8") for _ in range(5)} | {
        save_weights(WEIGHTS, "int8")
    }) == 1  # fmt: skip


def test_files_of_the_library_are_read() -> None:
    assert torch.equal(load_weights(library_save(WEIGHTS, {"format": "pt"}))["a.weight"], WEIGHTS["a.weight"])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_values_that_are_not_finite_are_neither_saved_nor_loaded(value: float, dtype: torch.dtype) -> None:
    bad = {"good": torch.ones(2), "bad": torch.tensor([1.0, value, 2.0], dtype=dtype)}
    for attempt in (save_tensors, save_weights, lambda t: load_weights(library_save(t))):
        with pytest.raises(UserError, match="'bad' holds values that are not finite"):
            attempt(bad)


def test_scales_are_checked() -> None:
    whole = {"w": torch.ones(2, 3, dtype=torch.int8), "w.scale": torch.ones(2)}
    notes = {"regard": json.dumps({"precision": "int8", "scaled": ["w"]})}
    assert torch.equal(load_weights(library_save(whole, notes))["w"], torch.ones(2, 3))
    for change in (
        {"w.scale": torch.ones(3)}, {"w.scale": torch.ones(2, 1)}, {"w.scale": torch.ones(2).double()},
        {"w": torch.ones(2, 3)}, {"w": torch.ones(2, dtype=torch.int8)},
    ):  # fmt: skip
        with pytest.raises(UserError):
            load_weights(library_save({**whole, **change}, notes))
    with pytest.raises(UserError, match="no usable scale"):
        load_weights(library_save({"w": whole["w"]}, notes))
    with pytest.raises(UserError, match="not finite"):
        load_weights(library_save({**whole, "w": whole["w"] * 100, "w.scale": torch.full((2,), 3e38)}, notes))
    for odd in ('{"scaled": 3}', '{"scaled": [3, null, {}]}', "[]", "{", '{"scaled": "ww"}'):
        try:
            load_weights(library_save(whole, {"regard": odd}))
        except UserError:
            continue


# ------------------------------------------------------------------------------------------------- S3: hostile headers


def packed(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(shape: list[Any], begin: Any, end: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


GOOD = {"a": entry([2], 0, 8), "b": entry([1], 8, 12)}
HOSTILE: dict[str, Any] = {
    "nothing": b"",
    "short": b"\x01\x02",
    "length 2^63": packed(GOOD, bytes(12), 2**63),
    "length -1": packed(GOOD, bytes(12), 2**64 - 1),
    "length 0": packed(b"", bytes(12), 0),
    "longer than the file": packed(GOOD, bytes(12), 10**6),
    "larger than 16 MB": lambda: packed(b" " * 17_000_000),
    "overlap": packed({"a": entry([2], 0, 8), "b": entry([1], 4, 8)}, bytes(8)),
    "the same twice": packed({"a": entry([2], 0, 8), "b": entry([2], 0, 8)}, bytes(8)),
    "gap": packed({"a": entry([2], 0, 8), "b": entry([1], 12, 16)}, bytes(16)),
    "not from the start": packed({"a": entry([2], 4, 12)}, bytes(12)),
    "beyond the end": packed(GOOD, bytes(8)),
    "bytes left over": packed(GOOD, bytes(16)),
    "backwards": packed({"a": entry([-2], 8, 0)}, bytes(8)),
    "negative offset": packed({"a": entry([2], -8, 0)}, bytes(8)),
    "duplicate names": packed(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],'
                              b'"data_offsets":[4,8]}}', bytes(8)),
    "duplicate keys": packed(b'{"a":{"dtype":"F32","dtype":"F64","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
    "product overflow": packed({"a": entry([2**32, 2**32], 0, 0)}),
    "product wraps to 8": packed({"a": entry([2**62 + 2], 0, 8)}, bytes(8)),
    "shape larger than data": packed({"a": entry([3], 0, 8)}, bytes(8)),
    "huge dimension": packed({"a": entry([2**70], 0, 0)}),
    "rank 1000": packed({"a": entry([1] * 1000, 0, 4)}, bytes(4)),
    "negative dimensions": packed({"a": entry([-1, -2], 0, 8)}, bytes(8)),
    "dimension is a float": packed({"a": entry([2.0], 0, 8)}, bytes(8)),
    "dimension is true": packed({"a": entry([True], 0, 4)}, bytes(4)),
    "offsets are text": packed({"a": entry([2], "0", "8")}, bytes(8)),
    "unknown dtype": packed({"a": entry([2], 0, 8, "PICKLE")}, bytes(8)),
    "dtype is a list": packed({"a": entry([2], 0, 8, ["F32"])}, bytes(8)),
    "extra field": packed({"a": {**entry([2], 0, 8), "code": "x"}}, bytes(8)),
    "entry is a list": packed({"a": [0, 8]}, bytes(8)),
    "header is a list": packed([GOOD], bytes(12)),
    "header is not JSON": packed(b"{" * 100),
    "header is not ASCII": packed(b'{"\xff":1}'),
    "deep": lambda: packed(b"[" * 100_000),
    "deep objects": lambda: packed(b'{"a":' * 90_000),
    "many lists": lambda: packed(b"[" + b"[]," * 5_000_000 + b"[]]"),
    "many objects": lambda: packed(b"[" + b"{}," * 5_000_000 + b"{}]"),
    "many numbers": lambda: packed(b"[" + b"1," * 7_000_000 + b"1]"),
    "a million tensors": lambda: packed(b'{' + b",".join(b'"%d":{}' % i for i in range(1_000_000)) + b"}"),
    "150,000 tensors": lambda: packed({str(i): entry([], 4 * i, 4 * i + 4) for i in range(150_000)}, bytes(600_000)),
    "metadata is a number": packed({"__metadata__": 3, **GOOD}, bytes(12)),
    "metadata holds a number": packed({"__metadata__": {"a": 3}, **GOOD}, bytes(12)),
    "a number of a million digits": lambda: packed(b'{"a":' + b"1" * 1_000_000 + b"}"),
    "NaN": packed(GOOD, struct.pack("<3f", 1.0, float("nan"), 2.0)),
}  # fmt: skip


def hostile(name: str) -> bytes:
    made = HOSTILE[name]
    return made() if callable(made) else made


def test_the_good_one_is_good() -> None:
    """What the hostile ones are variations of."""
    assert load_weights(packed(GOOD, struct.pack("<3f", 1, 2, 3)))["a"].tolist() == [1, 2]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_quickly(name: str, tmp_path: Path) -> None:
    content = hostile(name)
    (tmp_path / "weights.safetensors").write_bytes(content)
    for source in (content, tmp_path / "weights.safetensors"):
        began = time.process_time()
        with pytest.raises(UserError) as refusal:
            load_weights(source)
        assert time.process_time() - began < 1
        assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 400
    if name != "NaN":
        with pytest.raises(UserError):
            read_header(content)  # before the library, which knows some of these tricks, has seen it


def measure_hostile_memory() -> None:
    """In a process of its own, with its own peak memory."""
    contents = [hostile(name) for name in HOSTILE]
    load_weights(packed(GOOD, bytes(12)))
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for content in contents:
        try:
            load_weights(content)
        except UserError:
            continue
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held
    raise SystemExit(0 if grown < 100_000 else 1)


def test_hostile_files_take_little_memory() -> None:
    assert run_child(measure_hostile_memory) == 0


def measure_largest_header() -> None:
    """In a process of its own, where no test hook checks every call."""
    count = 100_000
    content = packed({str(i): entry([], 4 * i, 4 * i + 4) for i in range(count)}, bytes(4 * count))
    began = time.process_time()
    read_header(content)
    raise SystemExit(0 if time.process_time() - began < 1 else 1)


def test_the_largest_header_that_is_allowed_is_quick() -> None:
    assert run_child(measure_largest_header) == 0


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_fuzz(count: int) -> None:
    """Any mutation either loads as finite tensors or is refused with one line; nothing crashes, nothing hangs."""
    chance = random.Random(0)
    seeds = [save_weights(WEIGHTS), save_weights(WEIGHTS, "int8"), packed(GOOD, bytes(12))]
    loaded = refused = 0
    for _ in range(count):
        content = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 4)):
            at, kind = chance.randrange(len(content)), chance.randrange(5)
            if kind == 0:
                content[at] ^= 1 << chance.randrange(8)
            elif kind == 1:
                content[at] = chance.choice(b'0123456789{}[],":-eE\\\x00\xff')
            elif kind == 2:
                del content[at : at + chance.randint(1, 9)]
            elif kind == 3:
                content[at:at] = chance.randbytes(chance.randint(1, 9))
            else:
                other = chance.randrange(len(content))
                content[at : at + 8] = content[other : other + 8]
            content = content or bytearray(b"\0")
        try:
            tensors = load_weights(bytes(content))
        except UserError:
            refused += 1
        else:
            loaded += 1
            assert all(t.isfinite().all() for t in tensors.values() if t.is_floating_point())
    assert refused > loaded > 0


# ------------------------------------------------------------------------------------------------------- S1: no pickle

FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "joblib", "cloudpickle", "shelve", "marshal", "yaml"}
FORBIDDEN_CALLS = re.compile(r"\b(torch\.load|torch\.save|torch\.jit\.load|eval|exec|yaml\.load|__import__)$")


def offences(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FORBIDDEN_MODULES:
            found.append(node.module or "")
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if FORBIDDEN_CALLS.search(name) and not name.endswith((".eval", ".exec")):
                found.append(name)
            found += [k.arg for k in node.keywords if k.arg == "allow_pickle" and ast.unparse(k.value) != "False"]
    return found


def test_the_check_finds_what_it_looks_for() -> None:
    for bad in ("import pickle", "from dill import load", "torch.load(x)", "eval(x)", "np.load(x, allow_pickle=True)"):
        assert offences(bad), bad
    assert not offences("model.eval()\nnp.load(x, allow_pickle=False)")


def test_no_pickle_anywhere() -> None:
    root = Path(regard.__file__).parent
    sources = list(root.rglob("*.py"))
    assert len(sources) > 10
    found = {str(path.relative_to(root)): bad for path in sources if (bad := offences(path.read_text("utf-8")))}
    importing = "interchange/read/pytorch_bin.py"
    assert found == {
        "child_process.py": ["exec"],  # it does what `python -c` does, with code that its parent wrote
        importing: ["torch.load"],  # at import only, in a process of its own
    }
    loads = [n for n in ast.walk(ast.parse((root / importing).read_text("utf-8"))) if isinstance(n, ast.Call)]
    (load,) = (call for call in loads if ast.unparse(call.func) == "torch.load")
    assert ("weights_only", "True") in {(keyword.arg, ast.unparse(keyword.value)) for keyword in load.keywords}


class Canary:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def test_a_pickle_under_any_name_is_never_run(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    poison = pickle.dumps(Canary(canary))
    pickle.loads(poison)
    assert canary.exists(), "the canary sings when a pickle is loaded"
    canary.unlink()
    names = ["weights.safetensors", "optimizer.safetensors", "training.json", "tokenizer.model", "recipe.toml"]
    write_folder(tmp_path / "hashed", dict.fromkeys(names, poison))
    folder: Folder = read_folder(tmp_path / "hashed")
    for attempt in (folder.weights, lambda: load_tensors(folder.path / names[1]), lambda: load_weights(poison)):
        with pytest.raises(UserError):
            attempt()
    (tmp_path / "hashed" / "manifest.json").write_bytes(poison)
    with pytest.raises(UserError):
        read_folder(tmp_path / "hashed")
    assert not canary.exists()
