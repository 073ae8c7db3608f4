"""Sound: samples to a log-mel spectrogram to vectors.

A frame depends on its own samples alone, and normalisation is over the real frames of one recording: nothing depends on
the other recordings of the batch.
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

__all__ = ["Frames", "mel_filters", "normalised"]

RANGE = 8.0
"""The dynamic range below the loudest moment, in powers of ten: 80 dB."""


class Frames(Stem):
    """Log-mel frames, convolutions over time with stride 2, plus position."""

    reads: ClassVar[str] = "sound"

    def __init__(
        self,
        rate: int,
        width: int = 256,
        mels: int = 40,
        window: float = 0.025,
        hop: float = 0.010,
        subsample: int = 4,
        position: str | dict[str, object] = "sinusoidal",
        dropout: float = 0.1,
        augment: str = "",
    ):
        """`window` and `hop` are seconds; `subsample` frames make one vector. `augment` is "" or "mask"."""
        super().__init__()
        if subsample not in (1, 2, 4, 8, 16):
            raise UserError(f"model.stem.subsample: {subsample} is not supported; use 1, 2, 4, 8 or 16")
        self.augment = Augment(augment, SOUNDS)
        self.width, self.rate, self.mels = width, rate, mels
        self.window, self.hop = round(window * rate), round(hop * rate)
        if not 0 < hop <= window <= 1 or not self.hop:
            raise UserError(f"model.stem: a window of {window} s every {hop} s; they must overlap and last 1 s at most")
        self.bins = 1 << (self.window - 1).bit_length()
        """Points of the Fourier transform: the window, zero-padded to a power of two."""
        if mels > 256 or not mel_filters(rate, self.bins, mels, torch.device("cpu")).sum(0).all():
            raise UserError(f"model.stem.mels: {mels} are too many for a window of {window} s; use fewer")
        halvings = subsample.bit_length() - 1
        strides = [2] * halvings or [1]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(width if layer else mels, width, 3, stride, padding=1) for layer, stride in enumerate(strides)
        )
        self.placing = AddPosition(width, 0, position, dropout)

    def forward(
        self, source: Float[Tensor, "B N"], mask: Bool[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B S"]]:
        with torch.autocast(source.device.type, enabled=False):
            spectrogram, mask = self.spectrogram(source, mask)
            x = normalised(spectrogram, mask)
        x = self.augment(x).transpose(1, 2).to(self.convolutions[0].weight.dtype)  # perhaps bfloat16, for use on a GPU
        for convolution in self.convolutions:
            # Padding is zeroed, as if the recording were alone in its batch.
            x = F.gelu(convolution(x.masked_fill(~mask[:, None], 0.0)))
            mask = mask[:, :: convolution.stride[0]]  # type: ignore[index, union-attr]
        return self.placing(x.transpose(1, 2)), mask

    def spectrogram(
        self, source: Float[Tensor, "B N"], mask: Bool[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B T M"], Bool[Tensor, "B T"]]:
        """log10 of the power in every mel band. Frame t begins at sample t * hop; the last holds the last sample."""
        # Enough frames to hold all samples, at least one.
        frames = 1 + ((mask.sum(1) - self.window + self.hop - 1) // self.hop).clamp(min=0)
        count = 1 + max(0, (mask.shape[1] - self.window + self.hop - 1) // self.hop)
        before = (self.bins - self.window) // 2  # where torch.stft puts the window
        after = (count - 1) * self.hop + self.bins - before - source.shape[1]
        samples = F.pad(source.float().masked_fill(~mask, 0.0), (before, after))
        hann = torch.hann_window(self.window, device=source.device)
        waves = torch.stft(samples, self.bins, self.hop, self.window, hann, center=False, return_complex=True)
        power = waves.real**2 + waves.imag**2
        mel = power.transpose(1, 2) @ mel_filters(self.rate, self.bins, self.mels, source.device)
        return mel.clamp(min=1e-10).log10(), torch.arange(count, device=source.device) < frames[:, None]


def mel_filters(rate: int, bins: int, mels: int, device: torch.device) -> Float[Tensor, "K M"]:
    """Triangular filters with corners equally spaced in mels, m = 2595 log10(1 + f / 700), from 0 to half the rate.

    Computed, not stored: a loaded model gets its tensors from the weight file, and these are not weights.
    """
    top = 2595 * math.log10(1 + rate / 2 / 700)
    corners = 700 * (10 ** (torch.linspace(0, top, mels + 2, device=device) / 2595) - 1)
    left, middle, right = corners[:-2], corners[1:-1], corners[2:]
    frequencies = torch.arange(bins // 2 + 1, device=device)[:, None] * (rate / bins)
    rising, falling = (frequencies - left) / (middle - left), (right - frequencies) / (right - middle)
    return torch.minimum(rising, falling).clamp(min=0)


def normalised(x: Float[Tensor, "B T M"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T M"]:
    """Mean 0 and standard deviation 1 over each recording, so that loudness does not matter; 0 at padding."""
    real = mask[..., None]
    x = torch.maximum(x, x.masked_fill(~real, -math.inf).amax((1, 2), keepdim=True) - RANGE)
    count = real.sum(1, keepdim=True) * x.shape[2]
    mean = x.masked_fill(~real, 0.0).sum((1, 2), keepdim=True) / count
    x = (x - mean).masked_fill(~real, 0.0)
    spread = (x.square().sum((1, 2), keepdim=True) / count).sqrt()
    return x / (spread + 1e-3)
