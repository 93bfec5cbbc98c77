"""Attempts as processes of this machine: what they may see and use, who starts them, how they ended."""
