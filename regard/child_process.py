"""Starts Python child processes that never import from the current folder, and run the package their parent runs.

`python -m` and `python -c` put the current folder first on `sys.path`: a `torch.py` beside a downloaded model would be
executed. `-P` prevents that, but then a package that is not installed is not found either. So this file is also the
script that a child starts with: it imports the package by its location and then runs the `-m` or `-c` argument.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of the package: a checkout or site-packages."""


def bare_python(*arguments: str) -> list[str]:
    """Python for a script that is measured: as a user would start it, without the current folder on its path."""
    return [sys.executable, "-P", *arguments]


def python_command(*arguments: str) -> list[str]:
    """The command for a child process that runs `-m MODULE ...` or `-c CODE ...`. Start it with `child_environment`."""
    return [sys.executable, "-P", os.path.abspath(__file__), *arguments]


def child_environment(**more: str) -> dict[str, str]:
    """This process's environment plus `more`; no descendant imports from the current folder."""
    safe = {"PYTHONSAFEPATH": "1"}
    if os.name == "nt":
        safe["NoDefaultCurrentDirectoryInExePath"] = "1"  # nor searched for programs
    return {**os.environ, **safe, **more}


def append_root() -> None:
    """Makes a package that is not installed importable by name. Last on the path, so that it shadows nothing."""
    if ROOT not in sys.path:
        sys.path.append(ROOT)


def _run(arguments: list[str]) -> None:
    import runpy
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("regard", [ROOT])
    assert spec and spec.loader
    sys.modules["regard"] = module_from_spec(spec)  # this one, even if another is installed
    spec.loader.exec_module(sys.modules["regard"])
    append_root()
    kind, what, *rest = arguments
    sys.argv[1:] = rest
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv[0] = "-c"
        exec(what, {"__name__": "__main__"})
    else:
        raise ValueError(f"expected -m or -c, got {kind}")


if __name__ == "__main__":
    _run(sys.argv[1:])
