"""Network name spaces: nodes that can be cut off from all others. Needs root and iproute2."""

import os
import shutil
import subprocess
from dataclasses import dataclass, field

PREFIX_BITS = 24


def can_cut() -> bool:
    return os.geteuid() == 0 and shutil.which("ip") is not None and shutil.which("nsenter") is not None


@dataclass
class Network:
    """A bridge of this run's own, and a name space for each node that asks for one."""

    number: int = field(default_factory=lambda: os.getpid() % 250)
    nodes: int = 0

    @property
    def bridge(self) -> str:
        return f"allotc{self.number}"

    @property
    def address(self) -> str:
        """Where the machine itself is reached from the name spaces."""
        return f"10.213.{self.number}.1"

    def open(self) -> None:
        _ip(f"link add {self.bridge} type bridge")
        _ip(f"addr add {self.address}/{PREFIX_BITS} dev {self.bridge}")
        _ip(f"link set {self.bridge} up")

    def add_node(self) -> "Place":
        self.nodes += 1
        place = Place(f"{self.bridge}n{self.nodes}", f"10.213.{self.number}.{10 + self.nodes}")
        _ip(f"netns add {place.name}")
        _ip(f"link add {place.name} type veth peer name eth0 netns {place.name}")
        _ip(f"link set {place.name} master {self.bridge} up")
        for command in (
            f"addr add {place.address}/{PREFIX_BITS} dev eth0",
            "link set eth0 up",
            "link set lo up",
        ):
            _ip(f"-n {place.name} {command}")
        return place

    def close(self) -> None:
        for number in range(1, self.nodes + 1):
            _ip(f"netns delete {self.bridge}n{number}", must_succeed=False)
        _ip(f"link delete {self.bridge}", must_succeed=False)


@dataclass(frozen=True)
class Place:
    """One name space; its end of the cable outside has the same name."""

    name: str
    address: str

    @property
    def enter(self) -> list[str]:
        """Words before a command that is to run there. `ip netns exec` would hide the control groups."""
        return ["nsenter", f"--net=/run/netns/{self.name}", "--"]

    def cut(self) -> None:
        """Packets are lost from now on; nobody is told."""
        _ip(f"link set {self.name} down")

    def mend(self) -> None:
        _ip(f"link set {self.name} up")


def _ip(arguments: str, *, must_succeed: bool = True) -> None:
    subprocess.run(["ip", *arguments.split()], check=must_succeed, capture_output=not must_succeed)
