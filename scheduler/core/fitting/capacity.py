"""What a view may hand out, down to single GPUs; it shrinks as the view hands it out.

`offers` states what is available and which holders would lose it, `account` how much of it the view may hand
out, and `searching` what fits where.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from scheduler.core.fitting.account import Account, HeldGpus
from scheduler.core.fitting.cards import gpus_in
from scheduler.core.fitting.cluster import Cluster
from scheduler.core.fitting.holding import Fit, Holding, Part, sum_of, together
from scheduler.core.fitting.offers import EVICTING, IDLE, RELEASING, BySize, Pending
from scheduler.core.fitting.packing import Layer
from scheduler.core.fitting.searching import Searching
from scheduler.core.fitting.storage import left_after
from scheduler.core.model.plan import Grant
from scheduler.core.model.snapshot import JobId


class Capacity(Searching):
    """The GPUs that a view may use. Changes as gangs are settled on it; `fork` returns a scratch copy."""

    def __init__(
        self,
        cluster: Cluster,
        layers: Mapping[str, Sequence[Layer]],
        evictable: Mapping[tuple[str, int], Sequence[tuple[Holding, Part]]],
        by_size: BySize | None = None,
    ) -> None:
        super().__init__(cluster, layers, evictable, by_size)
        #: The layers and the account that no fork shares; others are copied before they are changed.
        self._unshared: set[Layer | Account] = set()

    def fork(self) -> Capacity:
        """Return a copy that can be changed without changing this one."""
        twin = Capacity.__new__(Capacity)
        twin.__dict__.update(self.__dict__)
        # Layers and the account are shared until one of the two changes them; the rest is copied here.
        twin.pending, twin.dropped = dict(self.pending), set(self.dropped)
        twin._layers = {model: list(offers) for model, offers in self._layers.items()}
        self._unshared, twin._unshared = set(), set()
        return twin

    def narrowed(
        self,
        limits: Mapping[str, int] | None,
        pending: Pending | None = None,
        own: HeldGpus | None = None,
        lapsed: Mapping[Holding, int] | None = None,
        *,
        may_evict: bool,
    ) -> Capacity:
        """Return the part of this capacity that a view may use.

        Its jobs already hold `pending`, with the GPUs of `own` in all; None: they stay in place. A holding in
        `lapsed` makes room only for a higher priority.
        """
        pending, own = pending or {}, own or HeldGpus()
        view = self.fork()
        view._lapsed, view.pinned, view.pending = lapsed or {}, frozenset(), dict(pending)
        view.account = Account(limits, own, len(pending))
        if not may_evict:
            view._layers = {model: offers[:EVICTING] for model, offers in view._layers.items()}
        return view

    def terms(self) -> object | None:
        """Return the terms of a capacity on which nothing is settled yet: rounds with equal terms offer the
        same GPUs under the same limits.

        None where they are unknown: with victims, with pinned or lapsed holdings, and in cells.
        """
        if self.dropped or self.pinned or self._lapsed or self._private:
            return None
        layers = [(layer, layer.version) for layers in self._layers.values() for layer in layers]
        return self.cluster, layers, self.account.limits, self.account.own.by_model.copy()

    def pinning(self, units: Collection[tuple[JobId, ...]]) -> Capacity:
        """Return a copy in which these holdings of the view stay: their GPUs are counted and kept from
        others.

        They are still pending, so that a policy sees them; dropping one keeps it. Holdings pinned earlier
        stay pinned.
        """
        twin = self.fork()
        twin.pinned = self.pinned.union(units)
        pinned = [twin.pending[unit] for unit in twin.pinned - self.pinned]
        twin._own_account().count_ahead(pinned, len(twin.pending))
        return twin

    def reserving(self, holding: Holding, units: Collection[tuple[JobId, ...]]) -> Capacity:
        """Return a copy in which no other job gets the GPUs meant for a gang, and these holdings of the view
        stay.

        The view's limit is reserved as well, less the GPUs of jobs whose end the gang awaits, and less GPUs
        of which other jobs of the view have parts, which count already. No job is stopped for it yet.
        """
        model, twin = holding.model, self.pinning(units)
        own = {jobs: each for jobs, each in self.pending.items() if each.model == model}
        waited_for = [own.pop(jobs) for jobs in units if jobs in own]
        opened = {gpu for each in own.values() for gpu in each.shared}
        more = holding.gpus - together(waited_for, has_parts=True) - len(opened.intersection(holding.shared))
        twin._own_account().reserve(model, max(0, more))
        for layer in twin._own_layers(model):
            for part in holding.parts:
                cpus = min(part.cpus, max(layer.cpus[part.node], 0.0))
                memory = min(part.memory, max(layer.memory[part.node], 0.0))
                layer.remove(part._replace(cpus=cpus, memory=memory, shares=()))
        return twin

    def beside(self, cluster: Cluster, layers: Mapping[str, Sequence[Layer]]) -> Capacity:
        """Return the capacity with a view's own layers in place of those of the same models.

        `cluster` has the fleets of these layers, and otherwise only fleets of this capacity.
        """
        twin = self.fork()
        twin.cluster, twin._private = cluster, frozenset(layers)
        twin._layers = {
            model: list(layers[model] if model in layers else self._layers[model]) for model in cluster.fleets
        }
        return twin

    def lending(self, lent: Sequence[tuple[str, Part]]) -> Capacity:
        """Return a copy that also offers these CPUs and this memory of nodes, by model."""
        twin = self.fork()
        for model, part in lent:
            for layer in twin._own_layers(model):
                layer.add(part)
        return twin

    def lending_no_more(self, lent: Sequence[tuple[str, Part]]) -> Capacity:
        """Return a copy that no longer offers them, even if some were handed out."""
        twin = self.fork()
        for model, part in lent:
            twin.take_beside(model, [part])
        return twin

    def regardless_of_lapsed(self) -> Capacity:
        """Return a copy in which jobs whose guarantee has lapsed make room for all others."""
        twin = self.fork()
        twin._lapsed = {}
        return twin

    def rank(self, grants: Iterable[Grant]) -> None:
        """Order the pending holdings as they are granted, so that the last ones are the first victims."""
        ranked = {grant.jobs: self.pending.pop(grant.jobs) for grant in grants if grant.jobs in self.pending}
        self.pending = ranked | self.pending

    # Changes

    def keep(self, holding: Holding) -> None:
        """Keep one of the view's own holdings in place."""
        assert holding.running is not None
        del self.pending[holding.running.jobs]
        if not self._is_pinned(holding):
            self._own_account().count(holding)

    def keep_all(self, but: Collection[JobId] = ()) -> None:
        """Keep the view's own holdings in place, except those of the jobs named."""
        left: Pending = {}
        kept = self.pending
        if but:
            named = set(but)
            left = {jobs: holding for jobs, holding in kept.items() if not named.isdisjoint(jobs)}
            kept = {jobs: holding for jobs, holding in kept.items() if jobs not in left}
        free = [holding for holding in left.values() if not self._is_pinned(holding)]
        if self._own_account().count_own(kept, free, len(left) - len(free)):
            self.pending = left
            return
        for holding in list(kept.values()):
            self.keep(holding)

    def drop(self, holding: Holding) -> None:
        """Stop a holding: its GPUs come free once their nodes report them free. A pinned holding stays."""
        if self._is_pinned(holding):
            assert holding.running is not None
            self.pending.pop(holding.running.jobs, None)
            return
        if holding.running is not None:
            self.pending.pop(holding.running.jobs, None)
        if holding not in self.dropped and self.account.has_counted(holding):
            self._own_account().uncount(holding)
        self.dropped.add(holding)
        self._end_readings(holding)
        usable = self.cluster.fleets[holding.model].usable
        stop = EVICTING if holding.evictable else len(self._layers[holding.model])
        for layer in self._own_layers(holding.model, RELEASING, stop):
            for part in holding.parts:
                layer.add(part, usable[part.node])

    def drop_all(self, holdings: Sequence[Holding]) -> None:
        """Stop many holdings at once; each node is updated only once."""
        gone: dict[tuple[str, bool], list[Holding]] = {}
        pending, dropped = self.pending, self.dropped
        for holding in holdings:
            if holding in dropped or (self.pinned and self._is_pinned(holding)):
                self.drop(holding)
                continue
            dropped.add(holding)
            if holding.running is not None:
                pending.pop(holding.running.jobs, None)
            kind = holding.model, holding.evictable
            if kind in gone:
                gone[kind].append(holding)
            else:
                gone[kind] = [holding]
        account = self._own_account()
        for (model, evictable), alike in gone.items():
            account.uncount_all(alike)
            if self.cluster.fleets[model].storage:
                for holding in alike:
                    self._end_readings(holding)
            nodes: dict[int, list[Part]] = {}
            for holding in alike:
                for part in holding.parts:
                    if part.node in nodes:
                        nodes[part.node].append(part)
                    else:
                        nodes[part.node] = [part]
            usable = self.cluster.fleets[model].usable
            added = [parts[0] if len(parts) == 1 else sum_of(node, parts) for node, parts in nodes.items()]
            stop = EVICTING if evictable else len(self._layers[model])
            for layer in self._own_layers(model, RELEASING, stop):
                for part in added:
                    layer.add(part, usable[part.node])

    def give_back(self, holding: Holding) -> bool:
        """Restore one of the view's own dropped holdings if its place is still free; return whether it
        was.
        """
        if self._is_pinned(holding):
            return True
        fleet, free = self.cluster.fleets[holding.model], self._layers[holding.model][RELEASING]
        if holding not in self.dropped or self.account.cost(holding) > self.room(holding.model):
            return False
        for node, mask, cpus, memory, shares, readings in holding.parts:
            mine = mask & fleet.usable[node] & ~gpus_in(shares)
            if not all([free.takes(node, share, fleet.memory_of(node, share.gpu)) for share in shares]):
                return False
            if mine & ~free.masks[node] or cpus > free.cpus[node] or memory > free.memory[node]:
                return False
            if not free.can_read(node, readings):
                return False
        self.dropped.remove(holding)
        self._end_readings(holding, ends=False)
        self._withdraw(holding)
        return True

    def take(self, fit: Fit) -> None:
        """Settle a gang on the place found for it; victims in its way are dropped."""
        for victim in fit.victims:
            self.drop(victim)
        self._withdraw(fit.holding)

    def take_for_now(self, fit: Fit) -> Callable[[], None]:
        """Settle a gang for which no job has to leave; return a function that undoes it if nothing changed
        since.

        This is cheaper than a fork, which copies all layers that change.
        """
        assert not fit.victims
        nodes = [part.node for part in fit.holding.parts]
        before = [
            (layer, node, layer.at(node)) for layer in self._own_layers(fit.holding.model) for node in nodes
        ]
        self._withdraw(fit.holding)

        def take_back() -> None:
            for layer, node, offered in before:
                layer.set(node, *offered)
            self._own_account().uncount(fit.holding)

        return take_back

    def take_beside(self, model: str, parts: Sequence[Part]) -> None:
        """Take CPUs and memory of nodes, and no GPUs."""
        for layer in self._own_layers(model):
            for part in parts:
                layer.remove(part)

    def _withdraw(self, holding: Holding) -> None:
        """Stop offering what a holding has, and count it."""
        account = self._own_account()
        for layer in self._own_layers(holding.model):
            for part in holding.parts:
                layer.remove(part)
        account.count(holding)

    def _end_readings(self, holding: Holding, *, ends: bool = True) -> None:
        """Count what a holding reads as leaving, or, without `ends`, as staying after all."""
        if not self.cluster.fleets[holding.model].storage:
            return
        for part in [part for part in holding.parts if part.readings]:
            (idle,) = self._own_layers(holding.model, IDLE, RELEASING)
            soon = idle.leaving.get(part.node, ())
            idle.leaving[part.node] = (*soon, *part.readings) if ends else left_after(soon, part.readings)

    def _own_layers(self, model: str, first: int = 0, end: int | None = None) -> list[Layer]:
        """Return the layers of a model, each once, as copies that no fork and no other reach shares."""
        layers = self._layers[model]
        beyond = {*layers[:first], *(() if end is None else layers[end:])}
        own: dict[Layer, Layer] = {}
        for reach, layer in enumerate(layers[first:end], first):
            if layer not in own:
                is_own = layer in self._unshared and layer not in beyond
                own[layer] = layer if is_own else layer.copy()
                self._unshared.add(own[layer])
            layers[reach] = own[layer]
        return list(own.values())

    def _own_account(self) -> Account:
        """Return the account, copied if a fork shares it."""
        if self.account not in self._unshared:
            self.account = self.account.fork()
            self._unshared.add(self.account)
        return self.account
