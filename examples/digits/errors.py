"""Ways a replica can fail, each with the exit code that tells them apart."""


class JobError(Exception):
    """A failure worth one clear line instead of a traceback."""

    exit_code = 1


class BadSettings(JobError):
    """Arguments or environment that cannot work: running again would not help."""

    exit_code = 2


class PeerLost(JobError):
    """Another rank went away. Not this rank's fault; running again may well help (EX_TEMPFAIL)."""

    exit_code = 75


class Stopped(Exception):
    """A signal asked for a stop before there was anything to checkpoint."""
