"""The page to translate at /, and its files below /page.

Only files of the package are served, looked up in a listing. They are the same for everybody and name no model, so they
need no key; what the page then asks for does.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response

from regard.serving.http.api_keys import PAGE
from regard.serving.http.http_error import HttpError
from regard.serving.http.response_headers import CSP_NOTHING

SERVING = Path(__file__).parents[2]
FOLDER, STUDIO = SERVING / "page", SERVING.parent / "studio" / "page"
SHARED = ("ask.js", "dom.js", "messages.js", "studio.css", "terms.js", "theme.js")
"""The studio's files that this page is built from. Paths, not imports: the studio depends on the server."""
TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
POLICY = (
    f"{CSP_NOTHING}; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; worker-src 'self'"
)
"""Content security policy: the page's own scripts and styles, which may ask this server; nothing inline or external."""


def router() -> APIRouter:
    routes = APIRouter()
    files = page_files()

    def answered(name: str, **headers: str) -> Response:
        content, kind = files[name].read_bytes(), TYPES[files[name].suffix]
        return Response(content, media_type=kind, headers={"Content-Security-Policy": POLICY, **headers})

    @routes.get("/", include_in_schema=False)
    async def home() -> Response:
        return answered("index.html")

    @routes.get(PAGE + "/{name}", include_in_schema=False)
    async def file(request: Request, name: str) -> Response:
        if name not in files or name == "index.html":
            raise HttpError(404, "Not found")
        if name == "service_worker.js":  # it may answer for the page itself, which is above its folder
            return answered(name, **{"Service-Worker-Allowed": f"{request.scope.get('root_path', '')}/"})
        return answered(name)

    return routes


def page_files() -> dict[str, Path]:
    own = {path.name: path for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES}
    return {**{name: STUDIO / name for name in SHARED}, **own}
