"""What a replica of a job with `launcher: mpi` runs: mpirun on the first one, its daemons on the others.

    python3 -c TEXT PROCESSES COMMAND...

It runs in the job's own environment, which may be an image, so it is passed on as text: standard library
alone, Python 3.8 or later. There is no ssh between replicas. Instead

- the first replica listens where the gang meets until all others have come, and then starts mpirun;
- what mpirun takes for ssh says, by a socket in a folder of the job's own, what to start on which replica,
  and the first replica passes that on by the connection over which that one came;
- the others start what they are sent, and end when they are sent that mpirun has ended.

Both sides prove by a key, which only this attempt has, that they are of it: every order is signed. Else any
program that reaches the port could have commands run as the job's user.

A replica that gets SIGTERM passes it to the processes of the program that run in it, and to nothing else:
mpirun and its daemons would leave these no time to save. They end by themselves once those have.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

#: How long replicas wait for one another; a gang is started together.
MEET_SECONDS = 300.0
#: A connection that stays silent for longer is not from the gang.
HELLO_SECONDS = 10.0
LOOK_SECONDS = 0.1
LONGEST_LINE = 1024 * 1024
SAYS = "[allotment] launcher: mpi:"
INSTEAD = "Use MPICH, or replicas with all GPUs of a node."
#: As the shell ends where a program cannot be executed.
CANNOT_START = 126
#: Followed by the rank of the replica. The name has no address, so mpirun asks its agent for each of them.
HOST = "allot-replica-"
#: What mpirun takes for ssh: `agent [-x] HOST WORDS...`.
AGENT = """\
#!{python}
import json, socket, sys
host, *words = [word for word in sys.argv[1:] if word != "-x"]
hub = socket.socket(socket.AF_UNIX)
hub.connect({hub!r})
file = hub.makefile("rw")
file.write(json.dumps([host, " ".join(words)]) + "\\n")
file.flush()
sys.exit(int(file.readline() or 1))
"""
#: What each process of the program begins as: it leaves its number with its replica, goes to the folder of
#: that, and has the variables that env:// means. One that comes after the word to stop goes again.
PROCESS = """\
: >"$ALLOT_LAUNCH_NOTES/pids/$$" && cd "$ALLOT_LAUNCH_FOLDER" || exit 1
[ ! -e "$ALLOT_LAUNCH_NOTES/stopped" ] || exit 143
export RANK="${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" WORLD_SIZE="${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE}"
export LOCAL_RANK="${OMPI_COMM_WORLD_LOCAL_RANK:-$MPI_LOCALRANKID}"
export LOCAL_WORLD_SIZE="${OMPI_COMM_WORLD_LOCAL_SIZE:-$MPI_LOCALNRANKS}"
exec "$@"
"""


class Replica:
    """This one: its place in the gang, and the processes of the program that run in it."""

    def __init__(self) -> None:
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self.key = os.environ.pop("ALLOT_LAUNCH_KEY", "").encode()
        self.notes = tempfile.mkdtemp(prefix="allot-mpi-")
        self.pids = os.path.join(self.notes, "pids")
        os.mkdir(self.pids)
        os.environ.update(ALLOT_LAUNCH_FOLDER=os.getcwd(), ALLOT_LAUNCH_NOTES=self.notes)
        signal.signal(signal.SIGTERM, self.stop)

    def stop(self, _number: int, _frame: FrameType | None) -> None:
        with open(os.path.join(self.notes, "stopped"), "w"):
            pass
        for pid in os.listdir(self.pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGTERM)

    def run(self, words: list[str]) -> int:
        """Run a part of MPI to its end, in a session of its own: the word to stop is not for it."""
        ended = subprocess.run(words, stdin=subprocess.DEVNULL, start_new_session=True, check=False)
        return ended.returncode

    def proof(self, nonce: str, *said: object) -> str:
        return hmac.new(self.key, json.dumps([nonce, *said]).encode(), hashlib.sha256).hexdigest()


class Line:
    """A connection that carries one JSON value a line."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.file = connection.makefile("r")
        self.writing = threading.Lock()

    def say(self, value: object) -> None:
        with self.writing:
            self.connection.sendall(json.dumps(value).encode() + b"\n")

    def hear(self) -> Any:
        """Return the next value; raise EOFError at the end, and ValueError for an invalid one."""
        line = self.file.readline(LONGEST_LINE)
        if not line:
            raise EOFError
        return json.loads(line)


