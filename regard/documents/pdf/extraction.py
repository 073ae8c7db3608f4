"""Reads a PDF in a process of its own, with limits on memory and time: the file may come from anyone."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import astuple

from regard.child_process import child_environment, python_command
from regard.documents.document import InvalidDocument
from regard.documents.pdf.lines import lines_of
from regard.documents.pdf.paragraphs import Block, blocks_of
from regard.documents.pdf.runs import TooLarge, pages_of

SECONDS = 60
"""Of processor time: about two thousand dense pages."""
MEMORY = 1 << 30
"""Bytes of address space."""
READABLE = 0.5
"""The share of letters that must be known: fonts may not say which characters their shapes are."""


def extract(content: bytes) -> list[Block]:
    """The text of a PDF as blocks. Raises an InvalidDocument for anything that cannot be read."""
    command = python_command("-m", "regard.documents.pdf.extraction")
    try:
        child = subprocess.run(
            command, input=content, capture_output=True, timeout=2 * SECONDS, env=child_environment()
        )
    except subprocess.TimeoutExpired:
        raise InvalidDocument(f"the PDF takes more than {2 * SECONDS} seconds to read") from None
    if child.returncode == 2:
        raise InvalidDocument(child.stderr.decode(errors="replace").strip().splitlines()[-1][:200])
    if child.returncode:  # the kernel ended it
        raise InvalidDocument("the PDF takes too much memory or time to read")
    return [
        Block(kind, level, label, [[(style, text) for style, text in cell] for cell in cells])
        for kind, level, label, cells in json.loads(child.stdout)
    ]


def _limit() -> None:
    """Memory, time, and no files."""
    if sys.platform == "win32":
        return
    import resource

    limits = ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, SECONDS), (resource.RLIMIT_FSIZE, 0))
    for kind, most in (*limits, (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (most, most))
        except (ValueError, OSError):  # a system without this limit
            continue


def _read(content: bytes) -> list[Block]:
    from io import BytesIO

    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    if not content[:1024].lstrip().startswith(b"%PDF-"):
        raise InvalidDocument("the file is no PDF: it does not begin with %PDF")
    reader = PdfReader(BytesIO(content))
    try:
        if reader.is_encrypted and not reader.decrypt(""):
            raise InvalidDocument("the document is encrypted; save it without a password")
    except DependencyError:
        raise InvalidDocument("the document is encrypted; save it without a password") from None
    lines = lines_of(pages_of(reader))
    text = "".join(line.text for line in lines)
    if not any(map(str.isalnum, text)):
        raise InvalidDocument("the PDF has no text: its pages are pictures; run text recognition (OCR) on it first")
    known = sum(character.isprintable() and not "\ue000" <= character <= "\uf8ff" for character in text)
    if known < READABLE * len(text):
        raise InvalidDocument("the fonts of the PDF do not say which characters they show; run text recognition (OCR)")
    return blocks_of(lines)


def main() -> int:
    """The child process: a PDF on standard input, blocks as JSON on standard output."""
    logging.disable()
    try:
        import pypdf  # noqa: F401
    except ImportError:
        print("reading PDF needs a package; type: pip install 'regard[documents]'", file=sys.stderr)
        return 2
    _limit()
    try:
        found = _read(sys.stdin.buffer.read())
        json.dump([astuple(block) for block in found], sys.stdout)
    except (InvalidDocument, TooLarge) as error:
        print(error, file=sys.stderr)
        return 2
    except MemoryError:
        print("the PDF takes too much memory to read", file=sys.stderr)
        return 2
    except Exception as error:  # pypdf raises many kinds for damaged files
        print(f"the PDF is damaged: {' '.join(str(error).split())[:120] or type(error).__name__}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
