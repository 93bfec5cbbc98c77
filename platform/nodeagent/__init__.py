"""The node agent: runs on each GPU machine, starts what the control plane wants there, reports what is."""

VERSION = "0.1.0"
