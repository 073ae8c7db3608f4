"""S22: damaged and hostile folders and packages: each is refused in one line, leaves nothing behind and takes little memory."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import shutil
import struct
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interchange import tiny_marian
from safetensors.numpy import load, save

from regard.errors import UserError
from regard.imported_models import imported_models
from regard.interchange.sources import import_model

Damage = Callable[[Path], Any]
CASES: dict[str, tuple[str, Damage]] = {}
"""By name: which good source is damaged, and how."""
SECONDS = 10.0
MEGABYTES = 200


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory, foreign: Path) -> dict[str, Path]:
    """Sources that can be imported: a Hugging Face folder, a CTranslate2 folder and an Argos package."""
    place = tmp_path_factory.mktemp("good")
    marian = tiny_marian.write(place / "marian")
    package = place / "translate-de_en-1_0.argosmodel"
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in argos(foreign).items():
            archive.writestr(name, content)
    return {"marian": marian, "ctranslate2": foreign, "argos": package}


def argos(foreign: Path) -> dict[str, bytes]:
    root = "translate-de_en-1_0/"
    metadata = {"package_version": "1.0", "from_code": "de", "to_code": "en", "type": "translate"}
    found = {f"{root}metadata.json": json.dumps(metadata).encode()}
    found |= {
        f"{root}model/{name}": (foreign / name).read_bytes()
        for name in ("model.bin", "config.json", "shared_vocabulary.json")
    }
    return found | {f"{root}sentencepiece.model": (foreign / "tokenizer.model").read_bytes()}


def case(kind: str, name: str) -> Callable[[Damage], Damage]:
    def add(damage: Damage) -> Damage:
        assert f"{kind}: {name}" not in CASES
        CASES[f"{kind}: {name}"] = (kind, damage)
        return damage

    return add


def add(kind: str, name: str, damage: Damage) -> None:
    case(kind, name)(damage)


# ------------------------------------------------------------------------------------------------- whole files

FILES = {
    "marian": ("config.json", "vocab.json", "source.spm", "target.spm", "model.safetensors"),
    "ctranslate2": ("config.json", "shared_vocabulary.json", "model.bin", "tokenizer.model"),
}


def replaced(name: str, content: bytes) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return damage


def truncated(name: str, share: float) -> Damage:
    def damage(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(share * len(content))])

    return damage


def pipe(name: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return damage


def link(name: str, to: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(to)

    return damage


def sparse(name: str) -> Damage:
    def damage(folder: Path) -> None:
        with (folder / name).open("r+b") as file:
            file.truncate(1 << 42)

    return damage


for kind, names in FILES.items():
    for name in names:
        if (kind, name) not in {("ctranslate2", "config.json"), ("ctranslate2", "tokenizer.model")}:
            add(kind, f"no {name}", lambda folder, name=name: (folder / name).unlink())
        add(kind, f"{name} is empty", replaced(name, b""))
        add(kind, f"half of {name}", truncated(name, 0.5))
        add(kind, f"{name} is garbage", replaced(name, bytes(range(256)) * 20))
        if sys.platform != "win32":
            add(kind, f"{name} is a pipe", pipe(name))
            add(kind, f"{name} is a link elsewhere", link(name, "/etc/passwd"))
for name in ("config.json", "vocab.json", "source.spm"):
    add("marian", f"{name} of terabytes", sparse(name))
add("marian", "model.safetensors of terabytes", sparse("model.safetensors"))
add("ctranslate2", "model.bin of terabytes", sparse("model.bin"))
add("marian", "config.json is a link to a device", link("config.json", "/dev/zero"))
for name in ("config.json", "vocab.json", "tokenizer_config.json"):
    add("marian", f"deep {name}", replaced(name, b"[" * 200_000 + b"]" * 200_000))
    add("marian", f"{name} is a list", replaced(name, b"[1, 2]"))
    add("marian", f"{name} is not UTF-8", replaced(name, b'{"a": "\xff\xfe"}'))
add(
    "marian",
    "a number of a million digits",
    replaced("config.json", b'{"model_type": "marian", "d_model": ' + b"9" * 10**6 + b"}"),
)

# ---------------------------------------------------------------------------------------------------- config.json


def configured(**changes: Any) -> Damage:
    return lambda folder: (folder / "config.json").write_text(json.dumps(tiny_marian.config(**changes)))


for changes in (
    {"model_type": "gpt17"}, {"model_type": 7}, {"model_type": "../../x"}, {"architectures": ["EvilForCausalLM"]},
    {"encoder_layers": 10**9}, {"decoder_layers": 10**9}, {"encoder_layers": 0}, {"encoder_layers": 2.5}, {"encoder_layers": "2"},
    {"encoder_layers": 3}, {"decoder_layers": 1}, {"d_model": -1}, {"d_model": 10**12}, {"d_model": 17}, {"d_model": float("nan")},
    {"d_model": [16]}, {"d_model": True}, {"encoder_attention_heads": 3}, {"encoder_attention_heads": 0}, {"encoder_ffn_dim": 10**9},
    {"vocab_size": 10**9}, {"vocab_size": 5}, {"pad_token_id": -1}, {"decoder_start_token_id": 10**6}, {"eos_token_id": "0"},
    {"activation_function": "__import__('os')"}, {"activation_function": None, "hidden_act": 3, "d_model": None},
    {"max_position_embeddings": -5}, {"num_beams": 10**9}, {"max_length": "long"}, {"length_penalty": float("inf")},
    {"scale_embedding": "yes"}, {"dropout": 2}, {"is_encoder_decoder": False}, {"quantization_config": {"bits": 4}},
):  # fmt: skip
    add("marian", "config " + ", ".join(f"{k} = {v}" for k, v in changes.items()), configured(**changes))

# -------------------------------------------------------------------------------------------------------- tensors

ONE = "model.encoder.layers.0.fc1.weight"


def tensors(change: Callable[[dict[str, np.ndarray]], Any]) -> Damage:
    def damage(folder: Path) -> None:
        found = load((folder / "model.safetensors").read_bytes())
        change(found)
        (folder / "model.safetensors").write_bytes(save(found))

    return damage


def shuffled(found: dict[str, np.ndarray]) -> None:
    names, values = list(found), list(found.values())
    found.clear()
    found.update(zip(names, values[1:] + values[:1], strict=True))


add("marian", "shuffled tensors", tensors(shuffled))
add("marian", "a tensor is missing", tensors(lambda found: found.pop(ONE)))
add("marian", "the embedding is missing", tensors(lambda found: found.pop("model.shared.weight")))
add("marian", "a tensor too many", tensors(lambda found: found.update({"model.evil.weight": found[ONE]})))
add("marian", "a tensor under a path", tensors(lambda found: found.update({"../../../x": found.pop(ONE)})))
add("marian", "a name of a megabyte", tensors(lambda found: found.update({"x" * 10**6: found[ONE]})))
add("marian", "a turned tensor", tensors(lambda found: found.update({ONE: np.ascontiguousarray(found[ONE].T)})))
add("marian", "a tensor of numbers that are not", tensors(lambda found: found[ONE].fill(np.nan)))
add("marian", "integers for weights", tensors(lambda found: found.update({ONE: found[ONE].astype(np.int64)})))
add(
    "marian",
    "one row less",
    tensors(lambda found: found.update({"model.shared.weight": found["model.shared.weight"][:-1]})),
)
add("marian", "a tensor without values", tensors(lambda found: found.update({ONE: np.zeros((0, 16), np.float32)})))
add("marian", "a vector for a matrix", tensors(lambda found: found.update({ONE: found[ONE].reshape(-1)})))
add(
    "marian",
    "a bias of another size",
    tensors(lambda found: found.update({"final_logits_bias": np.zeros((1, 7), np.float32)})),
)
add(
    "marian",
    "other positions",
    tensors(lambda found: found.update({"model.encoder.embed_positions.weight": np.ones((128, 16), np.float32)})),
)


def header(change: Callable[[dict[str, Any]], Any]) -> Damage:
    def damage(folder: Path) -> None:
        file = folder / "model.safetensors"
        content = file.read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        found = json.loads(content[8 : 8 + size])
        change(found)
        text = json.dumps(found).encode()
        file.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size :])

    return damage


add("marian", "a header of exabytes", replaced("model.safetensors", struct.pack("<Q", 1 << 62) + b"{}"))
add("marian", "a shape of exabytes", header(lambda found: found[ONE].update(shape=[1 << 40, 1 << 20])))
add("marian", "a negative shape", header(lambda found: found[ONE].update(shape=[-24, -16])))
add("marian", "overlapping tensors", header(lambda found: found[ONE].update(data_offsets=[0, 1536])))
add(
    "marian",
    "offsets beyond the file",
    header(lambda found: found[ONE].update(data_offsets=[1 << 50, (1 << 50) + 1536])),
)
add("marian", "an unknown dtype", header(lambda found: found[ONE].update(dtype="OBJECT")))

# --------------------------------------------------------------------------------- vocabulary, pickles, shards


def vocabulary(change: Callable[[dict[str, Any]], Any]) -> Damage:
    def damage(folder: Path) -> None:
        found = dict(tiny_marian.vocabulary())
        change(found)
        (folder / "vocab.json").write_text(json.dumps(found))

    return damage


add("marian", "two tokens with one id", vocabulary(lambda found: found.update({"twice": 5})))
add("marian", "an id out of range", vocabulary(lambda found: found.update({"far": 10**9})))
add("marian", "a negative id", vocabulary(lambda found: found.update({"below": -1})))
add("marian", "an id that is text", vocabulary(lambda found: found.update({"text": "7"})))
add("marian", "no unknown token", vocabulary(lambda found: found.pop("<unk>")))


class Executed:
    """A pickle of it leaves a file behind wherever it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.mark), "w"))


