"""What every answer tells browsers: show it to no other site, guess nothing, keep nothing. A route may differ."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
A_PAGE = f"{NOTHING}; style-src 'self'; img-src data:"
"""A page may have a style sheet of ours; no script, and nothing from elsewhere."""
USUAL = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Headers:
    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                is_page = headers.get("content-type", "").startswith("text/html")
                headers.setdefault("Content-Security-Policy", A_PAGE if is_page else NOTHING)
                for name, value in USUAL.items():
                    headers.setdefault(name, value)
                headers["X-Request-ID"] = scope["state"]["id"]
                headers.update(scope["state"].get("cors", {}))
                if scope["state"].get("by_origin"):
                    headers.add_vary_header("Origin")
                del headers["Server"]
            await send(message)

        await self.app(scope, receive, send_with_headers)
