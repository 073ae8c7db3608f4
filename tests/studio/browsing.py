"""A real browser at a real studio: `studio` is a `regard studio` of tiny models, `page` a page that may ask nobody else.

What a page logs as an error, throws, or asks of another address fails its test. Where no browser is installed these
tests are skipped with the reason, unless REGARD_BROWSER is `required`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from serving.running import ROOT, environment, hear, stop

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 30_000
"""Milliseconds that a page may take for anything: machines that run tests are busy."""
LINES = ["je suis étudiant .", "où est la gare ?", "elle a lu ce livre deux fois .", "oui , bien sûr !"]
SIZES = {"width": 16, "heads": 4, "feed_forward": 32, "layers": 2}
SHAPES: dict[str, dict[str, Any]] = {
    "tiny-transformer": SIZES,
    "tiny-universal": {**SIZES, "layers": 3, "encoder": "universal", "decoder": "universal"},
    "tiny-bahdanau": {"width": 16, "encoder": {"kind": "recurrent", "layers": 2}, "decoder": {"kind": "attentional"}},
    "tiny-none": {
        "width": 16,
        "layers": 1,
        "encoder": {"kind": "recurrent", "direction": "forward"},
        "decoder": {"kind": "recurrent"},
    },
}


class Studio(str):
    """The address of a studio, `http://127.0.0.1:PORT`, with its process and what it said on stderr so far."""

    process: subprocess.Popen[bytes]
    said: list[str]
    folders: dict[str, Path]
    """The models' folders by name, to load them beside the page."""


def write_tiny(folder: Path, shape: str, seed: int = 3) -> Path:
    """A translator with random weights, larger than usual: fresh ones would answer every sentence alike. Its tokens
    are letters, so that it reads any text."""
    import torch

    from regard.assemble import build_model, resolve_model
    from regard.config import Decoding, Recipe
    from regard.data.tokenizer.character import Character
    from regard.loading import model_files
    from regard.storage import write_folder

    torch.manual_seed(seed)
    tree = resolve_model(SHAPES[shape])
    tokenizer = Character.train(LINES, seed=1)
    model = build_model(tree, len(tokenizer))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)
        if "transformer" not in shape and "universal" not in shape:
            model.decoder.embedding.table.weight.mul_(8)
    recipe = Recipe(
        model=tree,
        tokenizer={"kind": "character"},
        source_language="fr",
        target_language="en",
        decoding=Decoding(beam=4, max_length=12),
    )
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    write_folder(folder, model_files(recipe, tokenizer, weights, "float32"))
    return folder


@contextmanager
def running_studio(*options: str, ready: bool = True) -> Iterator[Studio]:
    """`regard studio` on a free port; with `ready`, when its models are loaded."""
    command = [sys.executable, "-m", "regard", "studio", "--port", "0", "--no-open", *options]
    own = environment(OMP_NUM_THREADS="1", REGARD_CACHE=os.environ["REGARD_CACHE"])
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=own, cwd=ROOT)
    said: list[str] = []
    threading.Thread(target=hear, args=(process, said), daemon=True).start()
    try:
        studio = Studio(_address(process, said))
        studio.process, studio.said, studio.folders = process, said, {}
        if ready:
            _wait_until_ready(studio)
        yield studio
    finally:
        stop(process)


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """Tiny models of every kind that translates, and nothing else: it starts in seconds."""
    home = tmp_path_factory.mktemp("models")
    folders = {shape: write_tiny(home / shape, shape) for shape in SHAPES}
    options = [part for folder in folders.values() for part in ("--model", str(folder))]
    with running_studio("--only", "--runs", str(home / "runs"), *options) as running:
        running.folders = folders
        yield running


@pytest.fixture(scope="session")
def shipped_studio() -> Iterator[Studio]:
    """The models that ship with the package."""
    with running_studio() as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of one file only: while it is open, no other test may have an event loop."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    missing = None if program else "no chromium is installed"
    if not importlib.util.find_spec("playwright"):
        missing = "playwright is not installed"
    if missing and os.environ.get("REGARD_BROWSER") != "required":
        pytest.skip(f"{missing}; set REGARD_BROWSER=required to fail instead")
    assert not missing, missing
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=OPTIONS)
        yield opened
        opened.close()


