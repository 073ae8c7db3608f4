"""TrainingState: what a run must remember besides tensors, saved with each checkpoint as training.json."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.storage import Folder

STATE = "training.json"


@dataclass
class TrainingState:
    """Counters, data cursor and best scores. JSON gives its numbers back exactly."""

    seed: int
    batch_tokens: int
    cursor: dict[str, int]
    """Position in the data of the next step's first batch."""
    step: int = 0
    units: int = 0
    """Units (target tokens, for example) trained on so far."""
    validated: int = 0
    """The last step that was validated."""
    best_score: float | None = None
    best_step: int = 0
    best_scores: dict[str, float] = field(default_factory=dict)
    start_scores: dict[str, float] = field(default_factory=dict)
    """Validation scores of the model that fine-tuning started from."""
    waited: int = 0
    """Validations since the best one."""
    bad: int = 0
    """Steps in a row that were skipped because a number was not finite."""
    window_loss: float = 0.0
    window_units: int = 0
    """Loss and units since the last log entry."""
    seconds: float = 0.0
    """Training time so far. Measured only under a time limit, so that without one equal runs give equal files."""

    def every(self, count: int) -> bool:
        """Whether the current step is a multiple of `count`; 0: never."""
        return count > 0 and self.step > 0 and self.step % count == 0

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()

    def restore(self, folder: Folder) -> None:
        """Takes over what a checkpoint holds. Refuses another seed or batch size: the cursor would mean other data."""
        try:
            values = json.loads(folder.read(STATE))
            values.setdefault("start_scores", {})  # checkpoints of earlier versions have none
            saved = TrainingState(**{f.name: values[f.name] for f in fields(TrainingState)})
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UserError(f"{folder.path / STATE}: cannot be understood; another version wrote it") from None
        for name in ("seed", "batch_tokens"):
            before, now = getattr(saved, name), getattr(self, name)
            if before != now:
                raise UserError(
                    f"{name} was {before} when {folder.path} was saved and is {now} now; "
                    "resume with the same, or start a new run from its weights (training.from)"
                )
        vars(self).update(vars(saved))
