"""Celery's entries: each fetches nothing and calls one service. All may run twice, late or never."""

import logging
import time
from collections.abc import Callable

from celery import shared_task
from celery.signals import worker_process_init, worker_process_shutdown

from scheduler.agents.maintenance import services as maintenance_services
from scheduler.agents.reservations import services as reservation_services
from scheduler.agents.services import draining, leases
from scheduler.agents.serving_pools import services as serving_pool_services
from scheduler.forecasts.adviser.services import advice, comparisons, elasticity
from scheduler.forecasts.fairness import services as fairness_services
from scheduler.forecasts.services import answers, forecasting
from scheduler.jobs.attempts.services import cpu_trials, hang_detection, profiling, progress
from scheduler.jobs.budgets import services as budget_services
from scheduler.jobs.budgets.report import report
from scheduler.jobs.services.input_workers import input_workers_match
from scheduler.nodes.services import health as node_health
from scheduler.notifications.services import dispatch, usage_reports
from scheduler.rounds.run import run_round as run_one_round
from scheduler.rounds.run import solver
from scheduler.tasks import pruning
from scheduler.tasks.out_of_time import OutOfTime, until_soft_limit
from scheduler.telemetry.metrics import services as metrics_services
from scheduler.telemetry.peaks import services as peak_services
from scheduler.telemetry.throughputs.services.interference import interference_fit
from scheduler.virtual_clusters.market.services import loans
from scheduler.wiring import wakeups
from scheduler.wiring.sweeps import for_each
from scheduler.wiring.wakeups import ACCOUNT, FORECAST, ROUND

log = logging.getLogger(__name__)

#: A forecast or an answer that takes longer is given up.
_FORECAST_SECONDS = 50
#: An account is of a few rounds; what is left over is taken up by the next one.
_ACCOUNT_SECONDS = 120
#: Advice tries many private clusters; meanwhile nothing else is predicted.
_ADVICE_SECONDS = 120
#: A question that waits for its turn looks again after this part of the time that it has waited.
_AGAIN_PART = 0.1
_AGAIN_LEAST_SECONDS, _AGAIN_MOST_SECONDS = 0.3, 5.0
_RENEWED_AT_ONCE = 10
_FOR_OPERATORS = "It could not be worked out; operators find the cause in the log."


@worker_process_init.connect
def start_solver(**_: object) -> None:
    """Let the process that computes for policies load what it needs before the first round needs it."""
    solver().warm_up()


@worker_process_shutdown.connect
def end_solver(**_: object) -> None:
    """Leave no process behind; one that is killed takes it along by itself."""
    solver().close()


# Hard limit: the backstop for a policy that never returns. Nothing is left behind by a killed round.
@shared_task(time_limit=60)
def run_round() -> None:
    ROUND.begins()
    if run_one_round() is None:
        # The round under way may have missed what this one was asked for: look again when it is done.
        ROUND.request()


@shared_task(time_limit=60)
def expire_leases() -> None:
    leases.expire_leases()


@shared_task(time_limit=60)
def watch_nodes() -> None:
    steps = (draining.drain_overdue, node_health.return_sound_nodes)
    for_each("the watch of nodes", steps, lambda step: step())


@shared_task(time_limit=60)
def watch_serving_pools() -> None:
    serving_pool_services.watch_serving_pools()


@shared_task(time_limit=60)
def watch_maintenance() -> None:
    maintenance_services.windows_advance()


@shared_task(time_limit=60)
def watch_reservations() -> None:
    reservation_services.reservations_repair()


@shared_task(time_limit=60)
def watch_jobs() -> None:
    hang_detection.watch_jobs()


@shared_task(time_limit=60)
def watch_idle_gpus() -> None:
    hang_detection.watch_idle_gpus()


@shared_task(time_limit=60)
def end_trials() -> None:
    hang_detection.end_trials()


@shared_task(time_limit=60)
def match_input_workers() -> None:
    input_workers_match()


@shared_task(time_limit=60)
def settle_market() -> None:
    loans.market_settle()


@shared_task(time_limit=60)
def dispatch_notifications() -> None:
    dispatch.dispatch()


@shared_task(time_limit=60)
def send_usage_reports() -> None:
    usage_reports.dispatch_reports(report)


@shared_task(time_limit=60)
def watch_budgets() -> None:
    budget_services.watch_budgets()


@shared_task(time_limit=60)
def sample_usage() -> None:
    metrics_services.sample_usage()


@shared_task(time_limit=60)
def sample_fragmentation() -> None:
    metrics_services.sample_fragmentation()


@shared_task(time_limit=60)
def fit_interference() -> None:
    interference_fit()


@shared_task(time_limit=300)
def roll_up_metrics() -> None:
    steps = (
        metrics_services.metrics_roll_up,
        profiling.profiles_measure,
        cpu_trials.cpus_settle,
        peak_services.peaks_predict,
    )
    for_each("the step of the roll-up", steps, lambda step: step())


