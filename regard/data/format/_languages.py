"""The interface of formats that make parallel text between any two languages."""

from __future__ import annotations

from abc import abstractmethod

from regard.data.format._base import Format


class MadeInLanguages(Format):
    @abstractmethod
    def between(self, source: str, target: str, part: str) -> list[tuple[str, str]]:
        """The pairs of a part between two languages, given by their codes."""
