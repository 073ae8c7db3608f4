"""Restarts by torchrun: finds the run that an earlier start of the same launch began, so that it is resumed.

The run's folder remembers which launch began it, by a name that all restarts of one torchrun share.
"""

from __future__ import annotations

from pathlib import Path

from regard.storage import write_file
from regard.training.distributed import launch_id

FILE = "launch"
_begun: set[Path] = set()
"""The runs of this process: a script may train several, and none of them goes on with another."""


def begun_before_restart(place: Path) -> bool:
    """Whether an earlier start of this launch began the run in a folder."""
    launch = launch_id()
    if not launch or place.absolute() in _begun:
        return False
    try:
        return (place / FILE).read_text(encoding="utf-8") == launch
    except (OSError, UnicodeDecodeError):
        return False


def remember_launch(place: Path) -> None:
    """Call it before anything else is written to the folder."""
    if launch := launch_id():
        _begun.add(place.absolute())
        write_file(place / FILE, launch.encode())
