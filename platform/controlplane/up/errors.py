"""What stops a start. The message is for the person at the terminal and says what to do."""


class StartError(Exception):
    """The platform cannot start, or a part of it cannot."""
