"""Refuse places where results cannot be written, before hours of simulating rather than after them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from scheduler.simulation.errors import InputError


def check_file(option: str, path: Path | None) -> None:
    """Raise InputError that names the option unless a file can be written there."""
    if path is None:
        return
    # os.path, unlike Path, takes what may not be looked at for missing.
    if os.path.isdir(path):
        raise InputError(f"{option} {path}: is a folder; give the name of a file")
    if os.path.exists(path):
        # Asked, not tried: opening a pipe would wait for its reader.
        if not os.access(path, os.W_OK):
            raise InputError(f"{option} {path}: may not be written; give another file")
    elif not os.path.isdir(path.parent):
        raise InputError(f"{option} {path}: there is no folder {path.parent}; make it, or give another one")
    else:
        _try(option, path, path.parent)


def check_folder(option: str, path: Path | None) -> None:
    """Raise InputError that names the option unless files can be written into a folder there.

    The folder itself, and those above it, are made when the results are written.
    """
    if path is None:
        return
    there = next(each for each in (path.absolute(), *path.absolute().parents) if os.path.exists(each))
    if not os.path.isdir(there):
        raise InputError(f"{option} {path}: {there} is a file; give a folder")
    _try(option, path, there)


def _try(option: str, path: Path, folder: Path) -> None:
    """Write a file into the folder: root may write anywhere by its permissions, but not into /proc."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = error.strerror or error
        raise InputError(
            f"{option} {path}: folder {folder} cannot be written ({why}); give another one"
        ) from None
