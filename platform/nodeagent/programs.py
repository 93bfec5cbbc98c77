"""The programs that an agent starts: modules of ours with a `main()`, as text for `python -I -c`.

Isolated, so that no setting and no folder of anybody's has a say in what they import.
"""

from __future__ import annotations

import os

#: Where the package `nodeagent` lies.
CODE_FOLDER = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def program(module: str) -> str:
    """Return the text that runs the module's `main()`."""
    # The folder comes last, so that nothing in it can stand in for a module of the standard library.
    return f"import sys; sys.path.append({CODE_FOLDER!r}); from {module} import main; main()"
