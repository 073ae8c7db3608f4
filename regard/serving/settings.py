"""What a server may be told: limits, doors and workers. Names and defaults are LibreTranslate's where it has them."""

from __future__ import annotations

from dataclasses import dataclass

MEBIBYTE = 1 << 20
MAX_MESSAGE_BYTES = 64 * MEBIBYTE
"""Of one line between the HTTP process and a worker. A worker answers nothing longer; a longer line is not read."""


@dataclass(frozen=True)
class Settings:
    """A limit of -1 means none."""

    models: tuple[str, ...] = ("fr-en",)
    host: str = "127.0.0.1"
    port: int = 5000
    url_prefix: str = ""
    """Where the server lives below a proxy, such as /translate."""
    device: str = "auto"
    precision: str = "auto"
    workers: int = 0
    """Processes that own the models; 0 means one for each core of a CPU, at most four, and one on a GPU."""
    warm: bool = True
    """Whether a worker tries each translator once before it says that it is ready, so that nobody waits for that."""
    threads: int = 0
    """With which a worker computes; 0 means its share of the cores."""
    load_timeout: float = 120.0
    """Seconds that one model may take to load."""
    worker_memory: int = 0
    """Mebibytes of memory that a worker may ask for; 0 means no limit."""

    # Who may ask.
    api_keys: tuple[str, ...] = ()
    """When there are any, everything that computes wants one of them."""
    key_link: str = ""
    """Where one gets a key, said to those who have none."""
    allow_origins: tuple[str, ...] = ()
    """Pages of other sites that may call the server (CORS)."""
    allow_hosts: tuple[str, ...] = ()
    """Names besides localhost and its addresses that a request may be sent to (the Host header)."""
    trusted_proxies: tuple[str, ...] = ()
    """ClientAddresses whose X-Forwarded-For is believed."""
    log: bool = True
    """A line on stderr for each request that was answered."""
    metrics: bool = False
    metrics_token: str = ""

    # How much they may ask for.
    char_limit: int = 100_000
    batch_limit: int = 1000
    alternatives_limit: int = 16
    beam_limit: int = 32
    req_limit: int = -1
    """Requests a minute of one key or address."""
    text_limit: int = MEBIBYTE
    """Bytes of a body that is JSON or a form."""
    body_limit: int = 16 * MEBIBYTE
    """Bytes of any other body: pictures, sounds."""
    queue_limit: int = 4096
    """Sentences, or other jobs, that wait; more are refused."""
    wait_limit: float = 20.0
    """Seconds that a request may be expected to wait before it is worked on; else it is refused."""
    timeout: float = 120.0
    """Seconds after which a request is ended, whatever it waits for."""
    grace: float = 30.0
    """Seconds that requests under way are given when the server is told to stop."""
    translation_cache: int = 0
    """Sentences whose translations are kept."""
