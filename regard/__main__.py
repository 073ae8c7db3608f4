"""`python -m regard` is the same as the command `regard`."""

import os
import sys

# `-m` has put the current folder first, from which `import json` or `import torch` would run whatever lies there.
try:
    current = os.getcwd()
except OSError:  # it was deleted
    current = ""
if not sys.flags.safe_path and sys.path[0] in ("", current):
    del sys.path[0]

from regard.child_process import append_root
from regard.cli import main

append_root()
main()
