"""A view as one self-contained HTML file: its pictures, its values, and a small script.

Values are embedded as escaped JSON, which cannot close the script element, and the content security policy allows no
script but the one whose hash it names: text from a model cannot run as code.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from html import escape
from pathlib import Path

from regard.inspection.draw.style import printable
from regard.inspection.draw.view import Picture, View
from regard.inspection.trace.base import Trace

_UNSAFE = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def page(trace: Trace, view: View) -> str:
    """All pictures of a view. The script finds the marks of a picture by their names (`data-at`)."""
    style, script = _asset("page.css"), _asset("page.js")
    pictures = "\n".join(_figure(one, number) for number, one in enumerate(view.pictures))
    texts = "\n".join(f'<p class="text" dir="{side.direction}">{_safe(side.text)}</p>' for side in trace.texts())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_safe(f"{view.name}: {trace.texts()[0].text}")}</title>
<style>
{style}</style>
</head>
<body>
<main>
<header>
<p class="about">{_safe(view.about)}</p>
{texts}
<p class="model">{_safe(trace.model)}</p>
</header>
{pictures}
<output id="said" aria-live="polite"></output>
<p class="take"><button type="button" id="values">Save the values (JSON)</button></p>
</main>
<script type="application/json" id="seen">{embeddable(trace.json(view.parts))}</script>
<script>{script}</script>
</body>
</html>
"""


def embeddable(json: str) -> str:
    """JSON escaped for a script element: it parses to the same values."""
    return json.translate(_UNSAFE)


def framed(page: str) -> str:
    """The page in a sandboxed frame, for a notebook: neither can access the other."""
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
def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _safe(words: str) -> str:
    return escape(printable(words), quote=True)
