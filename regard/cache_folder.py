"""The user's cache folder: converted and imported models."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """REGARD_CACHE, else the platform's folder for caches."""
    if own := os.environ.get("REGARD_CACHE"):
        return Path(own)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "regard" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "regard"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"
