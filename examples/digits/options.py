"""The command line. Every number has limits, and an error names the option, the value and the limits."""

import argparse
import math
from collections.abc import Callable

from dataset import TRAINING_IMAGES
from gang import SHARDS
from pacing import REFERENCE_GPU, STEPS_PER_SECOND


def parse_arguments(
    arguments: list[str] | None,
    *,
    description: str,
    program: str = "train.py",
    add: Callable[[argparse.ArgumentParser], None] | None = None,
) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=program, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    whole, number = whole_number, _number
    parser.add_argument("--steps", type=whole(1, 10_000_000), default=600, help="steps in all (%(default)s)")
    parser.add_argument(
        "--batch",
        type=whole(SHARDS, TRAINING_IMAGES),
        default=64,
        help="images per step, over all ranks (%(default)s)",
    )
    parser.add_argument("--learning-rate", type=number(1e-9, 100), default=0.2, help="of SGD (%(default)s)")
    parser.add_argument("--hidden", type=whole(1, 4096), default=64, help="hidden units (64)")
    parser.add_argument("--seed", type=whole(0, 2**32 - 1), default=0, help="of weights and data order (0)")
    parser.add_argument(
        "--checkpoint-every", type=whole(1, 10_000_000), default=50, metavar="STEPS", help="(50)"
    )
    parser.add_argument(
        "--step-seconds",
        type=number(0, 10),
        default=0.0,
        help=f"make each step last this long on a {REFERENCE_GPU}, longer on a slower GPU (0: full speed)",
    )
    parser.add_argument(
        "--like",
        choices=STEPS_PER_SECOND,
        default="transformer",
        help="whose speeds by GPU model --step-seconds emulates: %(choices)s (transformer)",
    )
    parser.add_argument("--rendezvous-seconds", type=number(1, 3600), default=60.0, help="to meet (60)")
    parser.add_argument(
        "--peer-timeout-seconds", type=number(1, 3600), default=60.0, help="before a silent rank is lost (60)"
    )
    if add is not None:
        add(parser)
    return parser.parse_args(arguments)


def whole_number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return parse


def _number(least: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least:g} to {most:g}")
        return value

    return parse
