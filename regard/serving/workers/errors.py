"""The errors that a worker pool raises to the HTTP side."""

from __future__ import annotations

import math


class ServerBusy(Exception):
    """The queue is full, or the expected wait is too long."""

    def __init__(self, retry_after: float):
        self.retry_after = max(1, math.ceil(retry_after))
        super().__init__(f"The server is busy; try again in {self.retry_after} s")


class JobFailed(Exception):
    """The job ran out of memory or its worker died. The next request may succeed."""


class JobRefused(Exception):
    """The model cannot process this request; the message says why in one line."""
