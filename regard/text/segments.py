"""A text as the sentences to translate and everything between them."""

from __future__ import annotations

from regard.text.alignment import AlignedText
from regard.text.markup import extract_sentences, reassemble
from regard.text.sentences import split_text
from regard.text.word_confidences import Confidences, concatenated


class PlainText:
    """A plain text; only its sentences are translated."""

    def __init__(self, text: str):
        self._pieces = split_text(text)
        self.sentences = [piece.text for piece in self._pieces if piece.translatable]

    def reassemble(self, found: list[AlignedText]) -> str:
        translations = iter(found)
        return "".join(next(translations).text if piece.translatable else piece.text for piece in self._pieces)

    def confidences(self, found: list[AlignedText]) -> Confidences | None:
        """Of the reassembled text."""
        translations = iter(found)
        pieces = (next(translations) if piece.translatable else AlignedText(piece.text) for piece in self._pieces)
        return concatenated((one.text, one.confidences) for one in pieces)


class HtmlDocument:
    """An HTML document; only its text is translated."""

    def __init__(self, html: str, aligns: bool):
        self._html, self._found = html, extract_sentences(html, whole=aligns)
        self.sentences = [sentence.text for sentence in self._found]

    def reassemble(self, found: list[AlignedText]) -> str:
        return reassemble(self._html, self._found, found)

    def confidences(self, found: list[AlignedText]) -> Confidences | None:
        """Of the document as a whole: its words are marked in the HTML (doubtful_spans.py)."""
        known = concatenated((one.text, one.confidences) for one in found)
        return known and known._replace(words=())
