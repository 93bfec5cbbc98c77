"""The node agent: runs on each GPU machine, starts what the control plane wants there, reports what is.

README.md beside this file has the diagram and the words.

    agent, machine   what is done, and what is decided (pure)
    client, messages, frames   the way to the server, and what is said on it
    executor         the seam: what carries attempts out
    process          they are processes of this machine
    batch            they are jobs of another scheduler; `remote_runner` is what such a job consists of
    shim             the parent of one attempt's processes, which outlives the agent
    devices, health, metrics, output, sessions   reports of the node, and what goes on in attempts
    clock, configuration, folder, procfs, programs   what all of them use

Three modules are programs that other versions call by name, so their names stay: `nodeagent` itself,
`nodeagent.shim.main`, and `nodeagent.batch.remote_runner`, which batch jobs name that wait in line for days.
"""

VERSION = "0.1.0"
