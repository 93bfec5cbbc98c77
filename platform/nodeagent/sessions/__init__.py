"""People's ways into attempts: a shell beside a replica, or a port of a job."""