class Other:
    """Another replica, as the first one knows it; ValueError when it cannot prove that it is one."""

    def __init__(self, replica: Replica, connection: socket.socket) -> None:
        self.replica = replica
        self.line = Line(connection)
        connection.settimeout(HELLO_SECONDS)
        nonce = secrets.token_hex(16)
        self.line.say(nonce)
        self.rank, self.machine, self.nonce, proof = self.line.hear()
        if not hmac.compare_digest(proof, replica.proof(nonce, self.rank, self.machine, self.nonce)):
            raise ValueError("not of this gang")
        connection.settimeout(None)
        self.orders = 0
        self.codes: dict[int, int] = {}
        self.is_there = True
        self.changed = threading.Condition()

    def order(self, words: str) -> int:
        """Have a line of the shell run there, an empty one end the replica; return the order's number."""
        with self.changed:
            self.orders += 1
            number = self.orders
        self.line.say([number, words, self.replica.proof(self.nonce, number, words)])
        return number

    def code(self, number: int) -> int:
        """Return the exit code of an order, once there is one."""
        with self.changed:
            self.changed.wait_for(lambda: number in self.codes or not self.is_there)
            return self.codes.get(number, 1)

    def listen(self) -> None:
        """Take exit codes until the replica is gone."""
        with contextlib.suppress(OSError, ValueError, TypeError, EOFError):
            while True:
                number, code = self.line.hear()
                with self.changed:
                    self.codes[number] = code
                    self.changed.notify_all()
        with self.changed:
            self.is_there = False
            self.changed.notify_all()


