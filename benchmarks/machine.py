"""What a figure was measured on, in one line."""

import os
import platform
from pathlib import Path


def machine() -> dict[str, str | int]:
    """Return the same by name."""
    model = "unknown processor"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": os.cpu_count() or 0,
        "processor": model,
        "memory_gib": round(memory),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def describe_machine() -> str:
    known = machine()
    return (
        f"machine: {known['cores']} cores, {known['processor']}, {known['memory_gib']} GiB, "
        f"{known['system']}, Python {known['python']}"
    )
