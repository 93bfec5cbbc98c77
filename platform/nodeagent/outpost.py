"""The name by which batch jobs of earlier versions begin the remote runner: they may wait for days."""

from __future__ import annotations

from nodeagent.batch.remote_runner import main

__all__ = ["main"]
