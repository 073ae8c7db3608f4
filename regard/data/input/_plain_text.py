"""Text that is given to a task as it is, without an input of its own."""

from __future__ import annotations

from typing import Any, ClassVar

from regard.data.input._accepted import refused


class PlainText:
    """Tells one text from many, for tasks that take only text."""

    takes: ClassVar[str] = "a text (str)"

    def is_one(self, given: Any) -> bool:
        return isinstance(given, str)

    def accept(self, given: Any) -> str:
        if not isinstance(given, str):
            raise refused(given, self.takes)
        return given
