"""Builds the small pictures, recordings and archives of formats' samples in memory."""

from __future__ import annotations

import io
import tarfile
import wave
import zipfile
from collections.abc import Mapping

import numpy as np


def png(pixels: np.ndarray) -> bytes:
    """Pixels (H, W, 3) as a PNG file."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def wav(samples: np.ndarray, rate: int) -> bytes:
    """Samples between -1 and 1 as a WAV file of 16 bits."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes((samples * 32768).astype("<i2").tobytes())
    return file.getvalue()


def zipped(files: Mapping[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        for name, content in files.items():
            out.writestr(name, content)
    return archive.getvalue()


def tarred(files: Mapping[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as out:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
    return archive.getvalue()
