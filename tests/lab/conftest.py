"""Tiny runs of experiments, each made once for all tests of all processes."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from regard import registry
from regard.lab._experiment import Setting
from regard.lab._listing import shown
from regard.lab._report import Record, measure, read
from regard.storage import write_file


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Callable[[str], Record]:
    """Gives the record of an experiment's tiny run, read anew at every call: it may be changed at will."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def run(kind: str) -> Record:
        file = shared / f"tiny-{kind}.json"
        if not file.exists():
            record = measure(registry.create("lab", kind), shown(kind), "tiny", Setting())
            write_file(file, record.json().encode())
        return read(file, shown(kind))

    return run
