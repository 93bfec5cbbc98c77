"""A person's shell on a machine of their own: the commands of the documentation, as they are typed."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.installation import ROOT
from tests.patience import PATIENCE_SECONDS


@dataclass
class Terminal:
    """`allot` is in its PATH and remembers who signed in, in `folder`, where the commands run."""

    folder: Path
    #: Folders that come before all others in PATH.
    first: list[Path] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)

    def __call__(self, script: str, *, code: int = 0, stdin: str = "") -> str:
        """Run a script, which has to end with this code; return what it printed, errors last."""
        with self.start(script) as shell:
            try:
                printed, said = shell.communicate(stdin, timeout=2 * PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                shell.kill()
                raise
        assert shell.returncode == code, f"{script}\nended with {shell.returncode}\n{printed}\n{said}"
        return printed if code == 0 else printed + said

    def start(self, script: str) -> subprocess.Popen[str]:
        """Start a script, and do not wait for its end."""
        places = [*self.first, Path(sys.executable).parent]
        own = {
            "PATH": os.pathsep.join([*map(str, places), os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT / "platform"),
            "XDG_CONFIG_HOME": str(self.folder / ".config"),
        }
        outside = {name: value for name, value in os.environ.items() if not name.startswith("ALLOT_")}
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=outside | own | self.settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
