"""Sound: a window of fixed length to Whisper's log-mel spectrogram to vectors (Radford et al. 2022, 2.2).

What is shorter than the window is filled up with silence, which belongs to the input: every position of the window is
real, as in training. What is longer is cut; the task moves the window over long recordings.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import UserError
from regard.layers.add_position import AddPosition
from regard.layers.augment import SOUNDS, Augment
from regard.stem._base import Stem

__all__ = ["LogMel", "slaney_filters"]

WINDOW, HOP = 0.025, 0.010
"""Seconds of a frame of the spectrogram, and between two frames."""
RANGE = 8.0
"""The dynamic range below the loudest moment, in powers of ten: 80 dB."""
_KNEE, _LINEAR = 1000.0, 15.0
"""Slaney's scale is linear up to 1000 Hz, which is 15 mels, and logarithmic above: 27 mels for a factor of 6.4."""
_STEP = math.log(6.4) / 27


class LogMel(Stem):
    """Log-mel frames of a fixed window, two convolutions over time (the second with stride 2), plus position."""

    reads: ClassVar[str] = "sound"
    cuda_graphable: ClassVar[bool] = False
    per_vector: ClassVar[int] = 2
    """Frames of the spectrogram that make one vector."""

    def __init__(
        self,
        rate: int,
        width: int = 384,
        mels: int = 80,
        seconds: float = 30.0,
        position: str | dict[str, object] = "sinusoidal_halves",
        dropout: float = 0.0,
        augment: str = "",
    ):
        """`seconds` is the length of the window. `augment` is "" or "mask"."""
        super().__init__()
        self.augment = Augment(augment, SOUNDS)
        self.width, self.rate, self.mels = width, rate, mels
        self.points, self.hop = round(WINDOW * rate), round(HOP * rate)
        self.length = round(seconds / (self.per_vector * HOP))
        """Vectors of a window."""
        self.longest: int = self.length * self.per_vector * self.hop
        if self.longest <= self.points:
            raise UserError(f"model.stem.seconds: {seconds:g} is too short; use more than {2 * WINDOW:g}")
        if mels > 256 or not slaney_filters(rate, self.points, mels, torch.device("cpu")).sum(0).all():
            raise UserError(f"model.stem.mels: {mels} are too many for sound of {rate:,} samples a second; use fewer")
        self.convolutions = nn.ModuleList(
            nn.Conv1d(inputs, width, 3, stride, padding=1) for inputs, stride in ((mels, 1), (width, self.per_vector))
        )
        self.placing = AddPosition(width, self.length, position, dropout)

    def forward(
        self, source: Float[Tensor, "B N"], mask: Bool[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B S"]]:
        with torch.autocast(source.device.type, enabled=False):
            spectrogram, _ = self.spectrogram(source, mask)
            loudest = spectrogram.amax((1, 2), keepdim=True)
            x = (torch.maximum(spectrogram, loudest - RANGE) + 4) / 4
        x = self.augment(x).transpose(1, 2).to(self.convolutions[0].weight.dtype)  # perhaps bfloat16, for use on a GPU
        for convolution in self.convolutions:
            x = F.gelu(convolution(x))
        vectors = self.placing(x.transpose(1, 2))
        return vectors, torch.ones(vectors.shape[:2], dtype=torch.bool, device=vectors.device)

    def spectrogram(
        self, source: Float[Tensor, "B N"], mask: Bool[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B T M"], Bool[Tensor, "B T"]]:
        """log10 of the power in every mel band of the whole window, and which frames begin within the recording. The
        middle of frame t is sample t * hop; the window is mirrored at its ends."""
        samples = source.float().masked_fill(~mask, 0.0)[:, : self.longest]
        samples = F.pad(samples, (0, self.longest - samples.shape[1]))
        hann = torch.hann_window(self.points, device=source.device)
        waves = torch.stft(samples, self.points, self.hop, self.points, hann, pad_mode="reflect", return_complex=True)
        power = (waves.real**2 + waves.imag**2)[..., :-1]  # as theirs, without the frame around the end
        mel = power.transpose(1, 2) @ slaney_filters(self.rate, self.points, self.mels, source.device)
        starts = torch.arange(mel.shape[1], device=source.device) * self.hop
        return mel.clamp(min=1e-10).log10(), starts < mask.sum(1, keepdim=True)


def slaney_filters(rate: int, points: int, mels: int, device: torch.device) -> Float[Tensor, "K M"]:
    """Triangular filters of area 1 with corners equally spaced on Slaney's mel scale, from 0 to half the rate
    (Slaney 1998, "Auditory Toolbox")."""
    top = rate / 2
    highest = _LINEAR + math.log(top / _KNEE) / _STEP if top >= _KNEE else top * _LINEAR / _KNEE
    steps = torch.linspace(0, highest, mels + 2, dtype=torch.float64, device=device)
    corners = torch.where(steps < _LINEAR, steps * (_KNEE / _LINEAR), _KNEE * (_STEP * (steps - _LINEAR)).exp())
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    frequencies = torch.linspace(0, top, points // 2 + 1, dtype=torch.float64, device=device)[:, None]
    rising, falling = (frequencies - left) / (middle - left), (right - frequencies) / (right - middle)
    return (torch.minimum(rising, falling).clamp(min=0) * (2 / (right - left))).float()
