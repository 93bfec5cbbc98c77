"""Report a scenario round by round: what happened, what was decided, and why the other jobs wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TextIO

from scheduler.core.lending.in_force import active
from scheduler.core.lending.lots import words_of
from scheduler.core.model.loan_terms import Loan, LoanId, MarketAction
from scheduler.core.model.plan import Action, ActionKind, Plan
from scheduler.core.model.snapshot import JobId, NodeId
from scheduler.core.round.explain import explain
from scheduler.core.round.run_view import ViewOutcome
from scheduler.core.sim.engine import Engine
from scheduler.core.sim.result import Result
from scheduler.simulation.autoscaling import service_words
from scheduler.simulation.changes import check_changes
from scheduler.simulation.division import divided_by_cells
from scheduler.simulation.experiment import DEFAULT_POLICY, Experiment
from scheduler.simulation.joining import join
from scheduler.simulation.outside import placer_text, policy_text
from scheduler.simulation.run import simulate
from scheduler.simulation.scenario import Scenario, ScenarioEvent, read_scenario
from scheduler.simulation.sweep import Case, rules_of, table_of

OnRound = Callable[[Engine, Sequence[ViewOutcome], Plan], None]


def replay_scenario(path: Path, case: Case, output: TextIO, on_round: OnRound | None = None) -> Result:
    """Simulate a scenario and print every decision; the file decides what the case leaves open."""
    scenario = read_scenario(path, case.cluster)
    cluster = divided_by_cells(scenario.cluster) if case.cells else scenario.cluster
    cluster, workload = join(cluster, scenario.workload, strict=case.strict)
    teller = _Printer(scenario, output)
    rules = rules_of(case, cluster, table_of(case))
    if rules.autoscaling is None:
        rules = replace(rules, autoscaling=scenario.autoscaling)
    round_seconds = scenario.round_seconds or 0.0 if case.round_seconds is None else case.round_seconds
    experiment = Experiment(
        cluster=cluster,
        workload=workload,
        policy=policy_text(case.policy) or scenario.policy or DEFAULT_POLICY,
        placer=placer_text(case.placer) or scenario.placer,
        rules=rules,
        round_seconds=round_seconds,
        script=tuple(teller.printed(event) for event in scenario.script),
        strict=case.strict,
        view_budget_seconds=case.view_budget_seconds,
    )
    check_changes(experiment.facts(), filter(None, [event.change for event in scenario.script]))

    def tell(engine: Engine, outcomes: Sequence[ViewOutcome], plan: Plan) -> None:
        teller.tell(engine, outcomes, plan)
        if on_round is not None:
            on_round(engine, outcomes, plan)

    result = simulate(experiment, on_round=tell)
    for record in result.jobs:
        ended = "-" if record.ended_at is None else f"{record.ended_at:g}"
        output.write(f"{teller.name(record.id)}: {record.outcome} at {ended} s\n")
    if words := service_words(result):
        output.write(f"{words}\n")
    if result.cut_short:
        output.write(f"It ended early: {result.cut_short}.\n")
    return result


class _Printer:
    """Prints events and rounds as they come; it leaves out rounds in which nothing changes."""

    def __init__(self, scenario: Scenario, output: TextIO) -> None:
        self._names, self._output = scenario.names, output
        self._why: Mapping[JobId, str] = {}
        self._loans: Mapping[LoanId, Loan] = {}
        self._closed: frozenset[NodeId] = frozenset()
        #: How many stays have been looked at, and the jobs that decisions stop: these are printed already.
        self._stays, self._stopped = 0, set[JobId]()

    def name(self, job: JobId) -> str:
        return self._names.get(job, f"job {job}")

    def printed(self, event: ScenarioEvent) -> ScenarioEvent:
        """Return the event, changed so that it is printed when it happens."""

        def act(engine: Engine) -> None:
            self._output.write(f"{event.at:>10g}  {event.words}\n")
            event.act(engine)

        return replace(event, act=act)

    def tell(self, engine: Engine, outcomes: Sequence[ViewOutcome], plan: Plan) -> None:
        self._tell_of_loans(engine)
        self._tell_of_nodes(engine)
        self._tell_of_losses(engine)
        self._stopped |= {job for action in plan.actions for job in action.jobs if action.placement is None}
        for action in sorted(plan.actions, key=lambda action: action.placement is not None):
            self._output.write(f"{engine.now:>10g}  {self._words(action)}\n")
        for mutation in plan.market:
            self._output.write(f"{engine.now:>10g}  {_mutation(mutation)}\n")
        reasons = explain(engine.round_engine.facts, engine.round_engine.admission, outcomes, plan.actions)
        why = {job: words[0].message for job, words in reasons.items() if words}
        for job, message in why.items():
            if self._why.get(job) != message:
                self._output.write(f"{engine.now:>10g}  {self.name(job)} waits: {message}\n")
        self._why = why

    def _tell_of_nodes(self, engine: Engine) -> None:
        """Print how many nodes take work, if autoscaling changed that."""
        if engine.autoscaler is not None and self._closed != engine.autoscaler.closed:
            self._closed = engine.autoscaler.closed
            nodes = engine.round_engine.facts.frame.nodes
            names = [node.name for node in nodes if node.id not in self._closed]
            self._output.write(f"{engine.now:>10g}  in service: {', '.join(names)}\n")

    def _tell_of_losses(self, engine: Engine) -> None:
        """Print which jobs have left closed or failed nodes since the last round, without a decision."""
        for stay in islice(engine.stays, self._stays, None):
            # Those that have not ended come last.
            if stay.end == "running":
                break
            self._stays += 1
            if stay.job in self._stopped:
                self._stopped.discard(stay.job)
            elif stay.end in ("drained", "lost"):
                self._output.write(f"{stay.ended_at:>10g}  stop {self.name(stay.job)} ({stay.end})\n")

    def _tell_of_loans(self, engine: Engine) -> None:
        """Print which loans have begun and ended since the last round."""
        lending = engine.round_engine.facts.frame.lending
        loans = {loan.id: loan for loan in active(lending.loans if lending else (), engine.now)}
        for verb, some, others in (("ends", self._loans, loans), ("begins", loans, self._loans)):
            for number, loan in some.items():
                if number not in others:
                    what = f"{words_of(loan.lot)} from {loan.lender} to {loan.borrower}"
                    self._output.write(f"{engine.now:>10g}  loan {number} of {what} {verb}\n")
        self._loans = loans

    def _words(self, action: Action) -> str:
        jobs = ", ".join(self.name(job) for job in action.jobs)
        if action.kind is ActionKind.STOP:
            return f"stop {jobs} ({action.cause}): {action.message}"
        if action.kind is ActionKind.REGRADE:
            return f"{'return' if action.guaranteed else 'lapse'} {jobs} ({action.cause}): {action.message}"
        assert action.placement is not None
        replicas = " + ".join(",".join(map(str, replica)) for replica in action.placement.replicas)
        return f"{action.kind.value} {jobs} on {action.placement.gpu_model} GPUs {replicas}"


def _mutation(mutation: MarketAction) -> str:
    what = "" if mutation.lot is None else f" of {words_of(mutation.lot)}"
    number = "" if mutation.offer is None else f" {mutation.offer}"
    return f"{mutation.kind}{number}{what} by rule {mutation.rule} of {mutation.virtual_cluster}"
