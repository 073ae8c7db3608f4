"""The checkpoints of a run: which to keep, which to resume from, which to average.

    RUN/checkpoints/step-00001000         a regular one
    RUN/checkpoints/step-00002000-best    its validation score was the best so far
    RUN/checkpoints/step-00002345-stop    saved because the run was interrupted

The name says everything, so it is true the moment the folder appears. Each is a model folder (storage.py) that also
holds optimizer and training state (saving.py).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.errors import UserError
from regard.locking import hold
from regard.storage import Folder, clean_leftovers, read_folder, write_folder

_NAME = re.compile(r"step-(\d{8,})(|-best|-stop)")


@dataclass(frozen=True, order=True)
class Saved:
    """A checkpoint, as its name describes it."""

    step: int
    kind: str
    path: Path

    @property
    def regular(self) -> bool:
        """False for one that an interruption saved: an uninterrupted run would not have it."""
        return self.kind != "-stop"


class Checkpoints:
    """The folder RUN/checkpoints. Keeps the newest, the best and those just before the best."""

    def __init__(self, run: Path, keep: int = 5, average: int = 1, warn: Callable[[str], None] = print) -> None:
        self.run = Path(run)
        self.folder = self.run / "checkpoints"
        self.keep = max(1, keep)
        self.average = max(1, average)
        self.warn = warn

    def all(self) -> list[Saved]:
        """All checkpoints, oldest first; of the same step, the regular one last."""
        names = sorted(p for p in self.folder.iterdir()) if self.folder.is_dir() else []
        matches = [(path, _NAME.fullmatch(path.name)) for path in names]
        found = [Saved(int(match[1]), match[2], path) for path, match in matches if match]
        return sorted(found, key=lambda saved: (saved.step, saved.regular))

    def save(
        self,
        step: int,
        files: Mapping[str, bytes | Callable[[Path], None]],
        best: bool = False,
        interrupted: bool = False,
    ) -> Path:
        kind = "-best" if best else "-stop" if interrupted else ""
        path = self.folder / f"step-{step:08d}{kind}"
        write_folder(path, files)
        self._prune(path)
        return path

    def newest_valid(self) -> tuple[Saved, Folder] | None:
        """The newest valid checkpoint. Damaged ones after it are reported and renamed, so they never count again.

        Only for the trainer that holds the lock. Checkpoints of which none is valid are an error: a silent restart from
        step 0 would be worse.
        """
        found = self.all()
        for saved in reversed(found):
            try:
                folder = read_folder(saved.path)
            except UserError as error:
                self.warn(f"stepping back over a broken checkpoint: {error}")
                continue
            for broken in found[found.index(saved) + 1 :]:
                os.replace(broken.path, broken.path.parent / f"broken-{broken.path.name}")
            return saved, folder
        if found:
            raise UserError(f"{self.folder}: none of {len(found)} checkpoints is whole; start anew in another folder")
        return None

    def best(self) -> Saved | None:
        """The newest one marked best: each was better than all before it."""
        marked = [saved for saved in self.all() if saved.kind == "-best"]
        return marked[-1] if marked else None

    def to_average(self) -> list[Saved]:
        """The best one (the newest, if none is marked) and the regular ones just before it, oldest first."""
        regular = [saved for saved in self.all() if saved.regular]
        last = self.best() or (regular[-1] if regular else None)
        return [saved for saved in regular if last and saved.step <= last.step][-self.average :]

    def _prune(self, newest: Path) -> None:
        found = self.all()
        regular = [saved for saved in found if saved.regular]
        wanted = {newest, *(s.path for s in regular[-self.keep :]), *(s.path for s in self.to_average())}
        step = next(saved.step for saved in found if saved.path == newest)
        for saved in found:
            if saved.path not in wanted or (saved.step == step and saved.path != newest):
                _remove(saved.path)
        clean_leftovers(self.folder)


def average(folders: Iterable[Folder]) -> dict[str, Tensor]:
    """The mean weights of several model folders, summed in float64; integers are those of the last folder."""
    total: dict[str, Tensor] = {}
    count = 0
    for folder in folders:
        weights = folder.weights()
        if total and weights.keys() != total.keys():
            raise UserError(f"{folder.path}: holds other weights than the checkpoints it is to be averaged with")
        for name, tensor in weights.items():
            total[name] = total.get(name, 0) + tensor.double() if tensor.is_floating_point() else tensor
        count += 1
    return {name: (t / count).float() if t.dtype == torch.float64 else t for name, t in total.items()}


class Lock:
    """The lock on a run's folder. The system releases it when the process ends, however it ends."""

    def __init__(self, run: Path, patience: float = 0.05) -> None:
        """Waits `patience` seconds: by default for a process that only checks whether the lock is held."""
        path = Path(run) / "lock"
        end = time.monotonic() + patience
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            while (file := hold(path)) is None and time.monotonic() < end:
                time.sleep(0.05)
        except OSError as error:
            raise UserError(f"cannot write in {run}: {error.strerror or error}; choose another folder") from None
        if file is None:
            owner = path.read_text(encoding="utf-8").strip() or "?"
            raise UserError(f"{run}: process {owner} is training here; wait for it or use another folder")
        self._file = file

    def release(self) -> None:
        self._file.close()


def _remove(path: Path) -> None:
    """Renames first, so that no half-removed folder has a checkpoint's name; `clean_leftovers` removes it."""
    os.replace(path, path.parent / f".{path.name}.{os.getpid()}.old.tmp")
