"""Ways into running attempts: sockets of users and of node agents, joined; and the pages of jobs."""
