"""What all domains share: clock, wake-ups, the live stream, plug-ins, what endpoints have in common."""
