"""What the errors mean that NVIDIA's driver reports as numbers (Xid), from NVIDIA's public Xid catalogue:
https://docs.nvidia.com/deploy/xid-errors/

Most are a job's own doing: a bad pointer in a kernel is Xid 31. They end that job and say nothing of the
device. Others mean that the device has to be reset or replaced.
"""

from __future__ import annotations

#: A device that reported one of these is not fit for jobs before somebody has seen to it.
HARDWARE = {
    48: "a memory error of two bits",
    62: "its micro-controller halted",
    64: "a bad memory row could not be taken out of use",
    74: "an NVLink error",
    79: "it has fallen off the bus",
    95: "an uncontained memory error",
    119: "its system processor does not answer",
    120: "an error of its system processor",
    140: "an unrecovered memory error",
    143: "it could not be initialised",
}
#: Worth knowing; the device goes on, and should be reset when there is time.
SUSPICIOUS = {
    61: "a fault in its micro-controller",
    63: "a bad memory row is taken out of use",
    92: "many corrected memory errors",
    94: "a contained memory error, which ended one job",
}
#: Faults of programs: an exception in a kernel, an illegal address, a channel that was given up for it.
APPLICATION = frozenset({8, 13, 31, 32, 43, 45, 68, 69})
