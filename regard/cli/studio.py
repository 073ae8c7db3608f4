"""`regard studio`: a page to look inside models with, in the browser and on this machine alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.models import model_names
from regard.cli.options import Device
from regard.cli.terminal import say


def studio(
    model: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="A model folder, a run or a folder of these, besides the shipped models.",
            autocompletion=model_names,
        ),
    ] = None,
    only: Annotated[bool, typer.Option("--only", help="Only those models, not the shipped ones.")] = False,
    runs: Annotated[Path, typer.Option(help="The folder whose training runs can be watched.")] = Path("runs"),
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 is everywhere, for all to reach.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any that is free.")] = 5050,
    device: Device = "auto",
    load_timeout: Annotated[
        float,
        typer.Option(
            min=1, max=86_400, metavar="SECONDS", help="A shipped model that takes longer to load is left out."
        ),
    ] = 30.0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
) -> None:
    """See models at work on a page: type a sentence, see where they look, and follow their numbers."""
    from regard.serving.http.server import listen
    from regard.serving.settings import MEBIBYTE, Settings
    from regard.studio.app import make_studio
    from regard.studio.models import collect

    exhibits = collect(model or [], shipped=not only)
    settings = Settings(
        host=host,
        port=port,
        device=device,
        load_timeout=load_timeout,
        precision="float32",  # what is shown are the model's own numbers, not those of faster kernels
        workers=1,
        threads=1,  # one sentence is too little to share: on a busy machine two threads took ten times as long
        warm=False,
        log=False,
        text_limit=8 * MEBIBYTE,  # pictures go as text
        grace=2.0,
    )

    def opened(address: str) -> None:
        say(f"the studio is at {address}/studio/ ; Ctrl-C stops")
        if not no_open and _has_display():
            import threading
            import webbrowser

            threading.Thread(target=webbrowser.open, args=[f"{address}/studio/"], daemon=True).start()

    raise typer.Exit(listen(settings, exhibits.catalogue, say, make_studio(exhibits, runs), opened))


def _has_display() -> bool:
    """Whether a browser could be seen: without a display a text browser would take the terminal."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
