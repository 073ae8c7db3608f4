"""Starts Python child processes that never import from the current folder, and run the package their parent runs.

`python -m` and `python -c` put the current folder first on `sys.path`: a `torch.py` beside a downloaded model would be
executed. With `-P` they do not; but then a package that is not installed is not found either. So this file is also the
script a child begins with: it imports the package by its location and only then does what `-m` or `-c` says.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""Where the package lies: a checkout or site-packages."""


def python_command(*arguments: str) -> list[str]:
    """The command for a child that is given `-m MODULE ...` or `-c CODE ...`, as one would give it to Python.

    Start it with `child_environment`.
    """
    return [sys.executable, "-P", os.path.abspath(__file__), *arguments]


def child_environment(**more: str) -> dict[str, str]:
    """This process's environment plus `more`, in which no descendant imports from the current folder either."""
    safe = {"PYTHONSAFEPATH": "1"}
    if os.name == "nt":
        safe["NoDefaultCurrentDirectoryInExePath"] = "1"  # nor are programs looked for there
    return {**os.environ, **safe, **more}


def append_root() -> None:
    """Keeps a package that is not installed importable by name. It comes last, so that it shadows nothing."""
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
        raise ValueError(f"a child is given -m or -c, not {kind}")


if __name__ == "__main__":
    _run(sys.argv[1:])