@contextmanager
def watched(browser: Browser, studio: str, **options: Any) -> Iterator[Page]:
    """A page with a history of its own; its errors, dialogs and requests to other addresses fail the test."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    wrong: list[str] = []
    _keep_inside(context, studio, wrong)
    page = context.new_page()
    page.on("pageerror", lambda error: wrong.append(f"thrown: {error}"))
    page.on("dialog", lambda dialog: (wrong.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
    page.on("console", lambda message: wrong.append(message.text) if _is_wrong(message) else None)
    try:
        yield page
        assert not wrong, "\n".join(wrong)
    finally:
        context.close()


@pytest.fixture
def page(browser: Browser, studio: Studio) -> Iterator[Page]:
    with watched(browser, studio, viewport={"width": 1280, "height": 900}) as opened:
        yield opened


def open_view(page: Page, studio: str, view: str, wait: str = "figure", **state: Any) -> None:
    """Goes there, and waits until something is drawn."""
    page.goto(f"{studio}/studio/#{urlencode({'view': view, **state})}")
    page.wait_for_selector("html[data-ready]")
    page.wait_for_selector(f"#view {wait}")


def until(page: Page, expression: str, seconds: float = PATIENCE / 1000) -> Any:
    """Waits for something in the page to be true. (The browser's own way to wait runs text as a script, which the
    page's policy forbids.)"""
    end = time.monotonic() + seconds
    while not (found := page.evaluate(expression)):
        assert time.monotonic() < end, f"never became true: {expression}"
        page.wait_for_timeout(30)
    return found


def settled(page: Page) -> None:
    """Waits until the view has something to show, and nothing under way."""
    until(
        page,
        "document.querySelector('#view').innerText.trim() !== '' &&"
        " !document.querySelector('#view [aria-busy=true], #view .waiting')",
    )


def _keep_inside(context: BrowserContext, studio: str, wrong: list[str]) -> None:
    def decide(route: Any) -> None:
        if route.request.url.startswith((f"{studio}/", "data:", "blob:")):
            route.continue_()
        else:
            wrong.append(f"asked elsewhere: {route.request.url}")
            route.abort()

    context.route("**/*", decide)


def _is_wrong(message: Any) -> bool:
    """A question that was refused, or that nobody answered, is told on the page; browsers log it all the same."""
    asked = re.search(r"/studio/(ask/|models|runs)|/(translate|frontend/settings)$", message.location.get("url", ""))
    return message.type == "error" and not (message.text.startswith("Failed to load resource") and asked)


def _address(process: subprocess.Popen[bytes], said: list[str]) -> str:
    end = time.monotonic() + 4 * PATIENCE / 1000
    while time.monotonic() < end and process.poll() is None:
        for line in list(said):
            if found := re.search(r"the studio is at (http://\S+:\d+)/studio/", line):
                return found[1]
        time.sleep(0.05)
    raise RuntimeError("the studio did not start; it said:\n" + "\n".join(said))


def _wait_until_ready(studio: Studio) -> None:
    end = time.monotonic() + 4 * PATIENCE / 1000
    while time.monotonic() < end and studio.process.poll() is None:
        if told(studio)["ready"]:
            return
        time.sleep(0.1)
    raise RuntimeError("the studio did not load its models; it said:\n" + "\n".join(studio.said))


def told(studio: str, path: str = "models") -> Any:
    """What the server tells as JSON: `told(studio, "models")`."""
    import json
    from urllib.request import ProxyHandler, build_opener

    with build_opener(ProxyHandler({})).open(f"{studio}/studio/{path}", timeout=30) as answer:
        return json.load(answer)


def asked(studio: str, question: str, **request: Any) -> Any:
    """The server's own answer to a question, beside the page."""
    import json
    from urllib.request import ProxyHandler, Request, build_opener

    body = json.dumps(request).encode()
    sent = Request(f"{studio}/studio/ask/{question}", body, {"Content-Type": "application/json"})
    with build_opener(ProxyHandler({})).open(sent, timeout=60) as answer:
        return json.load(answer)
