"""`python -m tests.chaos`: hurt a platform, hold it to account, end with 1 on any violation."""

import argparse
import json
import logging
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks.machine import describe_machine
from tests import chaos
from tests.chaos.report import as_json, as_text
from tests.chaos.run import run


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="chaos", description=chaos.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=7, help="from which all is drawn (%(default)s)")
    parser.add_argument("--faults", type=int, default=500, help="how many (%(default)s)")
    parser.add_argument("--minutes", type=float, default=20.0, help="over what time (%(default)s)")
    parser.add_argument("--report", type=Path, help="write the report here, as JSON")
    parser.add_argument("--folder", type=Path, help="a new one: everything is kept there")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    # Its networks and file systems go with it, however it is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = options.folder or Path(tempfile.mkdtemp(prefix="allotment-chaos-"))
    # Jobs run as users of their own, who have to get to what is theirs.
    folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    folder.chmod(0o711)
    result = run(folder.resolve(), seed=options.seed, faults=options.faults, seconds=60 * options.minutes)
    report = as_json(result, describe_machine())
    print(as_text(report))
    if options.report is not None:
        options.report.write_text(json.dumps(report, indent=2) + "\n")
    if options.folder is None and not report["violations"]:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"All that was written is in {folder}")
    return 1 if report["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
