"""A Ray cluster of several nodes on this machine, on the loopback interface alone, and a tiny translator."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LOOPBACK = "127.0.0.2"
"""127.0.0.1 itself is replaced by the machine's own address when a second process connects."""
STORE = 100 << 20
LINES = ["je suis étudiant.", "où est la gare ?", "elle a lu ce livre deux fois.", "Oui, bien sûr !"]


@pytest.fixture(autouse=True)
def own_threads() -> Iterator[None]:
    """A model for a node sets the number of threads of its process, which is the tests' own here."""
    import torch

    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@contextmanager
def cluster(nodes: int) -> Iterator[Any]:
    """`nodes` nodes of one CPU each, which RAY_ADDRESS leads to. Nothing is left running afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")  # other tests may fill the memory
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        from ray.cluster_utils import Cluster

        every = {"num_cpus": 1, "object_store_memory": STORE, "node_ip_address": LOOPBACK, "include_dashboard": False}
        found = Cluster(initialize_head=True, head_node_args=every)
        try:
            for _ in range(nodes - 1):
                found.add_node(**every)
            patch.setenv("RAY_ADDRESS", found.address)
            yield found
        finally:
            found.shutdown()


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    import torch

    from regard.assemble import build_model, resolve_model
    from regard.config import Decoding, Recipe
    from regard.data.tokenizer.word import Word
    from regard.loading import model_files
    from regard.storage import write_folder

    torch.manual_seed(10)
    shape = resolve_model({"layers": 1, "width": 16, "feed_forward": 32, "heads": 2})
    recipe = Recipe(model=shape, tokenizer={"kind": "word"}, decoding=Decoding(beam=2, max_length=12))
    tokenizer = Word.train(LINES, seed=1)
    # Three times the usual size: fresh weights would answer every sentence alike.
    weights = {n: 3 * w.detach() for n, w in build_model(shape, len(tokenizer)).named_parameters()}
    folder = tmp_path_factory.mktemp("models") / "random"
    write_folder(folder, model_files(recipe, tokenizer, weights, "float32"))
    return str(folder)


def corpus(path: Path, count: int) -> Path:
    """Lines of all kinds: empty, with a mark at the start of the file, not UTF-8, too long for the model."""
    draw = random.Random(1)
    words = " ".join(LINES).split()
    lines = [" ".join(draw.choices(words, k=draw.randrange(1, 12))).encode() for _ in range(count)]
    lines[0] = b"\xef\xbb\xbf" + lines[0]
    lines[3], lines[-2], lines[count // 2] = b"", b"caf\xe9", b"mot " * 300
    path.write_bytes(b"\r\n".join(lines))
    return path


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("[!.]*"))}
