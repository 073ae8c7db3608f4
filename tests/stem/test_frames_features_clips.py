"""Stems of sound, series and clips against their formulas; padding does not matter."""

import math

import numpy as np
import pytest
import torch

from regard.errors import UserError
from regard.stem.clips import Clips
from regard.stem.features import Features
from regard.stem.frames import Frames, mel_filters, normalised

RATE = 8000


def padded(examples, filler):
    """A batch with `filler` behind the end of what is shorter."""
    longest = max(len(e) for e in examples)
    source = torch.full((len(examples), longest, *examples[0].shape[1:]), filler)
    mask = torch.zeros(len(examples), longest, dtype=torch.bool)
    for row, example in enumerate(examples):
        source[row, : len(example)] = example
        mask[row, : len(example)] = True
    return source, mask


def alone_equals_together(stem, examples):
    together, masks = stem(*padded(examples, filler=7.0))
    for example, vectors, mask in zip(examples, together, masks):
        alone, alone_mask = stem(*padded([example], filler=0.0))
        assert alone_mask.all() and mask.sum() == alone_mask.shape[1] and mask[: alone_mask.shape[1]].all()
        torch.testing.assert_close(vectors[mask], alone[0], atol=1e-5, rtol=1e-5)


def log_mel_by_hand(samples, rate, mels, window, hop, points):
    """Every step as the formulas have it: no transform faster than its definition, no filter without its loop."""
    frames = 1 + max(0, math.ceil((len(samples) - window) / hop))
    samples = np.concatenate([samples.astype(np.float64), np.zeros(window + hop)])
    n, k = np.arange(window), np.arange(points // 2 + 1)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * n / window)
    dft = np.exp(-2j * np.pi * np.outer(n, k) / points)
    power = np.stack([np.abs((samples[t * hop : t * hop + window] * hann) @ dft) ** 2 for t in range(frames)])
    top = 2595 * np.log10(1 + rate / 2 / 700)
    corners = [700 * (10 ** (m * top / (mels + 1) / 2595) - 1) for m in range(mels + 2)]
    bank = np.zeros((len(k), mels))
    for m in range(mels):
        left, middle, right = corners[m : m + 3]
        for bin_ in k:
            frequency = bin_ * rate / points
            if left < frequency <= middle:
                bank[bin_, m] = (frequency - left) / (middle - left)
            elif middle < frequency < right:
                bank[bin_, m] = (right - frequency) / (right - middle)
    return np.log10(np.maximum(power @ bank, 1e-10))


@pytest.mark.parametrize("samples", [120, 200, 201, 777, 1640])
def test_the_spectrogram_is_what_the_formulas_say(samples):
    stem = Frames(RATE, width=16)
    source = torch.randn(1, samples, generator=torch.Generator().manual_seed(0)) * 0.1
    found, mask = stem.spectrogram(source, torch.ones(1, samples, dtype=torch.bool))
    wanted = log_mel_by_hand(source[0].numpy(), RATE, 40, 200, 80, 256)
    assert mask.all() and found.shape[1:] == wanted.shape
    np.testing.assert_allclose(found[0].numpy(), wanted, atol=2e-4)


def test_a_tone_is_loudest_in_the_band_it_lies_in():
    stem = Frames(RATE, width=16)
    corners = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 4000 / 700), 42) / 2595) - 1)
    for band in (5, 20, 35):
        tone = torch.sin(2 * torch.pi * float(corners[band + 1]) * torch.arange(2000) / RATE)[None]
        spectrogram, _ = stem.spectrogram(tone, torch.ones(1, 2000, dtype=torch.bool))
        assert (spectrogram[0, :20].argmax(-1) == band).all()


def test_a_mel_is_a_hertz_at_a_thousand():
    """The scale is made so: with the corners at 0, 1000 and 2000 mels, the middle one is at 1000 Hz."""
    rate = round(2 * 700 * (10 ** (2000 / 2595) - 1))
    filters = mel_filters(rate, 8192, 1, torch.device("cpu"))[:, 0]
    assert filters.argmax() * rate / 8192 == pytest.approx(1000, abs=1)
    assert filters.max() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("subsample", [1, 2, 4, 8])
def test_a_recording_alone_gives_what_it_gives_in_a_batch(subsample):
    torch.manual_seed(0)
    stem = Frames(RATE, width=24, subsample=subsample).eval()
    lengths = [1, 150, 200, 201, 280, 281, 999, 1640, 2000]
    alone_equals_together(stem, [torch.randn(n) * 10.0 ** -(i % 4) for i, n in enumerate(lengths)])


def test_time_is_shortened_as_said_and_its_end_is_heard():
    stem = Frames(RATE, width=16, subsample=4).eval()
    source = torch.randn(1, 200 + 80 * 10 + 1, requires_grad=True)  # 11 frames and a sample
    vectors, mask = stem(source, torch.ones(source.shape, dtype=torch.bool))
    assert vectors.shape == (1, 3, 16) and mask.shape == (1, 3)
    vectors.square().sum().backward()
    assert source.grad[0, -1] != 0


def test_loudness_does_not_matter_and_silence_is_finite():
    stem = Frames(RATE, width=16).eval()
    source, mask = torch.randn(1, 1600) * 0.1, torch.ones(1, 1600, dtype=torch.bool)
    torch.testing.assert_close(stem(source * 0.05, mask)[0], stem(source, mask)[0], atol=1e-3, rtol=1e-3)
    silence = torch.zeros(1, 1600, requires_grad=True)
    vectors, _ = stem(silence, mask)
    vectors.sum().backward()
    assert vectors.isfinite().all() and silence.grad.isfinite().all()


