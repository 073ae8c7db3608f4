"""Whisper's stem beyond its laws; that its spectrogram is theirs, tests/interchange/test_whisper.py says."""

import math

import pytest
import torch

from regard.errors import UserError
from regard.stem.frames import Frames
from regard.stem.log_mel import LogMel, slaney_filters


def mels(hertz: float) -> float:
    """Slaney's scale by its definition: linear below 1000 Hz, then 27 mels for each factor of 6.4."""
    return 3 * hertz / 200 if hertz < 1000 else 15 + 27 * math.log(hertz / 1000, 6.4)


@pytest.mark.parametrize("rate,points,count", [(16_000, 400, 80), (8_000, 200, 40), (1_600, 400, 20)])
def test_filters_have_their_corners_at_equal_mels(rate: int, points: int, count: int) -> None:
    """And the area of a triangle is one; also where all frequencies are on the linear part of the scale."""
    filters = slaney_filters(rate, points, count, torch.device("cpu"))
    frequencies = torch.linspace(0, rate / 2, points // 2 + 1).tolist()
    step = mels(rate / 2) / (count + 1)
    for number, column in enumerate(filters.T):
        inside = [mels(hertz) for hertz, weight in zip(frequencies, column.tolist()) if weight > 0]
        assert number * step < min(inside) and max(inside) < (number + 2) * step
    fine = slaney_filters(rate, 20_000, count, torch.device("cpu")).sum(0) * rate / 20_000
    torch.testing.assert_close(fine, torch.ones(count), atol=0.02, rtol=0)


def test_the_rest_of_the_window_is_heard_as_silence_and_more_is_cut() -> None:
    stem, source = LogMel(8000, width=8, seconds=0.5, mels=20).eval(), torch.randn(1, 6000)
    mask = torch.ones(1, 6000, dtype=torch.bool)
    assert stem.longest == 4000 and stem(source, mask)[0].shape == (1, 25, 8)
    torch.testing.assert_close(stem(source, mask)[0], stem(source[:, :4000], mask[:, :4000])[0])
    silent = torch.cat([source[:, :1000], torch.zeros(1, 3000)], 1)
    torch.testing.assert_close(stem(source[:, :1000], mask[:, :1000])[0], stem(silent, mask[:, :4000])[0])
    assert stem.spectrogram(source[:, :1000], mask[:, :1000])[1].sum() == 13  # 12.5 frames of 80 samples


@pytest.mark.parametrize("kind", [LogMel, Frames])
def test_weights_may_be_bfloat16(kind: type) -> None:
    stem, source = kind(8000, width=8).eval(), torch.randn(1, 2000)
    vectors, _ = stem.to(torch.bfloat16)(source, torch.ones(1, 2000, dtype=torch.bool))
    assert vectors.dtype == torch.bfloat16 and vectors.isfinite().all()


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match=r"model\.stem\.mels: 200 are too many"):
        LogMel(8000, width=8, mels=200)
    with pytest.raises(UserError, match=r"model\.stem\.seconds: 0\.02 is too short"):
        LogMel(8000, width=8, seconds=0.02)
