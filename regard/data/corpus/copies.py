"""Made pairs (w, w) of what translations copy: names, numbers and addresses that occur on both sides of a pair."""

from __future__ import annotations

from collections.abc import Iterable

from regard.data.corpus.reading import Pair

MOST = 200_000
"""Words kept of each pair of languages; the first ones found."""
OFTEN = 50
"""Words that more pairs have are no rare ones and are learnt without help."""
LONGEST = 100
_AROUND = ".,;:!?\"'()[]{}<>«»„“”‘’…¿¡،؛؟-–—/"


class Copies:
    """Collects the words of one pair of languages."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def see(self, pairs: Iterable[Pair]) -> None:
        for source, target in pairs:
            for word in _candidates(source) & _candidates(target):
                if word in self._counts or len(self._counts) < MOST:
                    self._counts[word] = self._counts.get(word, 0) + 1

    def words(self) -> list[str]:
        return sorted(word for word, count in self._counts.items() if count <= OFTEN)


def _candidates(text: str) -> set[str]:
    """The words that look like names, numbers or addresses."""
    words = (word.strip(_AROUND) for word in text.split())
    return {word for word in words if 2 <= len(word) <= LONGEST and _is_copied(word)}


def _is_copied(word: str) -> bool:
    return word[0].isupper() or any(character.isdigit() or character in "@/_" for character in word)
