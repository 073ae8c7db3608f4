"""`regard serve`: what a server is told, from options and the environment. What it does is in regard/serving/."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.grammar import Command
from regard.cli.models import model_names
from regard.cli.options import device_name
from regard.cli.terminal import Precision, say
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.serving.settings import Settings

MODELS, ADDRESS, WHO, HOW_MUCH, OTHER = "Models", "Address", "Who may ask", "How much they may ask for", "Other"
WHOLE_CACHE = 10_000
"""Sentences that `--translation-cache all` keeps: LibreTranslate's word for it."""
DAY = 86_400.0
RANGES: dict[str, tuple[float, float]] = {
    "workers": (0, 1024),
    "worker_memory": (0, 1 << 30),
    "load_timeout": (0.001, DAY),
    "alternatives_limit": (0, 1 << 30),
    "char_limit": (1, 1 << 40),
    "batch_limit": (1, 1 << 30),
    "req_limit": (1, 1 << 30),
    "beam_limit": (1, 1000),
    "text_limit": (1, 1 << 40),
    "body_limit": (1, 1 << 40),
    "queue_limit": (1, 1 << 30),
    "wait_limit": (0.001, DAY),
    "timeout": (0.001, DAY),
    "grace": (0, DAY),
}
OPEN = {"alternatives_limit", "char_limit", "batch_limit", "req_limit"}
"""Limits that may be -1, none: LibreTranslate's. Without the others the server could be brought down."""


