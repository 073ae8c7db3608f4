"""The skeletons of MSR Action3D (Li et al. 2010) as one table: action, subject, episode, frame, then x, y, depth and
confidence of 20 joints. One example per performance: (frames, 60) numbers and the name of the action."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from regard.data.bounded import check_size
from regard.data.corpus.reading import text_lines
from regard.data.format._base import Example, Format, Sample
from regard.errors import UserError

__all__ = ["Skeleton"]

ACTIONS = (
    "high arm wave",
    "horizontal arm wave",
    "hammer",
    "hand catch",
    "forward punch",
    "high throw",
    "draw x",
    "draw tick",
    "draw circle",
    "hand clap",
    "two hand wave",
    "side boxing",
    "bend",
    "forward kick",
    "side kick",
    "jogging",
    "tennis swing",
    "tennis serve",
    "golf swing",
    "pick up and throw",
)
JOINTS, NECK, HIP = 20, 2, 6
"""The number of joints, and the indices of the neck and the centre of the hip."""
FAR = 1e6
"""Larger coordinates are overflows of the sensor."""
BYTES = 100_000_000
UNPACKED = 500_000_000


class Skeleton(Format):
    """Split by subject, so that a model is tested on unseen people. The usual protocol trains on 1, 3, 5, 7, 9.

    Here subject 9 is for validation; `train = [1, 3, 5, 7, 9]` trains on all five. Frames with an overflow or without
    any joint are dropped, and so are performances with no frame left.
    """

    def __init__(
        self,
        train: Sequence[int] = (1, 3, 5, 7),
        valid: Sequence[int] = (9,),
        test: Sequence[int] = (2, 4, 6, 8, 10),
    ) -> None:
        self.subjects = {"train": set(train), "valid": set(valid), "test": set(test)}
        for one, other in (("train", "test"), ("valid", "test")):
            both = sorted(self.subjects[one] & self.subjects[other])
            if both:
                raise UserError(f"data.format: subject {both[0]} is in {one} and in {other}; take it out of one")

    @classmethod
    def sample(cls) -> Sample:
        """One frame in which only the neck is off the origin, by the length of the trunk."""
        joints, found = np.zeros((JOINTS, 4), int), np.zeros((1, JOINTS, 3), np.float32)
        joints[NECK, 1], found[0, NECK, 1] = 50, 1
        row = f"13\t1\t1\t0\t{' '.join(map(str, joints.ravel()))}"
        table = f"action\tsubject\tepisode\tframe\tjoints\n{row}\n"
        return Sample({"skeletons.tsv": table.encode()}, [Example(found.reshape(1, -1), "bend")])

    def read(self, files: Sequence[Path], part: str) -> list[Example]:
        subjects = self.subjects[part]
        examples = []
        for file in files:
            performances = groupby(_rows(file), key=lambda row: row[0][:3])
            for (action, subject, _), rows in performances:
                if subject not in subjects:
                    continue
                joints = np.array([values for _, values in rows])
                joints = joints.reshape(-1, JOINTS, 4)[..., :3]
                good = (np.abs(joints) < FAR).all((1, 2)) & joints.any((1, 2))
                if good.any():
                    examples.append(Example(normalised(joints[good]), ACTIONS[action - 1]))
        return examples


def normalised(joints: np.ndarray) -> np.ndarray:
    """Joints (T, 20, 3) relative to the hip, in units of the trunk: (T, 60). The hip itself is relative to its start.

    So neither position nor body height matters.
    """
    trunk = np.linalg.norm(joints[:, NECK, :2] - joints[:, HIP, :2], axis=1)
    hip = joints[:, HIP : HIP + 1].copy()
    seen = joints - hip
    seen[:, HIP] = (hip - hip[:1])[:, 0]
    return (seen / max(float(np.median(trunk)), 1.0)).reshape(len(joints), -1).astype(np.float32)


def _rows(file: Path) -> list[tuple[tuple[int, ...], list[float]]]:
    """((action, subject, episode, frame), 80 numbers) per row, sorted."""
    rows = []
    check_size(file, BYTES)
    for number, line in enumerate(text_lines(file, UNPACKED), 1):
        if number == 1 or not line.strip():
            continue
        *keys, joints = line.split("\t")
        try:
            numbers, values = tuple(map(int, keys)), list(map(float, joints.split()))
        except ValueError:
            raise UserError(f"{file}, line {number}: holds something that is no number") from None
        if len(numbers) != 4 or len(values) != 4 * JOINTS or not np.isfinite(values).all():
            raise UserError(
                f"{file}, line {number}: wants action, subject, episode, frame and {4 * JOINTS} numbers, split by tabs"
            )
        if not 1 <= numbers[0] <= len(ACTIONS):
            raise UserError(f"{file}, line {number}: no action {numbers[0]}; there are 1 to {len(ACTIONS)}")
        rows.append((numbers, values))
    return sorted(rows, key=lambda row: row[0])
