"""A view as one HTML file that needs nothing else: its pictures, its values, and a small script of our own.

Values are embedded as JSON in which nothing can end the element it stands in, and the page runs no script but the one
whose hash it names: whatever the words of a text are, they stay words. Knows nothing of models.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from html import escape
from pathlib import Path

from regard.inspection.draw.style import printable
from regard.inspection.trace.base import Picture, Shown, View

_UNSAFE = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def page(seen: Shown, view: View) -> str:
    """All pictures of a view. Marks that a picture names (`data-at`) are what the script finds and changes."""
    style, script = _own("page.css"), _own("page.js")
    pictures = "\n".join(_figure(one, number) for number, one in enumerate(view.pictures))
    texts = "\n".join(f'<p class="text" dir="{side.direction}">{_safe(side.text)}</p>' for side in seen.texts())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_safe(f"{view.name}: {seen.texts()[0].text}")}</title>
<style>
{style}</style>
</head>
<body>
<main>
<header>
<p class="about">{_safe(view.about)}</p>
{texts}
<p class="model">{_safe(seen.model)}</p>
</header>
{pictures}
<output id="said" aria-live="polite"></output>
<p class="take"><button type="button" id="values">Save the values (JSON)</button></p>
</main>
<script type="application/json" id="seen">{embedded(seen.json(view.parts))}</script>
<script>{script}</script>
</body>
</html>
"""


def embedded(json: str) -> str:
    """JSON that may stand in a script element: as JSON it says the same."""
    return json.translate(_UNSAFE)


def framed(page: str) -> str:
    """The page inside another, such as a notebook: in a frame that can neither see it nor be seen by it."""
    heights = [int(found) for found in re.findall(r'<svg [^>]*? height="(\d+)"', page)]
    high = min(1000, 260 + sum(heights[:1]))
    allowed = "allow-scripts allow-downloads"
    frame = f'sandbox="{allowed}" style="width:100%;height:{high}px;border:0" title="regard"'
    return f'<iframe {frame} srcdoc="{escape(page, quote=True)}"></iframe>'


def _figure(picture: Picture, number: int) -> str:
    picked = f' data-kind="{picture.kind}"' if picture.kind else ""
    return f"""<figure id="picture-{number}"{picked}>
<figcaption><h2>{_safe(picture.heading)}</h2>{_pickers(picture)}
<button type="button" class="save">Save as SVG</button></figcaption>
<div class="scroll" tabindex="0">
{picture.svg()}</div>
</figure>"""


def _pickers(picture: Picture) -> str:
    if not picture.kind:
        return ""
    counts = {"layer": (picture.layers, picture.layer), "head": (picture.heads, picture.head)}
    return "".join(
        f'<label>{name} <select name="{name}">'
        + "".join(f"<option{' selected' if i == chosen else ''}>{i}</option>" for i in range(count))
        + "</select></label>"
        for name, (count, chosen) in counts.items()
    )


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


@functools.cache
def _own(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _safe(words: str) -> str:
    return escape(printable(words), quote=True)
