"""32 clients of our server, beside FastAPI and CTranslate2, and beside ours offline: `regard bench serve`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # as a script it finds regard, too

from regard.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["bench", "serve"]
    main()
