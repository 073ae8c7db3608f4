"""`regard glossary`: checks files of terms (`regard translate --glossary`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.command import Command
from regard.cli.models import model_names
from regard.cli.terminal import Format, as_json, say, shown

if TYPE_CHECKING:
    from regard.glossary import Term

glossary = typer.Typer(
    help="Glossaries: how terms must or should be translated.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@glossary.callback()
def _group() -> None:
    pass


@glossary.command(cls=Command)
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Lines of TERM, TRANSLATION and must or prefer.")],
    model: Annotated[
        str,
        typer.Option("--model", "-m", help="Also look for what this model cannot write.", autocompletion=model_names),
    ] = "",
    format: Annotated[Format, typer.Option("--format", help="text or json.")] = Format.text,
) -> None:
    """Check a glossary: print how many terms it has. With a model, also those that its tokenizer cannot write."""
    from regard.glossary import MUST, Glossary

    found = Glossary.read(file)
    must = sum(term.mode == MUST for term in found.terms)
    unwritable = _unwritable(found.terms, model) if model else []
    if format is Format.json:
        counts = {"terms": len(found.terms), "must": must, "prefer": len(found.terms) - must}
        print(as_json({**counts, "unwritable": unwritable}))
    else:
        print(f"{len(found.terms)} terms: {must} must, {len(found.terms) - must} prefer")
    for one in unwritable:
        say(shown(f"{model} cannot write '{one}': it has characters that the model never saw; it will be left out"))
    if unwritable:
        raise typer.Exit(1)


def _unwritable(terms: Sequence[Term], model: str) -> list[str]:
    from regard.engines.ctranslate2.loading import read_tokenizer
    from regard.find_model import find_model, recipe_of_translator
    from regard.glossary import Form, Wanted
    from regard.storage import read_folder
    from regard.task._terms import TermEncoder

    recipe_of_translator(model)  # refuses other models
    encoder = TermEncoder(read_tokenizer(read_folder(find_model(model), hash_tensors=False)).target)
    forms = [form for term in terms for form in term.targets]
    return [form for form in forms if encoder.encode(Wanted((Form(form),))) is None]