def test_a_stretch_of_silence_does_not_drown_the_rest():
    """Digital silence has no logarithm: it counts as 80 dB below the loudest, not as minus infinity."""
    stem = Frames(RATE, width=16)
    source = torch.cat([torch.randn(1, 1600), torch.zeros(1, 1600)], 1)
    x = normalised(*stem.spectrogram(source, torch.ones(1, 3200, dtype=torch.bool)))
    assert x.mean().abs() < 1e-4 and x.std() == pytest.approx(1, abs=0.01)
    assert x.min() > -2


def test_what_is_normalised_are_the_real_frames_alone():
    torch.manual_seed(0)
    x, filled = torch.randn(1, 6, 5), torch.full((1, 4, 5), 1e4)
    alone = normalised(x, torch.ones(1, 6, dtype=torch.bool))
    together = normalised(torch.cat([x, filled], 1), torch.arange(10)[None] < 6)
    torch.testing.assert_close(together[:, :6], alone)
    assert not together[:, 6:].any()
    assert alone.mean().abs() < 1e-5 and alone.std(correction=0) == pytest.approx(1, abs=0.01)


def test_frames_are_masked_in_training_only():
    torch.manual_seed(0)
    stem = Frames(RATE, width=16, dropout=0.0, augment="mask")
    source, mask = torch.randn(2, 4000), torch.ones(2, 4000, dtype=torch.bool)
    assert not torch.equal(stem(source, mask)[0], stem(source, mask)[0])
    stem.eval()
    assert torch.equal(stem(source, mask)[0], stem(source, mask)[0])


def test_frames_in_half_precision_are_near():
    torch.manual_seed(0)
    stem = Frames(RATE, width=16).eval()
    source, mask = torch.randn(2, 1600), torch.ones(2, 1600, dtype=torch.bool)
    with torch.autocast("cpu", torch.bfloat16):
        half = stem(source, mask)[0]
    torch.testing.assert_close(half.float(), stem(source, mask)[0], atol=0.05, rtol=0.05)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Frames(RATE, width=16),
        lambda: Features(3, width=16, patch=2),
        lambda: Clips(1, 12, width=16),
    ],
)
def test_weights_are_all_that_a_stem_keeps(make):
    """Made without memory and given another's weights it computes the same: nothing else hides in it."""
    torch.manual_seed(0)
    stem = make().eval()
    shape = {"sound": (2, 900), "series": (2, 9, 3), "clip": (2, 4, 1, 12, 12)}[stem.reads]
    source, mask = torch.randn(shape), torch.ones(shape[:2], dtype=torch.bool)
    with torch.device("meta"):
        other = make().eval()
    other.load_state_dict(dict(stem.named_parameters()), assign=True)
    assert torch.equal(other(source, mask)[0], stem(source, mask)[0])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subsample": 3}, "subsample: 3 is not supported"),
        ({"mels": 200}, "mels: 200 are too many"),
        ({"hop": 0.03}, "must overlap"),
        ({"hop": 0.0}, "must overlap"),
        ({"window": 1000.0}, "must overlap"),
        ({"augment": "msk"}, "did you mean 'mask'"),
    ],
)
def test_frames_refuse_what_makes_no_sense(options, said):
    with pytest.raises(UserError, match=said):
        Frames(RATE, **options)


@pytest.mark.parametrize("patch", [1, 3, 4])
def test_a_series_alone_gives_what_it_gives_in_a_batch(patch):
    torch.manual_seed(0)
    alone_equals_together(Features(5, width=16, patch=patch).eval(), [torch.randn(n, 5) for n in (1, 3, 4, 9, 12)])


def test_a_patch_is_its_steps_side_by_side():
    stem = Features(2, width=6, position="none", patch=3).eval()
    torch.nn.init.eye_(stem.project.weight)
    torch.nn.init.zeros_(stem.project.bias)
    source = torch.arange(1.0, 11.0).view(1, 5, 2)
    vectors, mask = stem(source, torch.ones(1, 5, dtype=torch.bool))
    assert vectors.tolist() == [[[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 0, 0]]] and mask.tolist() == [[True, True]]
    _, mask = stem(source, torch.tensor([[True, True, True, False, False]]))
    assert mask.tolist() == [[True, False]]


def test_too_long_a_series_for_learned_positions_is_refused():
    stem = Features(2, width=6, position={"kind": "learned", "length": 4})
    stem(torch.zeros(1, 4, 2), torch.ones(1, 4, dtype=torch.bool))
    with pytest.raises(UserError, match="room for 4 positions, but there are 5"):
        stem(torch.zeros(1, 5, 2), torch.ones(1, 5, dtype=torch.bool))


@pytest.mark.parametrize("size", [3, 8, 13, 24])
def test_a_clip_alone_gives_what_it_gives_in_a_batch(size):
    torch.manual_seed(0)
    stem = Clips(3, size, width=16).train()
    stem.placing.dropout.p = 0.0
    alone_equals_together(stem, [torch.randn(n, 3, size, size) for n in (1, 4, 6)])


def test_every_frame_is_looked_at_alike_and_where_something_is_can_be_told():
    torch.manual_seed(0)
    stem = Clips(1, 16, width=32, position="none").eval()
    clip = torch.zeros(1, 3, 1, 16, 16)
    for frame, (x, y) in enumerate([(3, 3), (11, 3), (3, 11)]):
        clip[0, frame, 0, y : y + 3, x : x + 3] = 1.0
    mask = torch.ones(1, 3, dtype=torch.bool)
    vectors = stem(clip, mask)[0]
    torch.testing.assert_close(stem(clip.flip(1), mask)[0].flip(1), vectors)
    distances = torch.cdist(vectors[0], vectors[0])[~torch.eye(3, dtype=torch.bool)]
    assert distances.min() > 0.01
