"""One job that tries everything at once, and what is there to be tried: the same under every isolation."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from nodeagent.messages import GpuPart
from tests.agent.builders import everybodys_python, make_part, python, shell
from tests.agent.runtime_node import RuntimeNode, daemon_pid
from tests.patience import until_async

SECRET = "the rival's weights"
ATTACK = """
import json, os, resource, socket, sys
files, sockets, pids = json.loads(sys.argv[1])
done = []

def attempt(what, deed, *arguments):
    try:
        deed(*arguments)
    except OSError:
        return
    done.append(what)

def found(path):
    if os.path.basename(path) not in os.listdir(os.path.dirname(path)):
        raise FileNotFoundError

def look(path):
    return os.readlink(path) if path.endswith(("0", "cwd")) else open(path, "rb").read(1)

def connect(folder, name):
    # From within, since the whole path may be longer than a socket's name can be.
    os.chdir(folder)
    socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(name)

for path in files:
    attempt(f"read {path}", lambda: open(path, "rb").read())
    attempt(f"write {path}", lambda: open(path, "ab"))
    attempt(f"find {path}", found, path)
    attempt(f"link {path}", os.link, path, "mine")
    attempt(f"move {path}", os.rename, path, "mine")
    attempt(f"truncate {path}", os.truncate, path, 0)
for pid in pids:
    attempt(f"signal {pid}", os.kill, pid, 0)
    for name in ("environ", "mem", "maps", "cwd", "fd/0"):
        attempt(f"look into /proc/{pid}/{name}", look, f"/proc/{pid}/{name}")
    attempt(f"limit {pid}", resource.prlimit, pid, resource.RLIMIT_CORE, (0, 0))
for path in sockets:
    folder, name = os.path.split(path)
    attempt(f"connect to {path}", connect, folder, name)
attempt("become root", os.setuid, 0)
os.chdir(os.environ["HOME"])
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
open("own", "w").write("mine")
open(os.path.join(os.environ["TMPDIR"], "own"), "w").write("mine")
open(os.path.join(os.environ["ALLOT_CHECKPOINT_DIR"], "own"), "w").write("mine")
open(os.environ["ALLOT_PROGRESS"], "a").write('{"step": 1}\\n')
rights = {name: status[name].strip() for name in ("CapEff", "CapBnd", "NoNewPrivs")}
print(json.dumps({"done": done, "user": os.getuid(), **rights}))
"""


async def attacked(node: RuntimeNode, folder: Path) -> dict[str, Any]:
    """Let a job attack the platform's files, another tenant's job and the agent; return what it could do.

    `folder`: where the node's own folders are, and an installation's as `make up` makes it.
    """
    installation = folder / ".allot"
    installation.mkdir(mode=0o700)
    for name in ("env", "postgres.data", "agent.json"):
        (installation / name).write_text(SECRET)
        (installation / name).chmod(0o600)
    work, checkpoint = await with_rival(node)
    others = node.runtime.folder(1)
    files = [*map(str, sorted(installation.iterdir())), work, checkpoint]
    files += [others.part, others.spec, others.log(0), node.runtime.lease]
    # Who says when the rival may use its part of a GPU.
    token = str(node.runtime.shared_gpus.folder / "0")
    files += [token, f"{token}.lock", others.held]
    daemon = await until_async(lambda: daemon_pid(node))
    pids = [os.getpid(), os.getppid(), node.runtime.shims[1].pid, *node.alive(1), daemon]
    targets = json.dumps([files, [others.door, others.token(0), token], pids])
    script = python(ATTACK, interpreter=everybodys_python())
    await node.run(make_part(replace(script, command=(*script.command, targets)), attempt=2))
    assert all(Path(path).exists() for path in files)
    return dict(json.loads(node.text(2).splitlines()[-1]))


async def with_rival(node: RuntimeNode) -> tuple[str, str]:
    """Let a job of another tenant run; return where its secrets are."""
    script = f'umask 0; echo "{SECRET}" > secret; cp secret $ALLOT_CHECKPOINT_DIR; cat secret; sleep 600'
    replica = shell(script, gpu_indexes=(0,), gpu_part=GpuPart(request=500, limit=1000))
    await node.start(make_part(replica, attempt=1, tenant="rival"))
    await node.line(SECRET)
    return f"{node.runtime.folder(1).work(0)}/secret", f"{node.configuration.checkpoint_folder}/101/secret"