def begin(work: Callable[..., object], *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()


def lead(replica: Replica, processes: int, command: list[str]) -> int:
    """Wait for the others, run mpirun, send them that it has ended; return its exit code."""
    others = meet(replica)
    hub = os.path.join(replica.notes, "hub")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(hub)
    listener.listen(replica.size)
    begin(serve_agents, listener, others)
    agent = os.path.join(replica.notes, "agent")
    with open(agent, "w") as file:
        file.write(AGENT.format(python=sys.executable, hub=hub))
    os.chmod(agent, 0o700)
    try:
        code = replica.run(mpirun(replica, processes, agent, command, others))
    finally:
        for other in others.values():
            with contextlib.suppress(OSError):
                other.order("")
    return code if code >= 0 else 128 - code


def meet(replica: Replica) -> dict[int, Other]:
    """Return the others by rank, once all are there. No other can come after that."""
    others: dict[int, Other] = {}
    if replica.size == 1:
        return others

    def greet(connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError, TypeError, EOFError):
            other = Other(replica, connection)
            begin(other.listen)
            others[other.rank] = other

    until = time.monotonic() + MEET_SECONDS
    with socket.create_server(("", replica.address[1]), backlog=replica.size) as listener:
        listener.settimeout(LOOK_SECONDS)
        while missing := sorted(set(range(1, replica.size)) - set(others)):
            if time.monotonic() > until:
                sys.exit(f"{SAYS} these replicas did not reach the first one: {missing}.")
            with contextlib.suppress(OSError):
                begin(greet, listener.accept()[0])
    return others


def serve_agents(listener: socket.socket, others: dict[int, Other]) -> NoReturn:
    """Pass on what mpirun wants started on other replicas."""

    def serve(line: Line) -> None:
        host, words = line.hear()
        other = others[int(host[len(HOST) :])]
        line.say(other.code(other.order(words)))

    while True:
        begin(serve, Line(listener.accept()[0]))


def mpirun(
    replica: Replica, processes: int, agent: str, command: list[str], others: dict[int, Other]
) -> list[str]:
    """Return the command that runs the program on all replicas, for the mpirun that is here."""
    hosts = ["localhost", *[f"{HOST}{rank}" for rank in range(1, replica.size)]]
    said = subprocess.run(
        ["mpirun", "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
    )
    is_open_mpi = b"Open MPI" in said.stdout
    slots = " slots=" if is_open_mpi else ":"
    file = os.path.join(replica.notes, "hosts")
    with open(file, "w") as written:
        written.writelines(f"{host}{slots}{processes}\n" for host in hosts)
    program = ["-n", str(processes * replica.size), "sh", "-c", PROCESS, "sh", *command]
    if not is_open_mpi:
        os.environ.update(HYDRA_LAUNCHER="ssh", HYDRA_LAUNCHER_EXEC=agent)
        # With "none" processes have the variables of their own replica, and not those of the first.
        return ["mpirun", "-f", file, "-localhost", replica.address[0], "-genvnone", *program]
    machines = [socket.gethostname(), *[other.machine for other in others.values()]]
    if shared := sorted({name for name in machines if machines.count(name) > 1}):
        # It takes their processes for neighbours, which then corrupt each other's memory.
        print(
            f"{SAYS} Open MPI runs one replica on a machine, and {shared[0]} has several. {INSTEAD}",
            file=sys.stderr,
        )
        sys.exit(CANNOT_START)
    os.environ.update(OMPI_MCA_plm_rsh_agent=agent, PRTE_MCA_plm_ssh_agent=agent)
    for prefix in ("OMPI", "PRTE"):
        # In an image the job may be root.
        os.environ.update({f"{prefix}_ALLOW_RUN_AS_ROOT": "1", f"{prefix}_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    # The platform says which CPUs a replica has: two on one machine would be bound to the same ones. Daemons
    # stay children of their replicas, so that each order ends with the exit code of its daemon.
    how = ["--bind-to", "none", "--map-by", "slot", "--leave-session-attached"]
    return ["mpirun", "--hostfile", file, *how, *program]


def follow(replica: Replica) -> int:
    """Run what the first replica orders until it says that mpirun has ended; return the exit code."""
    line, nonce = come(replica)

    def carry_out(number: int, words: str) -> None:
        code = replica.run(["sh", "-c", words])
        with contextlib.suppress(OSError):
            line.say([number, code])

    with contextlib.suppress(OSError, ValueError, TypeError, EOFError):
        while True:
            number, words, proof = line.hear()
            if not hmac.compare_digest(proof, replica.proof(nonce, number, words)):
                break
            if not words:
                return 0
            begin(carry_out, number, words)
    print(f"{SAYS} the first replica is gone.", file=sys.stderr)
    return 1


def come(replica: Replica) -> tuple[Line, str]:
    """Return the connection to the first replica, and the nonce with which it signs its orders."""
    until = time.monotonic() + MEET_SECONDS
    nonce = secrets.token_hex(16)
    while time.monotonic() < until:
        with contextlib.suppress(OSError, ValueError, EOFError):
            connection = socket.create_connection(replica.address, HELLO_SECONDS)
            line = Line(connection)
            theirs = line.hear()
            said = (replica.rank, socket.gethostname(), nonce)
            line.say([*said, replica.proof(theirs, *said)])
            connection.settimeout(None)
            return line, nonce
        time.sleep(LOOK_SECONDS)
    sys.exit(f"{SAYS} the first replica was not reached at {replica.address[0]}:{replica.address[1]}.")


def main() -> NoReturn:
    replica = Replica()
    code = lead(replica, int(sys.argv[1]), sys.argv[2:]) if replica.rank == 0 else follow(replica)
    shutil.rmtree(replica.notes, ignore_errors=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
