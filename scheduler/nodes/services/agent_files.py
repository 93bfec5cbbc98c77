"""What an operator copies to a new node: its agent's configuration file, and the command that starts it."""

from typing import Any

from django.conf import settings

from scheduler.nodes.services.managing import NewToken

#: One device of a simulated node; four of them are in pairs behind switches.
_SIMULATED_MEMORY_BYTES = 16 * 2**30
_SIMULATED_GPUS = 4


def agent_set_up(new: NewToken) -> dict[str, Any]:
    """Return a node's configuration with its token, for real and for simulated GPUs, JSON-ready.

    Folders are relative to the file, so that both work wherever they are written to.
    """
    node = new.node.name
    file = f"{node}.json"
    shared = {
        "server_url": settings.CONFIG.public_url,
        "node": node,
        "token": new.token,
        "work_folder": f"{node}-work",
        "checkpoint_folder": "checkpoints",
    }
    simulated = {
        "kind": "simulated",
        "gpu_model": "simulated",
        "gpus": [
            {
                "index": index,
                "memory_bytes": _SIMULATED_MEMORY_BYTES,
                "socket": index // 2,
                "switch": index // 2,
            }
            for index in range(_SIMULATED_GPUS)
        ],
    }
    return {
        "file": file,
        "command": f"chmod 600 {file} && python -m nodeagent --config {file}",
        "real": {**shared, "address": node, "inventory": {"kind": "nvml"}},
        "simulated": {**shared, "address": "127.0.0.1", "inventory": simulated},
    }
