"""What all processes of Celery share, and the whole beat schedule, readable at a glance.

Celery ticks and carries short, repeatable work. Nothing is wrong if a tick comes twice, late or not
at all: the round number in the database is the fence.
"""

from typing import Any

from celery import Celery

from controlplane import server_urls
from controlplane.config import config

#: After how many tasks a process of the worker makes room for a new one.
TASKS_PER_PROCESS = 5_000


def celery_app(**options: Any) -> Celery:
    """Make the app of a process; `options` are those of Celery's class."""
    redis_url, round_seconds = config().redis_url, config().round_seconds
    app = Celery("allotment", broker=redis_url.partition("?")[0], **options)
    app.conf.update(
        # For a rediss:// address without options Celery would make a plain connection.
        broker_use_ssl=server_urls.redis_tls(redis_url) or False,
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        # A tick that waited longer than the next tick is worth nothing.
        task_default_expires=60,
        worker_prefetch_multiplier=1,
        worker_max_tasks_per_child=TASKS_PER_PROCESS,
        # Celery would close the pool of connections before and after each task. To sign in to PostgreSQL
        # again costs both sides more than most tasks do. `controlplane.celery` gives the connection back.
        CELERY_DB_REUSE_MAX=TASKS_PER_PROCESS,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"visibility_timeout": 600},
        task_routes={"scheduler.tasks.run_round": {"queue": "rounds"}},
        task_default_queue="default",
        beat_schedule={
            "round": {"task": "scheduler.tasks.run_round", "schedule": round_seconds},
            "expire-leases": {"task": "scheduler.tasks.expire_leases", "schedule": 2.0},
            "watch-nodes": {"task": "scheduler.tasks.watch_nodes", "schedule": 2.0},
            "watch-serving-pools": {"task": "scheduler.tasks.watch_serving_pools", "schedule": 2.0},
            "watch-maintenance": {"task": "scheduler.tasks.watch_maintenance", "schedule": 2.0},
            "watch-reservations": {"task": "scheduler.tasks.watch_reservations", "schedule": 5.0},
            "watch-jobs": {"task": "scheduler.tasks.watch_jobs", "schedule": 15.0},
            "watch-idle-gpus": {"task": "scheduler.tasks.watch_idle_gpus", "schedule": 60.0},
            "end-trials": {"task": "scheduler.tasks.end_trials", "schedule": 5.0},
            "match-input-workers": {"task": "scheduler.tasks.match_input_workers", "schedule": 5.0},
            "settle-market": {"task": "scheduler.tasks.settle_market", "schedule": 2.0},
            "dispatch_notifications": {"task": "scheduler.tasks.dispatch_notifications", "schedule": 2.0},
            "send-usage-reports": {"task": "scheduler.tasks.send_usage_reports", "schedule": 60.0},
            "watch-budgets": {"task": "scheduler.tasks.watch_budgets", "schedule": 10.0},
            "sample-usage": {"task": "scheduler.tasks.sample_usage", "schedule": 10.0},
            "sample-fragmentation": {"task": "scheduler.tasks.sample_fragmentation", "schedule": 60.0},
            "fit-scaling": {"task": "scheduler.tasks.fit_scaling", "schedule": 5.0},
            "fit-interference": {"task": "scheduler.tasks.fit_interference", "schedule": 300.0},
            "renew-comparisons": {"task": "scheduler.tasks.renew_comparisons", "schedule": 60.0},
            "roll-up-metrics": {"task": "scheduler.tasks.roll_up_metrics", "schedule": 60.0},
            "measure-peaks": {"task": "scheduler.tasks.measure_peaks", "schedule": 10.0},
            "prune": {"task": "scheduler.tasks.prune", "schedule": 300.0},
            "prune-answers": {"task": "controlplane.tasks.prune", "schedule": 600.0},
        },
    )
    return app
