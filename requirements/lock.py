"""Writes run.txt and dev.txt: every package that `make run` and `make test` install, with the hashes of its files.

Versions come from constraints.txt, hashes from the package index, through pip-compile (`pip install pip-tools`). Run it
in an environment with the dev extra after a change of pyproject.toml or constraints.txt. torch is left out: which build
of it is installed is the user's choice, and each has hashes of its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent
ROOT = HERE.parent
OPTIONS = ["--generate-hashes", "--no-annotate", "--no-header", "--strip-extras", "--allow-unsafe", "--quiet"]
OPTIONS += ["--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host", "--unsafe-package", "torch"]
HEADER = (
    "# Written by requirements/lock.py from constraints.txt. Installed with: pip install --require-hashes --no-deps\n"
)


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        compiled = Path(place, "all.txt")
        command = [
            sys.executable,
            "-m",
            "piptools",
            "compile",
            *OPTIONS,
            "--extra",
            "dev",
            "-c",
            "constraints.txt",
            "-o",
            str(compiled),
        ]
        subprocess.run([*command, "pyproject.toml"], cwd=ROOT, check=True)
        found = blocks(compiled.read_text())
    run = closure("regard")
    for file, names in (("run.txt", found.keys() & run), ("dev.txt", found.keys() - run)):
        (HERE / file).write_text(HEADER + "".join(found[name] for name in sorted(names)))
        print(f"{file}: {len(names)} packages", file=sys.stderr)


def blocks(text: str) -> dict[str, str]:
    """Package -> its line with all its hashes."""
    found = re.findall(r"^([\w.-]+)(==\S+ \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE)
    return {str(canonicalize_name(name)): name + rest for name, rest in found if name != "torch"}


def closure(name: str) -> set[str]:
    """The packages that a package needs here, without extras, directly or not."""
    found: set[str] = set()
    waiting = [(name, frozenset[str]())]
    while waiting:
        package, extras = waiting.pop()
        for text in requires(package) or []:
            needed = Requirement(text)
            contexts = [{"extra": extra} for extra in extras] or [{"extra": ""}]
            if needed.marker and not any(map(needed.marker.evaluate, contexts)):
                continue
            key = str(canonicalize_name(needed.name))
            if key not in found or needed.extras:
                found.add(key)
                waiting.append((key, frozenset(needed.extras)))
    return found


if __name__ == "__main__":
    main()
