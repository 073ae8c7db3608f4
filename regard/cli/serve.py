"""`regard serve`: the settings of a server, from options and environment variables (the server: regard/serving)."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.command import Command
from regard.cli.models import model_names
from regard.cli.options import MOST_BEAMS, device_name
from regard.cli.terminal import Engine, Precision, say
from regard.errors import UserError

MODELS, ADDRESS, ACCESS, LIMITS, OTHER = "Models", "Address", "Access", "Limits", "Other"
DEFAULT_CACHE = 10_000
"""Sentences of `--translation-cache all`, LibreTranslate's spelling."""
DAY = 86_400
MANY = 1 << 30


class Grouped(Command):
    """A command whose help groups options under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            if record := option.get_help_record(ctx):
                groups.setdefault(getattr(option, "rich_help_panel", None) or OTHER, []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def _option(group: str, help: str, variable: str, *names: str, libre: bool = False, **more: Any) -> Any:
    """An option that is also REGARD_<variable> and, if LibreTranslate has it (`libre`), LT_<variable>."""
    variables = [f"REGARD_{variable}", *([f"LT_{variable}"] if libre else [])]
    return typer.Option(*names, help=help, envvar=variables, show_envvar=False, rich_help_panel=group, **more)


def _limit(option: str, limit: int) -> int:
    """-1 means no limit, as in LibreTranslate; 0 would refuse every request."""
    if limit == 0:
        raise UserError(f"{option}: wants a whole number of at least 1, or -1 for no limit, given 0")
    return limit


def _port(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", value) or not int(value) <= 65535:
        raise UserError(f"--port: '{value}' is not a port; choose a number up to 65535, such as 5000, or 0 for any")
    return int(value)


def _cache(value: str) -> int:
    if value != "all" and not re.fullmatch(r"[0-9]{1,9}", value):  # not echoed: LibreTranslate takes keys here
        raise UserError("--translation-cache: give a number of sentences, such as 10000, or all")
    return DEFAULT_CACHE if value == "all" else int(value)


def serve(
    model: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="A shipped or imported model, a model folder, a run, hf:NAME, or a folder of models.",
            envvar="REGARD_MODEL",
            show_envvar=False,
            rich_help_panel=MODELS,
            autocompletion=model_names,
        ),
    ] = ["fr-en"],  # noqa: B006
    load_only: Annotated[
        str,
        _option(
            MODELS,
            "Only these languages, such as fr,en: models and directions between them.",
            "LOAD_ONLY",
            libre=True,
            metavar="CODES",
        ),
    ] = "",
    device: Annotated[str, _option(MODELS, "auto, cpu, cuda, cuda:1 or mps.", "DEVICE", callback=device_name)] = "auto",
    precision: Annotated[
        Precision, _option(MODELS, "Numeric precision; auto is the fastest on the device.", "PRECISION")
    ] = Precision.auto,
    engine: Annotated[
        Engine, _option(MODELS, "What computes it; auto takes ctranslate2 for translators on a CPU.", "ENGINE")
    ] = Engine.auto,
    workers: Annotated[
        int,
        _option(MODELS, "Worker processes; 0 is one per core, up to 4, or one on a GPU.", "WORKERS", min=0, max=1024),
    ] = 0,
    worker_memory: Annotated[
        int,
        _option(MODELS, "Memory limit of a worker; 0 is no limit.", "WORKER_MEMORY", metavar="MIB", min=0, max=MANY),
    ] = 0,
    load_timeout: Annotated[
        float, _option(MODELS, "Time to load one model.", "LOAD_TIMEOUT", metavar="SECONDS", min=0.001, max=DAY)
    ] = 120.0,
    translation_cache: Annotated[
        str,
        _option(
            MODELS,
            "Size of the translation cache: a number, or all.",
            "TRANSLATION_CACHE",
            libre=True,
            metavar="SENTENCES",
        ),
    ] = "0",
    host: Annotated[
        str, _option(ADDRESS, "Address to listen on; 0.0.0.0 is all networks.", "HOST", libre=True)
    ] = "127.0.0.1",
    port: Annotated[
        str, _option(ADDRESS, "Up to 65535; 0 picks a free port.", "PORT", libre=True, metavar="PORT")
    ] = "5000",
    url_prefix: Annotated[
        str, _option(ADDRESS, "Path prefix behind a proxy, such as /translate.", "URL_PREFIX", libre=True)
    ] = "",
    api_key_file: Annotated[
        Path | None,
        _option(
            ACCESS,
            "File with one API key per line; requests then need one. A single key may be in REGARD_API_KEY.",
            "API_KEY_FILE",
            metavar="FILE",
        ),
    ] = None,
    state: Annotated[
        str,
        _option(
            ACCESS,
            "What servers share, keys (regard keys) and counts of requests: a file, or redis://HOST.",
            "STATE",
            metavar="FILE|URL",
        ),
    ] = "",
    key_link: Annotated[
        str, _option(ACCESS, "Where to get a key; shown to clients without one.", "KEY_LINK", metavar="URL")
    ] = "",
    allow_origin: Annotated[
        list[str] | None,
        _option(
            ACCESS, "Origin of pages that may call the server (CORS). Repeatable.", "ALLOW_ORIGIN", metavar="ORIGIN"
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        _option(ACCESS, "Accepted Host header. Repeatable.", "ALLOW_HOST", metavar="NAME"),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        _option(
            ACCESS,
            "Address of a proxy whose X-Forwarded-For is trusted. Repeatable.",
            "TRUSTED_PROXY",
            metavar="ADDRESS",
        ),
    ] = None,
    metrics: Annotated[
        bool, _option(ACCESS, "Serve /metrics for Prometheus.", "METRICS", "--metrics", libre=True)
    ] = False,
    metrics_token_file: Annotated[
        Path | None,
        _option(
            ACCESS,
            "File with the bearer token for /metrics; also REGARD_METRICS_TOKEN, LT_METRICS_AUTH_TOKEN.",
            "METRICS_TOKEN_FILE",
            metavar="FILE",
        ),
    ] = None,
    suggestions: Annotated[
        str,
        _option(
            ACCESS,
            "Take corrections of users (/suggest) and keep them in this file (regard suggestions).",
            "SUGGESTIONS",
            metavar="FILE",
        ),
    ] = "",
    telemetry: Annotated[
        str,
        _option(
            ACCESS,
            "Send OpenTelemetry traces to this collector, such as http://127.0.0.1:4318.",
            "TELEMETRY",
            metavar="URL",
        ),
    ] = "",
    char_limit: Annotated[
        int, _option(LIMITS, "Characters per request; -1 is no limit.", "CHAR_LIMIT", libre=True, min=-1, max=1 << 40)
    ] = 100_000,
    document_limit: Annotated[
        int,
        _option(
            LIMITS, "Characters per document; 0: no documents; -1: no limit.", "DOCUMENT_LIMIT", min=-1, max=1 << 40
        ),
    ] = 1_000_000,
    batch_limit: Annotated[
        int, _option(LIMITS, "Texts per request; -1 is no limit.", "BATCH_LIMIT", libre=True, min=-1, max=MANY)
    ] = 1000,
    alternatives_limit: Annotated[
        int,
        _option(
            LIMITS, "Alternatives per translation; -1 is no limit.", "ALTERNATIVES_LIMIT", libre=True, min=-1, max=MANY
        ),
    ] = 16,
    req_limit: Annotated[
        int,
        _option(
            LIMITS, "Requests per minute and key or address; -1 is no limit.", "REQ_LIMIT", libre=True, min=-1, max=MANY
        ),
    ] = -1,
    beam_limit: Annotated[int, _option(LIMITS, "Largest beam width.", "BEAM_LIMIT", min=1, max=MOST_BEAMS)] = 32,
    text_limit: Annotated[
        int, _option(LIMITS, "Size of a JSON or form body.", "TEXT_LIMIT", metavar="BYTES", min=1, max=1 << 40)
    ] = 1 << 20,
    body_limit: Annotated[
        int,
        _option(LIMITS, "Size of any other body: images, sounds.", "BODY_LIMIT", metavar="BYTES", min=1, max=1 << 40),
    ] = 16 << 20,
    queue_limit: Annotated[
        int, _option(LIMITS, "Sentences in the queue; further ones are refused.", "QUEUE_LIMIT", min=1, max=MANY)
    ] = 4096,
    wait_limit: Annotated[
        float,
        _option(
            LIMITS, "Requests that would wait longer are refused.", "WAIT_LIMIT", metavar="SECONDS", min=0.001, max=DAY
        ),
    ] = 20.0,
    timeout: Annotated[
        float,
        _option(LIMITS, "Requests that take longer are aborted.", "TIMEOUT", metavar="SECONDS", min=0.001, max=DAY),
    ] = 120.0,
    drain: Annotated[
        float,
        _option(
            LIMITS,
            "After SIGTERM, serve for this long without being ready, so that balancers notice.",
            "DRAIN",
            metavar="SECONDS",
            min=0,
            max=DAY,
        ),
    ] = 0.0,
    grace: Annotated[
        float,
        _option(LIMITS, "Time for running requests when the server stops.", "GRACE", metavar="SECONDS", min=0, max=DAY),
    ] = 30.0,
    disable_web_ui: Annotated[
        bool,
        _option(
            OTHER,
            "No page to translate at /, only the documentation.",
            "DISABLE_WEB_UI",
            "--disable-web-ui",
            libre=True,
        ),
    ] = False,
    quiet: Annotated[bool, _option(OTHER, "Do not log requests on stderr.", "QUIET", "--quiet", "-q")] = False,
    threads: Annotated[int, typer.Option(hidden=True)] = 0,
) -> None:
    """Serve models over HTTP with the APIs of LibreTranslate and DeepL, and our own.

    Try it: regard serve, then in another shell: curl -d q=Bonjour -d source=fr -d target=en
    http://127.0.0.1:5000/translate

    Every option is also an environment variable: REGARD_PORT for --port, and LT_PORT if LibreTranslate has it.
    Repeatable ones are separated by spaces there. SIGTERM or Ctrl-C lets running requests finish, then stops.
    """
    # LibreTranslate's --threads is accepted and ignored: requests are batched.
    from regard.serving.settings import Settings

    settings = Settings(
        models=_between(model, load_only),
        load_only=_codes(load_only),
        host=host,
        port=_port(port),
        url_prefix=_prefix(url_prefix),
        device=device,
        precision=precision.value,
        engine=engine.value,
        workers=workers,
        worker_memory=worker_memory,
        load_timeout=load_timeout,
        api_keys=(*_secrets(api_key_file), *_from_environment("REGARD_API_KEY")),
        state=_state(state),
        key_link=key_link,
        allow_origins=tuple(allow_origin or ()),
        allow_hosts=tuple(allow_host or ()),
        trusted_proxies=tuple(trusted_proxy or ()),
        log=not quiet,
        metrics=metrics,
        metrics_token=_token(metrics_token_file),
        suggestions=suggestions,
        web_page=not disable_web_ui,
        telemetry=_traces(telemetry),
        char_limit=_limit("--char-limit", char_limit),
        document_limit=document_limit,
        batch_limit=_limit("--batch-limit", batch_limit),
        alternatives_limit=alternatives_limit,
        beam_limit=beam_limit,
        req_limit=_limit("--req-limit", req_limit),
        text_limit=text_limit,
        body_limit=body_limit,
        queue_limit=queue_limit,
        wait_limit=wait_limit,
        timeout=timeout,
        drain=drain,
        grace=grace,
        translation_cache=_cache(translation_cache),
    )
    from regard.serving.http.server import serve as run

    raise typer.Exit(run(settings, say))


def _between(models: Sequence[str], codes: str) -> tuple[str, ...]:
    """Keeps the models between these languages, and models of other tasks."""
    languages = _codes(codes)
    if not languages:
        return tuple(models)
    from regard.serving.catalogue import read_catalogue

    kept, left_out = [], []
    for name in models:
        found = list(read_catalogue([name]).models.values())
        for one in found:
            # One of several models in a folder is named by its subfolder.
            own = name if len(found) == 1 else str(Path(name, one.folder.relative_to(name).parts[0]))
            if one.task != "translate" or one.between(languages):
                kept.append(own)
            else:
                left_out.append(one.name if one.multilingual else f"{one.source}-{one.target}")
    if not kept:
        raise UserError(f"--load-only {codes}: no model for these languages; available: {', '.join(left_out)}")
    return tuple(kept)


def _codes(text: str) -> tuple[str, ...]:
    """The languages of `--load-only`."""
    from regard.languages import internal

    return tuple(map(internal, _words(text)))


def _words(text: str) -> list[str]:
    return re.split(r"[\s,]+", text.strip(" ,")) if text.strip(" ,") else []


def _prefix(value: str) -> str:
    plain = value.strip("/")
    if not re.fullmatch(r"[A-Za-z0-9._~/-]*", plain) or ".." in plain or "//" in plain:
        raise UserError(f"--url-prefix: '{value}' is not a URL path; write it like /translate")
    return f"/{plain}" if plain else ""


def _secrets(path: Path | None) -> list[str]:
    """The lines of a file that is not world-readable. They never appear in a message."""
    if path is None:
        return []
    try:
        if os.name != "nt" and path.stat().st_mode & stat.S_IRWXO:
            raise UserError(
                f"{path}: this file holds secrets but is world-readable; run: chmod o= {shlex.quote(str(path))}"
            )
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; write one key per line") from None
    if found := [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]:
        return _sendable(found, str(path))
    raise UserError(f"{path}: contains no key; write one per line")


def _from_environment(*variables: str) -> list[str]:
    """Secrets from the environment, removed so that child processes do not inherit them."""
    found = [(name, os.environ.pop(name, "").strip()) for name in variables]
    return [_sendable([secret], name)[0] for name, secret in found if secret]


def _traces(url: str) -> str:
    """Where traces are sent: `--telemetry`, or what OpenTelemetry's variables say. The exporter reads the others. They
    may have been set for every program of a machine, so they alone do not keep a server from starting."""
    if not url:
        turned_off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
        if turned_off or os.environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
            return ""
        url = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").rstrip("/")
        found = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "") or (f"{url}/v1/traces" if url else "")
        if found and not (find_spec("opentelemetry") and find_spec("opentelemetry.sdk")):
            say("OTEL_EXPORTER_OTLP_ENDPOINT: no traces are sent; for them type: pip install 'regard[telemetry]'")
            return ""
        return found
    if not re.fullmatch(r"https?://[^/\s]+(/\S*)?", url):
        raise UserError("--telemetry: not a URL of a collector; write it like http://127.0.0.1:4318")
    return f"{url.rstrip('/')}/v1/traces" if url.count("/") == 2 or re.fullmatch(r"https?://[^/]+/", url) else url


def _state(where: str) -> str:
    """A URL may hold a password, so child processes do not inherit it."""
    os.environ.pop("REGARD_STATE", None)
    return where


def _sendable(secrets: list[str], where: str) -> list[str]:
    """Refuses secrets with characters that cannot be sent in a header."""
    if any(not re.fullmatch(r"[\x21-\x7e]+", secret) for secret in secrets):
        raise UserError(f"{where}: a key consists of printable ASCII characters without spaces")
    return secrets


def _token(path: Path | None) -> str:
    found = [*_secrets(path), *_from_environment("REGARD_METRICS_TOKEN", "LT_METRICS_AUTH_TOKEN")]
    return found[0] if found else ""