class Grouped(Command):
    """A command whose help shows its options below the headings they were given."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            if record := option.get_help_record(ctx):
                groups.setdefault(getattr(option, "rich_help_panel", None) or OTHER, []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def _option(group: str, help: str, variable: str, *names: str, libre: bool = False, **more: Any) -> Any:
    """An option that is also REGARD_<variable> and, where LibreTranslate has it (`libre`), LT_<variable>."""
    variables = [f"REGARD_{variable}", *([f"LT_{variable}"] if libre else [])]
    return typer.Option(*names, help=help, envvar=variables, show_envvar=False, rich_help_panel=group, **more)


def _port(said: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", said) or not int(said) <= 65535:
        raise UserError(f"--port: '{said}' is no port; choose a number up to 65535, such as 5000, or 0 for any")
    return int(said)


def _cache(said: str) -> int:
    if said != "all" and not re.fullmatch(r"[0-9]{1,9}", said):  # not repeated: LibreTranslate has keys here
        raise UserError("--translation-cache: say how many sentences are kept, such as 10000, or all")
    return WHOLE_CACHE if said == "all" else int(said)


def serve(
    model: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="A shipped model, a model folder, a run, or a folder of these.",
            envvar="REGARD_MODEL",
            show_envvar=False,
            rich_help_panel=MODELS,
            autocompletion=model_names,
        ),
    ] = ["fr-en"],  # noqa: B006
    load_only: Annotated[
        str,
        _option(
            MODELS, "Only the models between these languages, such as fr,en.", "LOAD_ONLY", libre=True, metavar="CODES"
        ),
    ] = "",
    device: Annotated[str, _option(MODELS, "auto, cpu, cuda, cuda:1 or mps.", "DEVICE", callback=device_name)] = "auto",
    precision: Annotated[
        Precision, _option(MODELS, "What is computed in; auto is the fastest on the device.", "PRECISION")
    ] = Precision.auto,
    workers: Annotated[
        int, _option(MODELS, "Processes that own the models; 0 is one a core, up to 4, or one on a GPU.", "WORKERS")
    ] = 0,
    worker_memory: Annotated[
        int, _option(MODELS, "Memory a worker may ask for; 0 is all there is.", "WORKER_MEMORY", metavar="MIB")
    ] = 0,
    load_timeout: Annotated[
        float, _option(MODELS, "A model that takes longer to load is refused.", "LOAD_TIMEOUT", metavar="SECONDS")
    ] = 120.0,
    translation_cache: Annotated[
        str,
        _option(
            MODELS,
            "Translations that are kept: a number, or all.",
            "TRANSLATION_CACHE",
            libre=True,
            metavar="SENTENCES",
        ),
    ] = "0",
    host: Annotated[
        str, _option(ADDRESS, "Where to listen; 0.0.0.0 is everywhere, for all to reach.", "HOST", libre=True)
    ] = "127.0.0.1",
    port: Annotated[
        str, _option(ADDRESS, "Up to 65535; 0 is any that is free.", "PORT", libre=True, metavar="PORT")
    ] = "5000",
    url_prefix: Annotated[
        str, _option(ADDRESS, "Where it lives below a proxy, such as /translate.", "URL_PREFIX", libre=True)
    ] = "",
    api_key_file: Annotated[
        Path | None,
        _option(
            WHO,
            "A key a line, of which every request needs one; # begins a comment. One key may be in REGARD_API_KEY.",
            "API_KEY_FILE",
            metavar="FILE",
        ),
    ] = None,
    key_link: Annotated[
        str, _option(WHO, "Where one gets a key, said to those who have none.", "KEY_LINK", metavar="URL")
    ] = "",
    allow_origin: Annotated[
        list[str] | None,
        _option(
            WHO, "A site whose pages may call the server (CORS). May be repeated.", "ALLOW_ORIGIN", metavar="ORIGIN"
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        _option(WHO, "A name by which the server may be called. May be repeated.", "ALLOW_HOST", metavar="NAME"),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        _option(
            WHO,
            "The address of a proxy whose X-Forwarded-For is believed. May be repeated.",
            "TRUSTED_PROXY",
            metavar="ADDRESS",
        ),
    ] = None,
    metrics: Annotated[
        bool, _option(WHO, "Answer /metrics, for Prometheus.", "METRICS", "--metrics", libre=True)
    ] = False,
    metrics_token_file: Annotated[
        Path | None,
        _option(
            WHO,
            "What /metrics wants as a bearer token; also REGARD_METRICS_TOKEN, LT_METRICS_AUTH_TOKEN.",
            "METRICS_TOKEN_FILE",
            metavar="FILE",
        ),
    ] = None,
    char_limit: Annotated[
        int, _option(HOW_MUCH, "Characters of a request's text; -1 is any.", "CHAR_LIMIT", libre=True)
    ] = 100_000,
    batch_limit: Annotated[int, _option(HOW_MUCH, "Texts of a request; -1 is any.", "BATCH_LIMIT", libre=True)] = 1000,
    alternatives_limit: Annotated[
        int, _option(HOW_MUCH, "Alternatives of a translation; -1 is any.", "ALTERNATIVES_LIMIT", libre=True)
    ] = 16,
    req_limit: Annotated[
        int, _option(HOW_MUCH, "Requests a minute of one key or address; -1 is any.", "REQ_LIMIT", libre=True)
    ] = -1,
    beam_limit: Annotated[int, _option(HOW_MUCH, "Hypotheses kept while searching.", "BEAM_LIMIT")] = 32,
    text_limit: Annotated[
        int, _option(HOW_MUCH, "Bytes of a body that is JSON or a form.", "TEXT_LIMIT", metavar="BYTES")
    ] = 1 << 20,
    body_limit: Annotated[
        int, _option(HOW_MUCH, "Bytes of any other body: pictures, sounds.", "BODY_LIMIT", metavar="BYTES")
    ] = 16 << 20,
    queue_limit: Annotated[
        int, _option(HOW_MUCH, "Sentences that wait; more are refused until there is room.", "QUEUE_LIMIT")
    ] = 4096,
    wait_limit: Annotated[
        float,
        _option(HOW_MUCH, "A request that would wait longer is refused at once.", "WAIT_LIMIT", metavar="SECONDS"),
    ] = 20.0,
    timeout: Annotated[
        float, _option(HOW_MUCH, "A request that takes longer is ended.", "TIMEOUT", metavar="SECONDS")
    ] = 120.0,
    grace: Annotated[
        float,
        _option(HOW_MUCH, "What requests under way are given when the server stops.", "GRACE", metavar="SECONDS"),
    ] = 30.0,
    quiet: Annotated[bool, _option(OTHER, "No line on stderr for each request.", "QUIET", "--quiet", "-q")] = False,
    threads: Annotated[int, typer.Option(hidden=True)] = 0,
    disable_web_ui: Annotated[bool, typer.Option("--disable-web-ui", hidden=True)] = False,
) -> None:
    """Serve models over HTTP, in the contracts of LibreTranslate and DeepL and one of our own.

    Try it: regard serve, then in another shell: curl -d q=Bonjour -d source=fr -d target=en
    http://127.0.0.1:5000/translate

    Every option is also an environment variable: REGARD_PORT for --port, and LT_PORT where LibreTranslate has it.
    Those that may be repeated are separated by spaces there. SIGTERM or Ctrl-C lets requests finish, then stops.
    """
    # LibreTranslate's --threads and --disable-web-ui are taken and change nothing: requests are batched, not threaded.
    from regard.serving.settings import Settings

    settings = Settings(
        models=_between(model, load_only),
        host=host,
        port=_port(port),
        url_prefix=_prefix(url_prefix),
        device=device,
        precision=precision.value,
        workers=workers,
        worker_memory=worker_memory,
        load_timeout=load_timeout,
        api_keys=(*_secrets(api_key_file), *_said("REGARD_API_KEY")),
        key_link=key_link,
        allow_origins=tuple(allow_origin or ()),
        allow_hosts=tuple(allow_host or ()),
        trusted_proxies=tuple(trusted_proxy or ()),
        log=not quiet,
        metrics=metrics,
        metrics_token=_token(metrics_token_file),
        char_limit=char_limit,
        batch_limit=batch_limit,
        alternatives_limit=alternatives_limit,
        beam_limit=beam_limit,
        req_limit=req_limit,
        text_limit=text_limit,
        body_limit=body_limit,
        queue_limit=queue_limit,
        wait_limit=wait_limit,
        timeout=timeout,
        grace=grace,
        translation_cache=_cache(translation_cache),
    )
    check(settings)

    from regard.serving.http.server import serve as run

    raise typer.Exit(run(settings, say))


def check(settings: Settings) -> None:
    """Refuses numbers that make no sense, before anything is loaded."""
    for name, (least, most) in RANGES.items():
        value = getattr(settings, name)
        if value > most:
            raise UserError(f"--{name.replace('_', '-')}: {value:g} is too much; the most is {most:g}")
        if not value >= least and not (name in OPEN and value == -1):
            said = f"--{name.replace('_', '-')}: {value:g} is too little; the least is {least:g}"
            raise UserError(f"{said}, or -1 for no limit" if name in OPEN else said)


def _between(models: Sequence[str], codes: str) -> tuple[str, ...]:
    """Of models and folders of models, those between the languages; what does not translate stays."""
    languages = set(_words(codes.lower()))
    if not languages:
        return tuple(models)
    from regard.serving.catalogue import read_catalogue

    kept, left_out = [], []
    for name in models:
        found = list(read_catalogue([name]).models.values())
        for one in found:
            # One of several in a folder goes by the folder in it that the model is in, or is.
            own = name if len(found) == 1 else str(Path(name, one.folder.relative_to(name).parts[0]))
            if one.task != "translate" or {one.source, one.target} <= languages:
                kept.append(own)
            else:
                left_out.append(f"{one.source}-{one.target}")
    if not kept:
        raise UserError(f"--load-only {codes}: no model is between these languages; there is: {', '.join(left_out)}")
    return tuple(kept)


def _words(text: str) -> list[str]:
    return re.split(r"[\s,]+", text.strip(" ,")) if text.strip(" ,") else []


def _prefix(said: str) -> str:
    plain = said.strip("/")
    if not re.fullmatch(r"[A-Za-z0-9._~/-]*", plain) or ".." in plain or "//" in plain:
        raise UserError(f"--url-prefix: '{said}' is no path of a server; write it like /translate")
    return f"/{plain}" if plain else ""


def _secrets(path: Path | None) -> list[str]:
    """The lines of a file that not everybody may read. None of them is ever in a message."""
    if path is None:
        return []
    try:
        if os.name != "nt" and path.stat().st_mode & stat.S_IRWXO:
            raise UserError(
                f"{path}: anybody may read this file, which holds secrets; type: chmod o= {shlex.quote(str(path))}"
            )
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text in UTF-8; write one key a line") from None
    if found := [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]:
        return _sendable(found, str(path))
    raise UserError(f"{path}: holds no key; write one a line")


def _said(*variables: str) -> list[str]:
    """Secrets of the environment, which this process's children do not inherit."""
    found = [(name, os.environ.pop(name, "").strip()) for name in variables]
    return [_sendable([secret], name)[0] for name, secret in found if secret]


def _sendable(secrets: list[str], where: str) -> list[str]:
    """A secret goes through headers: characters that cannot be sent would make it one that nobody has."""
    if any(not re.fullmatch(r"[\x21-\x7e]+", secret) for secret in secrets):
        raise UserError(f"{where}: a key is one word of plain ASCII letters, digits and signs")
    return secrets


def _token(path: Path | None) -> str:
    found = [*_secrets(path), *_said("REGARD_METRICS_TOKEN", "LT_METRICS_AUTH_TOKEN")]
    return found[0] if found else ""
