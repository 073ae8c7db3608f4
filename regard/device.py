"""Device selection, precision of training, and out-of-memory errors."""

from __future__ import annotations

import torch

from regard.errors import UserError


def pick_device(name: str = "auto") -> torch.device:
    """`auto` takes a CUDA GPU, then Apple's MPS, then the CPU; any other name must exist on this machine."""
    device = _found(name)
    # cuDNN attention builds a plan for every shape, which costs more than it saves: lengths differ between batches.
    torch.backends.cuda.enable_cudnn_sdp(False)
    # Flash attention targets long sequences; for sentences the memory-efficient kernel is faster on a GPU.
    torch.backends.cuda.enable_flash_sdp(device.type != "cuda")
    return device


def _found(name: str) -> torch.device:
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"device '{name}' is not known; use auto, cpu, cuda, cuda:1 or mps") from None
    missing = (device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()) or (
        device.type == "mps" and not torch.backends.mps.is_available()
    )
    if missing or device.type not in ("cpu", "cuda", "mps"):
        raise UserError(f"device '{name}' is not on this machine; use auto or cpu")
    return device


def mixed_precision(name: str, device: torch.device) -> torch.dtype | None:
    """The autocast type for training: bf16 where the GPU has it, else None (plain float32)."""
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" and torch.cuda.is_bf16_supported() else None
    if name not in ("float32", "bfloat16"):
        raise UserError(f"training.precision: '{name}' is not known; use auto, float32 or bfloat16")
    return torch.bfloat16 if name == "bfloat16" else None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this is an out-of-memory error, of any device; torch has no single exception for it."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(
        words in str(error) for words in ("out of memory", "not enough memory", "allocate memory", "bad_alloc")
    )