@shared_task(time_limit=60)
def measure_peaks() -> None:
    peak_services.peaks_measure()


@shared_task(time_limit=60)
def fit_scaling() -> None:
    progress.fit_due()


@shared_task(time_limit=300)
def prune() -> None:
    pruning.prune()


@shared_task(soft_time_limit=_FORECAST_SECONDS, time_limit=_FORECAST_SECONDS + 10)
def forecast() -> None:
    FORECAST.begins()
    with wakeups.forecasting() as is_mine:
        # The process that has the turn is done soon, and the next round asks again.
        if not is_mine:
            return
        try:
            with until_soft_limit():
                FORECAST.took(forecasting.run_forecast())
        except OutOfTime:
            log.warning("a forecast was given up after %d s: the queue is too long", _FORECAST_SECONDS)
            FORECAST.took(_FORECAST_SECONDS)


@shared_task(time_limit=_ACCOUNT_SECONDS)
def account_for_rounds() -> None:
    ACCOUNT.begins()
    began = time.perf_counter()
    fairness_services.account_for_rounds()
    ACCOUNT.took(time.perf_counter() - began)


@shared_task(soft_time_limit=_FORECAST_SECONDS, time_limit=_FORECAST_SECONDS + 10)
def answer_what_if(question: str) -> None:
    with wakeups.forecasting() as is_mine:
        if is_mine:
            _answered_or_given_up(question, answers.answer, answers.give_up, answers.TOO_LONG)
        else:
            _wait_on(question, answers.seconds_waited(question), wakeups.request_answer)


@shared_task(soft_time_limit=_FORECAST_SECONDS, time_limit=_FORECAST_SECONDS + 10)
def compare_with_private(virtual_cluster: str) -> None:
    with wakeups.forecasting() as is_mine:
        if is_mine:
            _answered_or_given_up(
                virtual_cluster, comparisons.run_comparison, comparisons.give_up, comparisons.TOO_LONG
            )
        else:
            _wait_on(virtual_cluster, comparisons.seconds_waited(virtual_cluster), wakeups.request_comparison)


@shared_task(time_limit=_FORECAST_SECONDS + 10)
def renew_comparisons() -> None:
    """Ask for the comparisons that are old, one after another, as far as there is time.

    One that finds no turn is left to the next call: no one asked for it.
    """
    for place, name in enumerate(comparisons.outdated()[:_RENEWED_AT_ONCE]):
        wakeups.request_comparison(name, after_seconds=float(place))


@shared_task(soft_time_limit=_ADVICE_SECONDS, time_limit=_ADVICE_SECONDS + 10)
def advise(advice_id: str) -> None:
    with wakeups.forecasting(most_ms=(_ADVICE_SECONDS + 15) * 1_000) as is_mine:
        if is_mine:
            _answered_or_given_up(advice_id, advice.work_out, advice.give_up, advice.TOO_LONG)
        else:
            _wait_on(advice_id, advice.seconds_waited(advice_id), wakeups.request_advice)


@shared_task(soft_time_limit=_ADVICE_SECONDS, time_limit=_ADVICE_SECONDS + 10)
def work_out_elasticity_savings(question: str) -> None:
    with wakeups.forecasting(most_ms=(_ADVICE_SECONDS + 15) * 1_000) as is_mine:
        if is_mine:
            _answered_or_given_up(question, elasticity.work_out, elasticity.give_up, elasticity.TOO_LONG)
        else:
            _wait_on(question, elasticity.seconds_waited(question), wakeups.request_elasticity_savings)


def _wait_on(question: str, waited_seconds: float | None, request: Callable[..., None]) -> None:
    """Ask for the question's turn again, ever more rarely; not where nothing waits for the answer any more.

    Many questions at once, each asking again at once, would keep the workers from their answers.
    """
    if waited_seconds is not None:
        after_seconds = min(max(_AGAIN_LEAST_SECONDS, _AGAIN_PART * waited_seconds), _AGAIN_MOST_SECONDS)
        request(question, after_seconds=after_seconds)


def _answered_or_given_up(
    question: str, answer: Callable[[str], object], give_up: Callable[[str, str], None], too_long: str
) -> None:
    """Work on what was asked; whatever happens, say how it ended to the one who asked."""
    try:
        with until_soft_limit():
            answer(question)
    except OutOfTime:
        give_up(question, too_long)
    except Exception:
        give_up(question, _FOR_OPERATORS)
        raise


# A simulation may take hours; acknowledged late or not, a repeated one writes the same file again.
@shared_task(time_limit=24 * 3_600)
def simulate_case(case: str, target: str) -> None:
    """Run one case of a sweep and write its result to TARGET.json, or why it failed to TARGET.error."""
    # The simulator of others' policies and its tables: few workers ever run a case.
    from scheduler.simulation.result_files import run_to_file

    run_to_file(case, target)
