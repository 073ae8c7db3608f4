"""`regard train --memory`: what it says of a run on corrections (the run: regard/runs/memory.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from regard.cli.terminal import escape_control_characters, say
from regard.errors import UserError


def train_memory(
    start: str,
    memory: Path,
    settings: Sequence[str],
    from_: str | None,
    to: str | None,
    rest_source: list[str] | None,
    rest_target: list[str] | None,
    output: Path | None,
    device: str | None,
    quiet: bool,
) -> None:
    """Exit code 1 if the rest got worse."""
    if recipes := [text for text in settings if "=" not in text]:
        raise UserError(f"{recipes[0]}: --memory takes no recipe, only settings such as training.steps=200")
    if rest_target and not rest_source:
        raise UserError("--valid-target: is the translation of --valid-source, which is missing")
    from regard.runs.memory import learn_corrections

    found = learn_corrections(
        start,
        memory,
        *settings,
        source_language=from_,
        target_language=to,
        rest_source=rest_source or (),
        rest_target=rest_target or (),
        folder=output,
        device=device,
        quiet=quiet,
        note=(lambda text: None) if quiet else say,
    )
    if found.run.reason == "interrupted":
        say(f"stopped and saved; go on with: regard train --resume {found.run.folder}")
        raise typer.Exit(130)
    typer.echo(f"corrections: {found.given_after} of {found.corrections} word for word ({found.given_before} before)")
    if found.rest:
        how = "to what it said before" if found.own_reference else f"(before: {found.chrf_before:.2f})"
        typer.echo(f"the rest:    chrF {found.chrf_after:.2f} {how}, of {found.rest} held-out sentences")
    else:
        say("whether it translates the rest as well as before was not checked; give some text with --valid-source FILE")
    typer.echo(escape_control_characters(f"model:       {found.run.folder / 'model'}"))
    if found.got_worse:
        say("the rest got worse; give more text with --valid-source, or fewer training.steps")
        raise typer.Exit(1)
