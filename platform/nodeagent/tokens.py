"""Which client may use a shared GPU next and for how long, pure: no clock, no files, no processes.

One token a GPU: only its holder runs. Times are whole microseconds of any steady clock, shares are
thousandths of the GPU, so that every answer is exact and the same everywhere.

Source: Gemini (Chen et al., HPDC'21), the token scheduler of KubeShare's backend. Deviations: *one holder*,
so uses never overlap and none is split; *the wait is computed*: where all clients are at the limit,
`Wait.until` is the first moment at which one is below it, not when the oldest use has left the window; *the
largest burst* is what the caller, or the client itself, reports: so a quota is a second at most, whatever was
reported, where Gemini's may be all of the limit's part of the window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

#: How far back use counts.
WINDOW = 10_000_000
#: What a client gets of which no burst is known.
BASE_QUOTA = 250_000
LEAST_QUOTA = 100_000
MOST_QUOTA = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one client is owed and may have at most, in thousandths of the GPU."""

    request: int
    limit: int

    def __post_init__(self) -> None:
        if not 0 <= self.request <= self.limit <= 1000 or self.limit == 0:
            raise ValueError(
                f"request {self.request} and limit {self.limit}: "
                "expected 0 <= request <= limit, and a limit from 1 to 1000"
            )


@dataclass(frozen=True, slots=True)
class Use:
    """One client had the token from `start` to `end`."""

    client: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Grant:
    """`client` has the token now, for `quota` microseconds."""

    client: str
    quota: int


@dataclass(frozen=True, slots=True)
class Wait:
    """All waiting clients are at the limit; ask again at `until`."""

    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The uses of one GPU that still count, oldest first, since `began`, and each client's last quota."""

    began: int
    uses: tuple[Use, ...] = ()
    quotas: Mapping[str, int] | None = None

    def used(self, client: str, now: int) -> int:
        """Microseconds that `client` had the token within the window that ends `now`."""
        opened = now - WINDOW
        return sum(max(0, use.end - max(use.start, opened)) for use in self.uses if use.client == client)

    def returned(self, grant: Grant, start: int, end: int) -> History:
        """The history once the token came back at `end`; use beyond the quota counts too."""
        if end < start or (self.uses and start < self.uses[-1].end):
            raise ValueError(
                f"use from {start} to {end}: expected it to follow the use before and to end last"
            )
        kept = tuple(use for use in self.uses if use.end > end - WINDOW)
        quotas = {**(self.quotas or {}), grant.client: grant.quota}
        return replace(self, uses=(*kept, Use(grant.client, start, end)), quotas=quotas)


def next_holder(
    shares: Mapping[str, Share],
    waiting: Sequence[str],
    history: History,
    now: int,
    bursts: Mapping[str, int] | None = None,
) -> Grant | Wait | None:
    """Return which of `waiting` (first come first) gets the free token; None where none waits.

    First come clients that have not used the GPU within the window; then those behind their request, the
    furthest behind in proportion first; then those that used least. A client at its limit waits. `bursts` are
    the longest stretches of work seen lately, in microseconds.
    """
    if not waiting:
        return None
    span = min(WINDOW, now - history.began)
    used = {name: history.used(name, now) for name in waiting}
    eligible = [name for name in waiting if used[name] == 0 or used[name] * 1000 < shares[name].limit * span]
    if not eligible:
        return Wait(min(_below_limit(name, shares[name], history, now) for name in waiting))

    def rank(name: str) -> tuple[int, float]:
        if used[name] == 0:
            return 0, 0.0
        missing = shares[name].request * span - used[name] * 1000
        # missing / (missing + used) grows as used / (request * span) falls.
        return (1, -missing / (shares[name].request * span)) if missing > 0 else (2, float(used[name]))

    chosen = min(eligible, key=rank)
    return Grant(
        chosen, _quota(shares[chosen], (history.quotas or {}).get(chosen), (bursts or {}).get(chosen))
    )


def _quota(share: Share, before: int | None, burst: int | None) -> int:
    """Half the burst, half the quota before; from 100 ms to a second or the limit's part of the window."""
    quota = BASE_QUOTA if burst is None else (burst + (BASE_QUOTA if before is None else before)) // 2
    return max(LEAST_QUOTA, min(quota, share.limit * WINDOW // 1000, MOST_QUOTA))


def _below_limit(client: str, share: Share, history: History, now: int) -> int:
    """The first microsecond after `now` at which an idle client is below its limit."""
    used = history.used(client, now)
    full = history.began + WINDOW
    if now < full and used * 1000 < share.limit * WINDOW:
        return max(now, history.began + used * 1000 // share.limit) + 1
    # From here on only what leaves the window counts: as much as is above the limit, and a microsecond.
    at = max(now, full)
    surplus = history.used(client, at) - share.limit * WINDOW // 1000 + 1
    for use in history.uses:
        if use.client != client or use.end + WINDOW <= at:
            continue
        leaving = use.end - max(use.start, at - WINDOW)
        if leaving >= surplus:
            return max(at, use.start + WINDOW) + max(surplus, 0)
        surplus -= leaving
    return at + 1
