"""The reference of recipe keys: `python bench/settings.py` writes docs/settings.md from the declarations."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # as a script it finds regard, too

from regard.settings_reference import page

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    path = ROOT / "docs" / "settings.md"
    path.write_text(page(), encoding="utf-8")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
