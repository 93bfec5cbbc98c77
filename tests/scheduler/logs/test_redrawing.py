"""The rows of output that moves the cursor up, also where it does little else."""

from scheduler.telemetry.logs.services.redrawing import redrawn


def test_a_row_that_is_written_again_follows_a_carriage_return():
    assert redrawn(["outer 1%\ninner 1%\x1b[A", "outer 2%\ninner 2%"]) == (
        ["outer 1%\router 2%", "inner 1%\rinner 2%"],
        [0, 0],
    )


def test_one_carriage_return_is_enough_however_often_the_cursor_moves():
    assert redrawn(["a\x1b[A" + "\x1b[A" * 9, "\x1b[A\n\r\n\x1b[Ab"]) == (["a\r", "\rb", ""], [0, 0])


def test_the_time_grows_with_the_text_however_often_the_cursor_moves():
    """Where each move copied its row, this took many minutes."""
    times = 1_000_000
    (row,), _ = redrawn(["a\x1b[A" * times])
    assert row == "a\r" * times
