"""Security headers of every response: no framing, no sniffing, no caching. Routes may override them."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CSP_NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
CSP_PAGE = f"{CSP_NOTHING}; style-src 'self'; img-src data:"
"""Pages may use our style sheet; no scripts, nothing external."""
DEFAULTS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class ResponseHeadersMiddleware:
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
                headers.setdefault("Content-Security-Policy", CSP_PAGE if is_page else CSP_NOTHING)
                for name, value in DEFAULTS.items():
                    headers.setdefault(name, value)
                headers["X-Request-ID"] = scope["state"]["id"]
                headers.update(scope["state"].get("cors", {}))
                if scope["state"].get("vary_origin"):
                    headers.add_vary_header("Origin")
                if scope["app"].state.draining:
                    headers["Connection"] = "close"  # so that the client's next request goes to another server
                del headers["Server"]
            await send(message)

        await self.app(scope, receive, send_with_headers)