def only_bin(make: Callable[[Path], bytes]) -> Damage:
    def damage(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / "pytorch_model.bin").write_bytes(make(folder))

    return damage


def pickled(folder: Path) -> bytes:
    return pickle.dumps({"model.shared.weight": Executed(folder / "executed")})


def zipped(folder: Path) -> bytes:
    """The same in the container that torch writes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", pickled(folder))
        archive.writestr("archive/version", b"3\n")
    return out.getvalue()


add("marian", "a pickle that runs code", only_bin(pickled))
add("marian", "a pickle that runs code, in a zip", only_bin(zipped))
add("marian", "a .bin of garbage", only_bin(lambda folder: bytes(range(256)) * 100))


def index(*names: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
        table = {name: names[number % len(names)] for number, name in enumerate(tiny_marian.tensors())}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": table}))

    return damage


add("marian", "an index that names /etc/passwd", index("../../../../../../etc/passwd"))
add("marian", "an index that names ../x.safetensors", index("../x.safetensors"))
add("marian", "an index that names a missing file", index("model-00002-of-00002.safetensors"))
add("marian", "an index of thousands of files", index(*(f"model-{number:05}.safetensors" for number in range(1, 2000))))

# -------------------------------------------------------------------------------------------- CTranslate2, Argos

BIN = "model.bin"


def patched(position: int, content: bytes) -> Damage:
    def damage(folder: Path) -> None:
        found = bytearray((folder / BIN).read_bytes())
        found[position : position + len(content)] = content
        (folder / BIN).write_bytes(bytes(found))

    return damage


add("ctranslate2", "a version of the future", patched(0, struct.pack("<I", 999)))
add("ctranslate2", "a name of 64 KiB", patched(4, b"\xff\xff"))
add(
    "ctranslate2",
    "a file and a byte",
    lambda folder: (folder / BIN).write_bytes((folder / BIN).read_bytes() + b"\0" * 64),
)
add("ctranslate2", "a vocabulary of numbers", replaced("shared_vocabulary.json", json.dumps(list(range(300))).encode()))
add(
    "ctranslate2",
    "a vocabulary that is too short",
    replaced("shared_vocabulary.json", b'["<pad>", "<unk>", "<s>", "</s>", "a"]'),
)
add(
    "ctranslate2", "a vocabulary of one token", replaced("shared_vocabulary.json", json.dumps(["<unk>"] * 300).encode())
)


def repacked(change: Callable[[dict[str, bytes]], Any]) -> Damage:
    def damage(package: Path) -> None:
        with zipfile.ZipFile(package) as archive:
            found = {name: archive.read(name) for name in archive.namelist()}
        change(found)
        with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in found.items():
                archive.writestr(name, content)

    return damage


ROOT = "translate-de_en-1_0/"


def metadata(**changes: Any) -> Damage:
    def change(found: dict[str, bytes]) -> None:
        found[f"{ROOT}metadata.json"] = json.dumps(json.loads(found[f"{ROOT}metadata.json"]) | changes).encode()

    return repacked(change)


def cut(package: Path) -> None:
    package.write_bytes(package.read_bytes()[:-2000])


add("argos", "half a zip", cut)
add("argos", "not a zip", lambda package: package.write_bytes(b"PK\x03\x04" + b"\0" * 1000))
add("argos", "a bomb in model.bin", repacked(lambda found: found.update({f"{ROOT}model/model.bin": bytes(60_000_000)})))
add(
    "argos",
    "a bomb in metadata.json",
    repacked(lambda found: found.update({f"{ROOT}metadata.json": b" " * 60_000_000})),
)
add("argos", "no metadata.json", repacked(lambda found: found.pop(f"{ROOT}metadata.json")))
add("argos", "no model.bin", repacked(lambda found: found.pop(f"{ROOT}model/model.bin")))
add("argos", "no sentencepiece.model", repacked(lambda found: found.pop(f"{ROOT}sentencepiece.model")))
add("argos", "deep metadata.json", repacked(lambda found: found.update({f"{ROOT}metadata.json": b"[" * 10**5})))
add("argos", "languages that are none", metadata(from_code="../../etc"))
add("argos", "a package of another type", metadata(type="sbd"))
add("argos", "a target prefix that is no token", metadata(target_prefix="<evil>"))
add(
    "argos",
    "a name that leaves the folder",
    repacked(
        lambda found: found.update(
            {f"{ROOT}../../{name}": content for name, content in list(found.items())[1:]}
            | dict.fromkeys(list(found)[1:2], b"")
        )
    ),
)


# ----------------------------------------------------------------------------------------------------------- tests


def memory() -> int:
    """The largest resident memory of this process since `reset_memory`, in bytes; 0 where that is not known."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else 0


