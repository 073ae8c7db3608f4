"""The least-recently-used cache of translations (`--translation-cache`)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any


class TranslationCache:
    """Holds the `capacity` translations used last. The key must contain everything that a translation depends on."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self._entries: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: tuple[Any, ...]) -> Any:
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, key: tuple[Any, ...], value: Any) -> None:
        if self.capacity > 0:
            self._entries[key] = value
            self._entries.move_to_end(key)
            while len(self._entries) > self.capacity:
                self._entries.popitem(last=False)
