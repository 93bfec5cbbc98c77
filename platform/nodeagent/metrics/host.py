"""What the whole machine does, as procfs reports it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from nodeagent.messages import HostSample

#: The unit of /proc/diskstats, whatever the disk's own.
SECTOR_BYTES = 512
#: Names of block devices that only pass on what another one does.
VIRTUAL_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")

#: Counters of the machine since it booted, by what they count.
Counters = dict[str, float]


class HostMeter:
    """Measures the machine; rates are of the time since the measurement before."""

    def __init__(self, folder: str, *, proc: str = "/proc", sys: str = "/sys") -> None:
        self.folder = folder
        self.proc = Path(proc)
        self.sys = Path(sys)
        self.disks = frozenset(
            name for name in _names(self.sys / "block") if not name.startswith(VIRTUAL_DISKS)
        )
        self.before: tuple[float, Counters] | None = None

    def measure(self, now: float) -> HostSample:
        """Return the figures since the last call; `now` is in seconds of a clock that is never set."""
        counters = dict(self._counters())
        before_at, before = self.before or (now, {})
        self.before = (now, counters)
        seconds = now - before_at

        def per_second(name: str) -> float | None:
            if seconds <= 0 or name not in before or counters.get(name, -1.0) < before[name]:
                return None
            return round((counters[name] - before[name]) / seconds, 1)

        used, total = self._disk()
        return HostSample(
            cpu_percent=_percent_between(before, counters),
            memory_used_bytes=self._memory_used_bytes(),
            disk_used_bytes=used,
            disk_total_bytes=total,
            network_received_bytes_per_second=per_second("received"),
            network_sent_bytes_per_second=per_second("sent"),
            disk_read_bytes_per_second=per_second("read"),
            disk_written_bytes_per_second=per_second("written"),
        )

    def _counters(self) -> Iterator[tuple[str, float]]:
        for line in _lines(self.proc / "stat")[:1]:
            # user nice system idle iowait irq softirq steal; guests are counted in user already.
            ticks = [float(word) for word in line.split()[1:9]]
            yield "ticks", sum(ticks)
            yield "idle ticks", ticks[3] + ticks[4]
        interfaces = [line.replace(":", " ", 1).split() for line in _lines(self.proc / "net/dev")[2:]]
        # Bridges pass on what a real interface carries; where none is real, all but loopback count.
        real = [fields for fields in interfaces if (self.sys / "class/net" / fields[0] / "device").exists()]
        chosen = real or [fields for fields in interfaces if fields[0] != "lo"]
        if chosen:
            yield "received", sum(float(fields[1]) for fields in chosen)
            yield "sent", sum(float(fields[9]) for fields in chosen)
        disks = [line.split() for line in _lines(self.proc / "diskstats")]
        disks = [fields for fields in disks if fields[2] in self.disks]
        if disks:
            yield "read", sum(float(fields[5]) for fields in disks) * SECTOR_BYTES
            yield "written", sum(float(fields[9]) for fields in disks) * SECTOR_BYTES

    def _memory_used_bytes(self) -> int | None:
        kilobytes = {}
        for line in _lines(self.proc / "meminfo"):
            name, _, rest = line.partition(":")
            if name in ("MemTotal", "MemAvailable"):
                kilobytes[name] = int(rest.split()[0])
        if len(kilobytes) < 2:
            return None
        return (kilobytes["MemTotal"] - kilobytes["MemAvailable"]) * 1024

    def _disk(self) -> tuple[int | None, int | None]:
        try:
            disk = os.statvfs(self.folder)
        except OSError:
            return None, None
        return (disk.f_blocks - disk.f_bfree) * disk.f_frsize, disk.f_blocks * disk.f_frsize


def _percent_between(before: Counters, now: Counters) -> float | None:
    ticks = now.get("ticks", 0.0) - before.get("ticks", now.get("ticks", 0.0))
    if ticks <= 0:
        return None
    idle = now["idle ticks"] - before["idle ticks"]
    return round(min(max(100.0 * (1.0 - idle / ticks), 0.0), 100.0), 1)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []  # Hidden, as in some containers: then it is not reported.


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
