#!/usr/bin/env python
"""Django's entry point. Puts the source root `platform/` on the import path (decision 0001)."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def main() -> None:
    for folder in (ROOT / "platform", ROOT):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    if sys.argv[1:2] == ["up"]:
        # Before Django: `up` writes the file that the settings are read from.
        from controlplane.up.main import main as up

        sys.exit(up(sys.argv[2:]))
    if sys.argv[1:2] == ["simulate"] and "--celery" not in sys.argv:
        # Without Django: a simulation needs neither settings nor a database.
        from scheduler.simulation.command import main as simulate

        sys.exit(simulate(sys.argv[2:]))
    if sys.argv[1:2] == ["cells"] and "--nodes-from-database" not in sys.argv:
        # Likewise for a file of cells that is checked by itself.
        from scheduler.simulation.cells_command import main as cells

        sys.exit(cells(sys.argv[2:]))
    if sys.argv[1:2] == ["solve"]:
        # Likewise for an instance in a file.
        from scheduler.simulation.solve_command import main as solve

        sys.exit(solve(sys.argv[2:]))

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
