"""Real PostgreSQL and Redis out of pip wheels, run by us (decision 0006).

Both listen on the loopback address only, on a port below those the kernel hands to outgoing
connections, behind a random password. Both are plain child processes: the caller starts `argv` by
`spawn.Spawn`, waits until `is_ready()`, and ends them with `stop_signal`.
"""
