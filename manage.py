#!/usr/bin/env python
"""The server's commands from its source folder: puts `platform/` on the import path (0001)."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent

if __name__ == "__main__":
    for folder in (ROOT / "platform", ROOT):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))

    from controlplane.command_line import main

    main()
