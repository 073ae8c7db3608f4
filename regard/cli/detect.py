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
    from regard.text.language_guesses import detect_language

    codes = _codes(languages)

    def use(raws: list[Any]) -> list[str]:
        return [_line(text, detect_language(text, codes)[:top], format) for text in raws]

    answer(texts, str, use, "regard detect 'Wo ist der Bahnhof?'", quiet)


def _codes(languages: str | None) -> list[str]:
    from regard.text.language_guesses import check_identifiable

    try:
        return check_identifiable([code.strip() for code in (languages or "").split(",") if code.strip()])
    except UserError as error:
        raise UserError(f"--languages: {error}") from None


def _line(text: str, found: list[tuple[str, float]], format: Format) -> str:
    from regard.languages import name, public

    if format is Format.json:
        named = [
            {"language": public(code), "name": name(code), "probability": round(share, 4)} for code, share in found
        ]
        return as_json({"text": text, "guesses": named})
    return "\t".join(f"{public(code)}\t{share:.2f}" for code, share in found) or "-"
