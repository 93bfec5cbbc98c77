"""Every process that loads Django publishes to our broker, from whichever thread."""

from concurrent.futures import ThreadPoolExecutor

from celery import current_app

from controlplane.config import config


def test_a_thread_publishes_to_the_installations_broker() -> None:
    with ThreadPoolExecutor(1) as pool:
        broker = pool.submit(lambda: current_app.conf.broker_url).result()
    assert broker == config().redis_url
