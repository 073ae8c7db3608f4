"""A pytorch_model.bin as safetensors, made in a process of its own that has limits on memory and time.

torch.load runs with weights_only=True: nothing in the file is executed. What is read back are tensors by name in
safetensors files, which are checked like any others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from regard.child_process import child_environment, python_command
from regard.errors import UserError
from regard.regular_files import open_regular

SECONDS = 1800
_ROOM = 12 << 30
"""Bytes of address space beside the tensors': importing torch reserves several gigabytes."""
_MOST = 1 << 38


def convert(files: Sequence[Path], folder: Path) -> tuple[list[Path], dict[str, str]]:
    """The safetensors files made of some .bin files, in a folder, and names of tensors that are another one's."""
    made, aliases = [], {}
    for number, file in enumerate(files):
        output = folder / f"part-{number}.safetensors"
        for alias, name in _converted(file, output).items():
            aliases[alias] = name
        made.append(output)
    return made, aliases


def _converted(file: Path, output: Path) -> dict[str, str]:
    try:
        with open_regular(file) as opened:
            size = os.fstat(opened.fileno()).st_size
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror or error})") from None
    if size > _MOST:
        raise UserError(f"{file}: larger than {_MOST >> 30} GiB; this is no weight file")
    command = python_command("-m", "regard.interchange.read.pytorch_bin", str(file), str(output), str(size))
    try:
        child = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            env=child_environment(OMP_NUM_THREADS="1"),
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{file}: took more than {SECONDS // 60} minutes to read; take a safetensors file") from None
    why = child.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"it ended with {child.returncode}"]
    if child.returncode == 2:
        raise UserError(f"{file}: {why[0][:200]}; take a safetensors file")
    if child.returncode:
        raise UserError(f"{file}: not a usable weight file ({why[0][:120]}); take another copy, or a safetensors file")
    try:
        aliases = json.loads(child.stdout)
    except ValueError:
        raise UserError(f"{file}: not a usable weight file; take another copy") from None
    return {str(alias): str(name) for alias, name in aliases.items()}


def _limit(size: int) -> None:
    """Less memory and time than a file of this size could need twice over."""
    if sys.platform == "win32":
        return
    import resource

    for kind, most in (
        (resource.RLIMIT_AS, _ROOM + 4 * size),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_FSIZE, 2 * size + (1 << 24)),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _read(file: str, output: str) -> dict[str, str]:
    """Reads the tensors and writes each once; returns the names of those that are the same memory as another."""
    import torch
    from safetensors.torch import save_file

    loaded = torch.load(file, weights_only=True, map_location="cpu")
    if isinstance(loaded, dict) and isinstance(loaded.get("state_dict"), dict):
        loaded = loaded["state_dict"]
    if not isinstance(loaded, dict):
        raise ValueError("it holds no tensors by name")
    first: dict[tuple[object, ...], str] = {}
    kept, aliases = {}, {}
    for name, tensor in loaded.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise ValueError(f"{str(name)[:80]} is no tensor")
        if tensor.layout != torch.strided or tensor.device.type != "cpu":
            raise ValueError(f"{name[:80]} is no ordinary tensor")
        stored = tensor.untyped_storage().nbytes()
        # Strides of 0 make a huge tensor of a small file.
        if tensor.numel() * tensor.element_size() > max(stored, tensor.element_size()):
            raise ValueError(f"{name[:80]} is larger than what is stored of it")
        place = (
            tensor.untyped_storage().data_ptr(),
            tensor.storage_offset(),
            tuple(tensor.shape),
            tuple(tensor.stride()),
            tensor.dtype,
        )
        if tensor.numel() and place in first:
            aliases[name] = first[place]
            continue
        first[place] = name
        kept[name] = tensor.detach().clone(memory_format=torch.contiguous_format)
    save_file(kept, output)
    return aliases


def main(file: str, output: str, size: str) -> int:
    """The child process."""
    _limit(int(size))
    try:
        aliases = _read(file, output)
    except MemoryError:
        print("it needs far more memory than its size", file=sys.stderr)
        return 2
    except Exception as error:  # whatever the unpickler makes of a hostile file
        line = " ".join(str(error).split())
        print(
            "it holds more than tensors, and nothing else is read"
            if "weights_only" in line
            else line[:120] or "damaged",
            file=sys.stderr,
        )
        return 2
    json.dump(aliases, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
