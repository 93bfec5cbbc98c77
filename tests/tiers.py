"""Run the tests by tiers, at most as many at once as there are processors: `python -m tests.tiers`.

A tier is one process that collects and runs only its own tests. Each leaves a log and a JUnit file in
`.test-results`. `--again` runs every test that failed once more, by itself; one that passes then is
unsteady. Arguments after `--` go to every pytest.
"""

import argparse
import json
import os
import selectors
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from controlplane.embedded.spawn import Spawn
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / ".test-results"
#: How each tier ended, for `--again`.
CODES = RESULTS / "codes.json"
UNSTEADY = RESULTS / "unsteady.txt"
#: More unsteady tests than these fail a run.
UNSTEADY_MOST = 3
#: A tier that takes longer than this hangs.
LIMIT_SECONDS = 40 * PATIENCE_SECONDS
#: What pytest returns when no test matched.
NO_TESTS = 5
EVERY_DAY = "not (slow or gpu or clock or reproduction)"
DASHBOARD = "dashboard"


@dataclass(frozen=True)
class Tier:
    """Tests that one process runs."""

    name: str
    paths: str = ""
    marks: str = EVERY_DAY
    #: Begins when all others have ended.
    alone: bool = False
    #: Runs only where it is named.
    on_request: bool = False

    def command(self, report: Path, tests: Sequence[str], arguments: Sequence[str]) -> list[str]:
        if self.name == DASHBOARD:
            reporters = ["--reporter=default", "--reporter=junit", f"--outputFile.junit={report}"]
            return ["scripts/npm", "test", "--", *reporters, *tests]
        options = ["-m", self.marks, "-o", f"cache_dir=.pytest_cache/{self.name}", f"--junitxml={report}"]
        tests = tests or self.paths.split()
        return [sys.executable, "-u", "-m", "pytest", *tests, *options, *arguments]


#: The longest first, so that the last to end is short.
TIERS = (
    Tier(
        "server",
        "tests/api tests/chaos tests/controlplane tests/live tests/scheduler tests/sessions tests/tenants",
    ),
    Tier(
        "node",
        "tests/agent tests/allot tests/examples tests/test_distributions.py tests/test_pairs.py"
        " tests/test_bench.py tests/test_nightly.py tests/test_patience.py tests/test_processes.py"
        " tests/test_tiers.py",
    ),
    Tier("platform", "tests/browser tests/e2e"),
    Tier(
        "core",
        "tests/core tests/simulation tests/test_layout.py tests/test_generated.py tests/test_prose.py"
        " tests/test_documentation.py tests/test_glossary.py tests/test_screenshots.py",
    ),
    Tier("up", "tests/up tests/slurm"),
    Tier(DASHBOARD),
    Tier("clock", "tests/agent", marks="clock and not (slow or gpu)", alone=True),
    # What root's tests do not show: `make test-user`.
    Tier("user", "tests/agent tests/controlplane/embedded", on_request=True),
)


