"""The name by which earlier versions begin the shim: their batch jobs may wait for days."""

from __future__ import annotations

from nodeagent.shim.main import main

__all__ = ["main"]
