"""`manage.py`, or `allotment-server` where the wheel is installed: Django's commands, and some without it."""

import os
import sys
from difflib import get_close_matches

#: The commands that need no settings, unless an option of theirs does.
WITHOUT_SETTINGS = ("cells", "data", "simulate", "solve", "up")


def main() -> None:
    """Run the command that `sys.argv` names; end the process with its status."""
    command, arguments = sys.argv[1:2], sys.argv[2:]
    if command == ["help"] and arguments and arguments[0] in WITHOUT_SETTINGS:
        # Django would load the settings for it.
        command, arguments = arguments[:1], ["--help"]
    if command == ["up"]:
        # Before Django: `up` writes the file that the settings are read from.
        from controlplane.up.main import main as up

        sys.exit(up(arguments))
    if command == ["simulate"] and "--celery" not in arguments:
        # Before NumPy is loaded: the problems of a round are so small that one thread alone is done sooner.
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, "1")
        # Without Django: a simulation needs neither settings nor a database.
        from scheduler.simulation.command import main as simulate

        sys.exit(simulate(arguments))
    if command == ["cells"] and "--nodes-from-database" not in arguments:
        # Likewise for a file of cells that is checked by itself.
        from scheduler.simulation.cells_command import main as cells

        sys.exit(cells(arguments))
    if command == ["solve"]:
        # Likewise for an instance in a file.
        from scheduler.simulation.solve_command import main as solve

        sys.exit(solve(arguments))
    if command == ["data"]:
        # Likewise for files of public traces.
        from scheduler.simulation.data_command import main as data

        sys.exit(data(arguments))

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.stderr.write(f"manage.py: {error}\n")
        near = get_close_matches("".join(command), WITHOUT_SETTINGS, 1)
        also = f"; did you mean {near[0]}?" if near and near != command else "."
        sys.stderr.write(f"Without settings there are {', '.join(WITHOUT_SETTINGS)}{also}\n")
        sys.exit(2)