class Run:
    """One process of a tier.

    Its output goes to its log and, with its name before each line, to ours.
    """

    def __init__(
        self, tier: Tier, name: str, tests: Sequence[str] = (), arguments: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.report, self.log = RESULTS / f"{name}.xml", RESULTS / f"{name}.log"
        #: Its exit code, when it has ended.
        self.code: int | None = None
        self.seconds = 0.0
        self._began = time.monotonic()
        self._line = b""
        self.report.unlink(missing_ok=True)
        self._log = self.log.open("wb")
        self.output, into = os.pipe()
        os.set_blocking(self.output, False)
        self._process = Spawn(tier.command(self.report, tests, arguments), ROOT).popen(output=into)
        os.close(into)

    def pass_on(self) -> None:
        """Show the lines that it has written."""
        with suppress(BlockingIOError):
            while written := os.read(self.output, 2**16):
                self._log.write(written)
                *lines, self._line = (self._line + written).split(b"\n")
                for line in lines:
                    self._show(line)

    def has_ended(self) -> bool:
        """Whether its process has ended; what that left behind is ended then, too."""
        self.seconds = time.monotonic() - self._began
        if self.seconds > LIMIT_SECONDS:
            self.signal(signal.SIGKILL)
        if self._process.poll() is None:
            return False
        self.pass_on()
        if self._line:
            self._show(self._line)
        self.signal(signal.SIGKILL)
        os.close(self.output)
        self._log.close()
        self.code = self._process.returncode
        self._show(f"{self.verdict} after {self.seconds:.0f} s".encode())
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its process and to all that this started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _show(self, line: bytes) -> None:
        print(f"{self.name:>9} | {line.decode(errors='replace')}", flush=True)

    @property
    def failed(self) -> bool:
        return self.code not in (0, NO_TESTS)

    @property
    def verdict(self) -> str:
        if self.code is None:
            return "not ended"
        if self.code < 0:
            return f"killed by {signal.Signals(-self.code).name}"
        return f"failed ({self.code})" if self.failed else "passed"


def carry_out(starts: Iterable[Callable[[], Run]], slots: int) -> list[Run]:
    """Start all in their order, as many at once as there are slots; return them when all have ended."""
    waiting, running, ended = deque(starts), list[Run](), list[Run]()
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < slots:
                    run = waiting.popleft()()
                    running.append(run)
                    selector.register(run.output, selectors.EVENT_READ, run)
                for key, _ in selector.select(timeout=0.5):
                    key.data.pass_on()
                for run in list(running):
                    output = run.output
                    if run.has_ended():
                        selector.unregister(output)
                        running.remove(run)
                        ended.append(run)
        except KeyboardInterrupt:
            _interrupt(running)
            raise
    return ended


def _interrupt(runs: Sequence[Run]) -> None:
    """Let tests end what they started, for a while."""
    for run in runs:
        run.signal(signal.SIGINT)
    end = time.monotonic() + PATIENCE_SECONDS
    while not all([run.code is not None or run.has_ended() for run in runs]) and time.monotonic() < end:
        time.sleep(0.1)
    for run in runs:
        run.signal(signal.SIGKILL)


@dataclass(frozen=True)
class Result:
    """One test of a JUnit file."""

    #: What runs it by itself: pytest's id, or its file for Vitest; empty where a file could not be collected.
    id: str
    name: str
    #: What was wrong; empty where it passed.
    problem: str


def read(report: Path) -> list[Result]:
    """Return the tests of a JUnit file; none where the process was killed before it wrote one."""
    try:
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    except (FileNotFoundError, ElementTree.ParseError):
        return []
    results = []
    for case in cases:
        ids = [each.get("value", "") for each in case.iter("property") if each.get("name") == "id"]
        identity = ids[0] if ids else case.get("classname", "")
        name = ids[0] if ids else f"{identity} > {case.get('name')}"
        problems = [each for each in case if each.tag in ("failure", "error")]
        texts = [each.text or each.get("message") or "it failed" for each in problems]
        results.append(Result(identity, name, "\n".join(texts)))
    return results


def run_tiers(names: Sequence[str], arguments: Sequence[str], slots: int) -> bool:
    """Run these tiers, or all of every day; return whether all passed."""
    tiers = [each for each in TIERS if each.name in names or not (names or each.on_request)]
    RESULTS.mkdir(exist_ok=True)
    for old in RESULTS.iterdir():
        old.unlink()
    start = {tier: partial(Run, tier, tier.name, (), arguments) for tier in tiers}
    runs = carry_out([start[tier] for tier in tiers if not tier.alone], slots)
    runs += carry_out([start[tier] for tier in tiers if tier.alone], 1)
    CODES.write_text(json.dumps({run.name: run.code for run in runs}))
    runs.sort(key=lambda run: [tier.name for tier in tiers].index(run.name))
    for run in runs:
        if run.failed:
            _tell(run)
    print()
    for run in runs:
        print(f"{run.name:>9}  {run.seconds:5.0f} s  {len(read(run.report)):5} tests  {run.verdict}")
    return not any(run.failed for run in runs)


def _tell(run: Run) -> None:
    """Repeat what failed, or the last lines where no test did."""
    print(f"\n===== {run.name}: {run.verdict}; all it wrote: {run.log.relative_to(ROOT)}")
    failed = [each for each in read(run.report) if each.problem]
    for result in failed:
        print(f"\n--- FAILED {result.name}\n{result.problem}")
    if not failed:
        print("\n".join(run.log.read_text(errors="replace").splitlines()[-30:]))


def run_again() -> bool:
    """Run what failed once more, test by test; return whether all of it passed, and was not much.

    A tier that failed without a test that did was killed or could not begin, which is no unsteady test.
    """
    if not CODES.exists():
        print("There is no run to look at: `make test` has not ended here.")
        return False
    codes = json.loads(CODES.read_text())
    unsteady, failed_twice = list[str](), list[str]()
    for tier in TIERS:
        code = codes.get(tier.name, 0)
        failed = [each for each in read(RESULTS / f"{tier.name}.xml") if each.problem]
        if code not in (0, 1, NO_TESTS) or (code == 1 and not failed):
            failed_twice.append(f"{tier.name}, which ended with {code}")
            continue
        for number, identity in enumerate(dict.fromkeys(each.id for each in failed)):
            start = partial(Run, tier, f"{tier.name}-{number}", [identity])
            passed = bool(identity) and not carry_out([start], 1)[0].failed
            names = [each.name for each in failed if each.id == identity]
            (unsteady if passed else failed_twice).extend(names)
    with UNSTEADY.open("a") as file:
        file.writelines(f"{name}\n" for name in unsteady)
    for name in failed_twice:
        print(f"FAILED TWICE  {name}")
    for name in unsteady:
        print(f"UNSTEADY  {name}  failed, and passed by itself. Mend it.")
    if len(unsteady) > UNSTEADY_MOST:
        print(f"{len(unsteady)} tests are unsteady; more than {UNSTEADY_MOST} fail the run.")
    return not failed_twice and len(unsteady) <= UNSTEADY_MOST


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tiers", description=__doc__)
    parser.add_argument("tiers", nargs="*", metavar="TIER", help=", ".join(each.name for each in TIERS))
    parser.add_argument("--slots", type=int, default=len(os.sched_getaffinity(0)), help="how many at once")
    parser.add_argument("--again", action="store_true", help="run what failed once more")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:cut])
    known = [each.name for each in TIERS]
    if unknown := [name for name in options.tiers if name not in known]:
        parser.error(f"no tier is called {unknown[0]!r}; there are {', '.join(known)}")
    # A run that is ended ends its tiers in good order too; in the background of a shell it and they would
    # not hear of SIGINT.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        passed = run_again() if options.again else run_tiers(options.tiers, words[cut + 1 :], options.slots)
    except KeyboardInterrupt:
        return 130
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
