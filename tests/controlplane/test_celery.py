"""Every process that loads Django publishes to our broker, from whichever thread; beat does so without it."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from celery import current_app

from controlplane.config import config


def test_a_thread_publishes_to_the_installations_broker() -> None:
    with ThreadPoolExecutor(1) as pool:
        broker = pool.submit(lambda: current_app.conf.broker_url).result()
    assert broker == config().redis_url


def test_beat_loads_neither_django_nor_the_scheduler_and_ticks_alike() -> None:
    program = """if True:
        import sys
        from controlplane.beat import app
        app.loader.init_worker()
        print(*sorted({"django.db", "scheduler", "rest_framework"} & set(sys.modules)))
        print(*sorted(entry["task"] for entry in app.conf.beat_schedule.values()))
        print(app.conf.broker_url, app.conf.task_routes)
    """
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    loaded, ticks, where = said.splitlines()
    assert loaded == ""
    assert ticks.split() == sorted(entry["task"] for entry in current_app.conf.beat_schedule.values())
    assert where == f"{current_app.conf.broker_url} {current_app.conf.task_routes}"
