"""Jobs that do nothing but take as long for a step as their kind of training would on the GPU they are given.

What a job has done is kept in its checkpoint, so that it may be stopped and moved.
"""

import json
from collections.abc import Mapping
from typing import Any

PROGRAM = """
import json, os, pathlib, signal, sys, time
done_file = pathlib.Path(os.environ["ALLOT_CHECKPOINT_DIR"]) / "done"
speed, work = json.loads(os.environ["SPEEDS"])[os.environ["ALLOT_GPU_MODEL"]], int(os.environ["WORK"])
done = int(done_file.read_text()) if done_file.exists() else 0
stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
began, before = time.monotonic(), done
with open(os.environ["ALLOT_PROGRESS"], "a") as progress:
    while done < work and not stopping:
        time.sleep(max(0.0, began + (done + 1 - before) / speed - time.monotonic()))
        done += 1
        progress.write(json.dumps({"step": done, "samples": done}) + "\\n")
        progress.flush()
done_file.write_text(str(done))
print(before, "to", done, "of", work, "on", os.environ["ALLOT_GPU_MODEL"], flush=True)
sys.exit(0 if done == work else 1)
"""


def training(kind: str, speeds: Mapping[str, float], samples: int, **fields: Any) -> dict[str, Any]:
    """Return the specification of a job on one GPU of any of these models; speeds are samples a second."""
    return {
        "name": kind,
        "application": kind,
        "throughput": speeds,
        "estimate": max(1, round(samples / max(speeds.values()))),
        "tasks": [
            {
                "name": "main",
                "resources": {"gpu": 1, "gpu_model": list(speeds)},
                "command": ["python", "-c", PROGRAM],
                "env": {"SPEEDS": json.dumps(speeds), "WORK": str(samples)},
            }
        ],
        "checkpoint": {"grace_seconds": 5},
        **fields,
    }
