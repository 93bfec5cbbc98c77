"""The options of `manage.py up`, shared by both ways into it."""

import argparse
from pathlib import Path

from controlplane.config import home


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s, this machine only)"
    )
    parser.add_argument(
        "--port", type=_port, default=8000, help="port of the page and the API (default: %(default)s)"
    )
    parser.add_argument(
        "--home",
        type=lambda text: Path(text).absolute(),
        default=home(),
        help="folder of databases, secrets and logs (default: %(default)s)",
    )
    parser.add_argument(
        "--unsafe-jobs",
        action="store_true",
        help="let jobs run also where nothing isolates them: on this machine if it must be, and on nodes that"
        " report so though --host lets other machines in",
    )
    parser.add_argument(
        "--no-demo",
        dest="demo",
        action="store_false",
        help="start empty: no demonstration nodes, tenants and jobs",
    )


def _port(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: give a number from 1 to 65535")
    return int(text)
