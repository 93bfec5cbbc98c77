"""Chaos: a whole platform under a steady load of real jobs, hurt again and again, and then held to account.

    python -m tests.chaos --seed 7 --faults 500 --minutes 20        (make chaos)

It lives beside the tests, for it is one: it starts its platform as the end-to-end tests do, and fails by its
exit status. docs/chaos.md says what is done to the platform, what is checked, and what was found.
"""
