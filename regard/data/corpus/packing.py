"""Packs a corpus: in this process, or in a child process so that training starts with the first part of a large one.

The child reads its order as a line of JSON from standard input and exits when that is closed, so it never outlives its
parent. A lock ensures one writer; all others only read.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from regard.child_process import child_environment, python_command
from regard.config import Data
from regard.data import tokenizer as tokenizers
from regard.data.corpus.filters import Filters
from regard.data.corpus.hold_out import HeldOut
from regard.data.corpus.pack import Pack, fingerprint, pack_pairs
from regard.data.corpus.reading import Pair, read_pairs
from regard.data.normalise import made_plain
from regard.data.splitting import make_format
from regard.data.tokenizer._base import Tokenizer
from regard.directions import NO_MARKS, Marks
from regard.errors import UserError
from regard.locking import hold, hold_in_turn

POLL_SECONDS = 0.05
"""Seconds between two checks of what another process has packed."""
FILTERS = ("max_length", "max_ratio", "drop_duplicates", "drop_identical", "drop_wrong_script")


def filter_settings(data: Data) -> dict[str, Any]:
    return {name: value for name, value in asdict(data).items() if name in FILTERS}


@dataclass(frozen=True)
class Order:
    """All that packing needs."""

    folder: Path
    data: Data
    tokenizer: Tokenizer
    held_out: HeldOut
    part: int
    """Lines per part; 0 for a pack that is read when complete."""
    fingerprint: str
    told: Marks = NO_MARKS
    """What tells the model the direction of the text."""

    @classmethod
    def of(
        cls, folder: Path, data: Data, tokenizer: Tokenizer, held_out: HeldOut, part: int, told: Marks = NO_MARKS
    ) -> Order:
        inputs = [*data.source, *data.target, *data.valid_source, *data.valid_target]
        withheld = [data.hold_out, data.hold_out_valid, data.hold_out_test, data.plain_source, data.format]
        settings = filter_settings(data) | {"withheld": withheld}
        settings |= {"part": part} if part else {}
        settings |= {"plain_target": True} if data.plain_target else {}
        settings |= {"told": asdict(told)} if told != NO_MARKS else {}
        return cls(folder, data, tokenizer, held_out, part, fingerprint(inputs, settings, tokenizer.files()), told)

    def to_json(self) -> str:
        files = {name: base64.b64encode(content).decode() for name, content in self.tokenizer.files().items()}
        held = [sorted(self.held_out.sources), sorted(self.held_out.targets)]
        told = astuple(self.told)
        return json.dumps([str(self.folder), asdict(self.data), files, held, self.part, self.fingerprint, told])

    @classmethod
    def from_json(cls, text: str) -> Order:
        folder, data, files, held, part, mark, told = json.loads(text)
        tokenizer = tokenizers.from_files({name: base64.b64decode(content) for name, content in files.items()})
        text, *tags = told
        marks = Marks(text, *map(tuple, tags))
        return cls(Path(folder), Data(**data), tokenizer, HeldOut.of_hashes(*held), part, mark, marks)


def training_pairs(data: Data, mixed: bool = False) -> Iterator[Pair]:
    """Lines of two files (see `read_pairs`), or the pairs of a format that makes its own."""
    return made_pairs(data, "train") if data.format else read_pairs(data.source, data.target, mixed)


def made_pairs(data: Data, part: str) -> Iterator[Pair]:
    kind, pairs = str(data.format.get("kind")), []
    for example in make_format(data).read([], part):
        if not isinstance(example.input, str) or not isinstance(example.target, str):
            raise UserError(f"data.format: a translator needs pairs of texts, not what {kind} gives; use data.source")
        pairs.append((example.input, example.target))
    return iter(pairs)


def pack(order: Order, progress: Callable[[int], None] | None = None) -> Pack:
    source, target, told = order.tokenizer, order.tokenizer.target, order.told

    def encode_source(texts: Sequence[str]) -> list[list[int]]:
        found = source.encode_many([told.text_prefix + text for text in made_plain(texts, order.data.plain_source)])
        return [[*told.before, *ids, *told.after] for ids in found] if told.before or told.after else found

    def encode_target(texts: Sequence[str]) -> list[list[int]]:
        found = target.encode_many(made_plain(texts, order.data.plain_target))
        return [[*told.prefix, *ids] for ids in found] if told.prefix else found

    return pack_pairs(
        training_pairs(order.data, mixed=order.part > 0),
        encode_source,
        encode_target,
        order.folder,
        vocabulary=max(len(source), len(target)),
        filters=Filters(**filter_settings(order.data)),
        held_out=order.held_out,
        fingerprint=order.fingerprint,
        progress=progress,
        part=order.part,
    )


class Packer:
    """The growth of a pack: starts a child that packs, unless another process already does."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._process: subprocess.Popen[str] | None = None
        self._message = ""
        self._starting = threading.Lock()
        self._stopped = threading.Event()

    def start(self) -> None:
        self._stopped.clear()
        self._ensure_running()

    def wait(self) -> None:
        if self._stopped.wait(POLL_SECONDS):
            raise CancelledError
        self._ensure_running()

    def stop(self) -> None:
        self._stopped.set()
        with self._starting:
            if self._process is not None:
                self._process.kill()  # safe at any time: the next one resumes after the last complete part
                self._process.communicate()
                self._process, self._message = None, ""

    def _ensure_running(self) -> None:
        with self._starting:
            if self._process is None:
                lock = hold(_lock(self._order))
                if lock is not None:
                    lock.close()
                    self._process = _start(self._order)
            elif code := self._process.poll():
                self._message = self._message or self._process.communicate()[0].strip()
                raise UserError(self._message or f"the process that tokenises the corpus ended with code {code}")


def _lock(order: Order) -> Path:
    order.folder.parent.mkdir(parents=True, exist_ok=True)
    return order.folder.with_name(f"{order.folder.name}.lock")


def _start(order: Order) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        python_command("-m", __name__),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=child_environment(),
        text=True,
        start_new_session=True,  # Ctrl-C goes to the parent, which stops it
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has exited; its exit code is reported later
        process.stdin.write(order.to_json() + "\n")
        process.stdin.flush()
    return process


def main() -> None:
    order = Order.from_json(sys.stdin.readline())
    threading.Thread(target=_end_with_standard_input, daemon=True).start()
    try:
        with hold_in_turn(_lock(order)):
            pack(order)
    except UserError as error:
        print(error)
        sys.exit(2)


def _end_with_standard_input() -> None:
    while os.read(0, 1 << 16):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