def reset_memory() -> int:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("the peak of memory cannot be measured here")
    return memory()


def attempt(source: Path) -> str:
    with pytest.raises(UserError) as refused:
        import_model(source)
    return str(refused.value)


def test_there_are_a_hundred() -> None:
    assert len(CASES) >= 100


@pytest.mark.parametrize("kind", ["marian", "ctranslate2", "argos"])
def test_the_good_ones_are_good(kind: str, good: dict[str, Path]) -> None:
    folder = import_model(good[kind])
    assert list(imported_models().values()) == [folder]


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused(
    name: str, good: dict[str, Path], tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, damage = CASES[name]
    source = tmp_path / good[kind].name
    shutil.copytree(good[kind], source) if good[kind].is_dir() else shutil.copy(good[kind], source)
    damage(source)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    before, begun = (reset_memory() if sys.platform == "linux" else 0), time.monotonic()
    message = attempt(source)
    assert time.monotonic() - begun < SECONDS
    assert memory() - before < MEGABYTES * 10**6
    assert len(message.splitlines()) == 1 and len(message) < 500 and message.isprintable(), message
    assert "cannot be imported (" not in message, f"a reason that a person understands: {message}"
    assert str(source) in message and "regard-" not in message and ".files." not in message, message
    assert list(temporary.iterdir()) == []
    imported = own_cache / "imported"
    assert not imported.exists() or [path.name for path in imported.iterdir()] in ([], [".locks"])
    assert not (source / "executed").exists()
