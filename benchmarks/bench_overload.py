"""What one loud tenant costs the others: the quiet user's latency, and leases lost.

    python benchmarks/bench_overload.py [--clients 0 30 100] [--seconds 20] [--runs 3]

Starts a platform of its own (`manage.py up --no-demo`, one node, leases of 4 s). A member of one tenant
searches a log of 12 MB by a regular expression with that many clients at once, again and again; a member of
another reads five small addresses one after another. `0` clients is the quiet user alone.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.e2e.installation import installation
from tests.e2e.loud_tenant import nodes_lost, prepare, shout


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--clients", type=int, nargs="+", default=[0, 30, 100])
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--runs", type=int, default=3)
    options = arguments.parse_args()
    print(describe_machine())
    with (
        tempfile.TemporaryDirectory(prefix="allotment-bench-") as folder,
        installation(Path(folder)) as platform,
    ):
        platform.add_node("left", gpus=2)
        written, kept = prepare(platform)
        for clients in options.clients:
            for run in range(options.runs):
                felt = shout(platform, written, clients=clients, seconds=options.seconds)
                times = sorted(felt.seconds)
                print(
                    f"{clients:4} loud clients, run {run + 1}: quiet median {felt.median * 1e3:.0f} ms, "
                    f"p99 {times[int(len(times) * 0.99)] * 1e3:.0f} ms, longest {times[-1] * 1e3:.0f} ms of "
                    f"{len(times)}; {len(felt.refused)} refused; nodes lost so far {nodes_lost(platform)}; "
                    f"loud: {dict(sorted(felt.loud.items()))}",
                    flush=True,
                )
        print(f"the quiet tenant's job: {platform.job(kept)['state']}")


if __name__ == "__main__":
    main()
