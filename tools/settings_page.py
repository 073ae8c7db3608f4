"""Writes docs/settings.md, the reference of recipe keys, from their declarations."""

from __future__ import annotations

from pathlib import Path

from regard.settings_reference import page

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    path = ROOT / "docs" / "settings.md"
    path.write_text(page(), encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
