"""The pruning of rows that will not be read again."""

from scheduler.tasks import pruning


def test_a_step_that_fails_keeps_no_other_from_being_taken(monkeypatch, caplog):
    taken = []

    def fails() -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(pruning, "_STEPS", (lambda: taken.append(1), fails, lambda: taken.append(2)))
    pruning.prune()
    assert taken == [1, 2]
    assert "fails failed" in caplog.text
