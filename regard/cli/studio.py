"""`regard studio`: inspect models in the browser, on this machine only."""

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
            help="A model folder, a run, hf:NAME or a folder of models, besides the shipped ones.",
            autocompletion=model_names,
        ),
    ] = None,
    only: Annotated[bool, typer.Option("--only", help="Only the models named, not the shipped ones.")] = False,
    runs: Annotated[Path, typer.Option(help="The folder whose training runs are shown.")] = Path("runs"),
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 makes the studio reachable for others.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 is any free one.")] = 5050,
    device: Device = "auto",
    load_timeout: Annotated[
        float,
        typer.Option(
            min=1, max=86_400, metavar="SECONDS", help="A shipped model that takes longer to load is left out."
        ),
    ] = 30.0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
) -> None:
    """Inspect models in the browser: attention, beam search, gates and every number, for any sentence you type."""
    from regard.serving.http.server import listen
    from regard.serving.settings import MEBIBYTE, Settings
    from regard.studio.app import make_studio
    from regard.studio.models import collect

    models = collect(model or [], shipped=not only)
    settings = Settings(
        engine="torch",  # the page looks inside
        host=host,
        port=port,
        device=device,
        load_timeout=load_timeout,
        precision="float32",  # show the model's own numbers, not those of faster kernels
        workers=1,
        threads=1,  # a sentence is too little work for two threads, which took ten times as long on a busy machine
        warm=False,
        log=False,
        text_limit=8 * MEBIBYTE,  # images are sent as base64
        grace=2.0,
    )

    def opened(address: str) -> None:
        say(f"the studio is at {address}/studio/ ; Ctrl-C stops")
        if not no_open and _has_display():
            import threading
            import webbrowser

            threading.Thread(target=webbrowser.open, args=[f"{address}/studio/"], daemon=True).start()

    raise typer.Exit(listen(settings, models.catalogue, say, make_studio(models, runs), opened))


def _has_display() -> bool:
    """Whether there is a display: without one, a text browser would take over the terminal."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
