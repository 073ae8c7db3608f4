"""The fixtures of browsing.py for every test of the studio: one server for all files."""

from studio.browsing import browser, page, shipped_studio, studio

__all__ = ["browser", "page", "shipped_studio", "studio"]
