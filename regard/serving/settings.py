"""Settings of a server: models, workers, access and limits. Names and defaults are LibreTranslate's if it has them."""

from __future__ import annotations

from dataclasses import dataclass

MEBIBYTE = 1 << 20
MAX_MESSAGE_BYTES = 64 * MEBIBYTE
"""Size limit of a message between the HTTP process and a worker, in both directions."""


@dataclass(frozen=True)
class Settings:
    """A limit of -1 means no limit."""

    models: tuple[str, ...] = ("fr-en",)
    load_only: tuple[str, ...] = ()
    """Internal codes of the only languages that are offered; empty for all that the models have."""
    host: str = "127.0.0.1"
    port: int = 5000
    url_prefix: str = ""
    """Path prefix behind a proxy, such as /translate."""
    device: str = "auto"
    precision: str = "auto"
    engine: str = "auto"
    """What computes the models: auto, torch or ctranslate2 (regard/engines)."""
    workers: int = 0
    """Worker processes; 0 means one per CPU core, at most four, or one on a GPU."""
    warm: bool = True
    """Whether a worker warms up each translator before it reports ready."""
    threads: int = 0
    """CPU threads per worker; 0 means its share of the cores."""
    load_timeout: float = 120.0
    """Seconds to load one model."""
    worker_memory: int = 0
    """Mebibytes that a worker may allocate after loading; 0 means no limit."""

    # Access.
    api_keys: tuple[str, ...] = ()
    """If there are any, every route that computes requires one."""
    state: str = ""
    """SQLite file or Redis URL of the store that servers share: more API keys, and the counts of the rate limit."""
    key_link: str = ""
    """Where to get a key; shown to clients without one."""
    allow_origins: tuple[str, ...] = ()
    """Origins of web pages that may call the server (CORS)."""
    allow_hosts: tuple[str, ...] = ()
    """Accepted Host headers besides localhost and the server's addresses."""
    trusted_proxies: tuple[str, ...] = ()
    """Proxies whose X-Forwarded-For is trusted."""
    log: bool = True
    """Whether to log a line per request on stderr."""
    metrics: bool = False
    metrics_token: str = ""
    suggestions: str = ""
    """File that keeps the corrections of users (/suggest); empty: they are refused."""
    web_page: bool = True
    """Whether there is a page to translate at /; else the documentation is there."""
    telemetry: str = ""
    """URL to which traces are sent (OTLP over HTTP); empty for no traces."""

    # Limits.
    char_limit: int = 100_000
    document_limit: int = 1_000_000
    """Characters of a document; 0 means that no documents are translated."""
    batch_limit: int = 1000
    alternatives_limit: int = 16
    beam_limit: int = 32
    req_limit: int = -1
    """Requests per minute and API key or client address."""
    text_limit: int = MEBIBYTE
    """Bytes of a JSON or form body."""
    body_limit: int = 16 * MEBIBYTE
    """Bytes of any other body: images, sounds."""
    queue_limit: int = 4096
    """Sentences and other jobs in the queue; further ones are refused."""
    wait_limit: float = 20.0
    """A request whose expected wait is longer (seconds) is refused."""
    timeout: float = 120.0
    """Seconds after which a request is aborted."""
    drain: float = 0.0
    """Seconds between the signal to stop and refusing requests: the server is not ready, but still serves."""
    grace: float = 30.0
    """Seconds that running requests get to finish when the server stops."""
    translation_cache: int = 0
    """Sentences in the translation cache."""
