"""What the figures choose to show. How they look is for eyes."""

import pytest

from scheduler.core.model.snapshot import GpuId, NodeId
from scheduler.simulation.report.gantt import excerpt, gantt_drawing, main_tenants, nodes_of
from scheduler.simulation.report.rendering import page_svg, svg_file
from tests.simulation.report.synthetic import month, record, result, stay


def test_the_node_of_a_gpu_is_what_all_stays_on_it_share() -> None:
    stays = (
        stay(1, (6, 7, 8, 9), 0, 1),
        stay(2, (7, 6), 1, 2),
        stay(3, (9,), 1, 2),
    )
    # GPU 8 was only ever used by the gang of both nodes; it was one of its two on node 2.
    assert nodes_of(stays) == {GpuId(gpu): NodeId(1 if gpu < 8 else 2) for gpu in (6, 7, 8, 9)}


def test_a_small_run_is_shown_whole() -> None:
    small = result([record(1, started=0, ended=10)], stays=(stay(1, (0,), 0, 10),))
    shown = excerpt(small)
    assert shown.omissions == ""
    assert (shown.began_at, shown.ended_at) == (0, 10)


def test_a_large_run_shows_whole_nodes_and_the_stays_with_the_most_preemptions() -> None:
    large = month(1_500, nodes=8, seed=2, policy="srtf")
    shown = excerpt(large, gpus_drawn=20, stays_drawn=200)
    assert [len(gpus) for _, gpus in shown.nodes] == [8, 8]
    assert len(shown.stays) == 200
    assert "16 of 64 GPUs (the first 2 of 8 nodes); 200 of " in shown.omissions
    assert any(one.end == "preempted" for one in shown.stays)
    assert shown.began_at < shown.ended_at


def test_a_chart_names_what_it_leaves_out_in_its_caption() -> None:
    drawing = gantt_drawing("gantt", "srtf", month(4_000, nodes=40, seed=2, policy="srtf"), ["vision"])
    assert "256 of 320 GPUs (the first 32 of 40 nodes)" in drawing.caption


def test_tenants_keep_their_colours_from_chart_to_chart() -> None:
    one = result([record(1, started=0, ended=10, tenant="a"), record(2, started=0, ended=30, tenant="b")])
    two = result([record(1, started=0, ended=90, tenant="a"), record(2, started=0, ended=30, tenant="b")])
    assert main_tenants([one]) == ("b", "a")
    assert main_tenants([one, two]) == ("a", "b")


def test_nothing_ran_gives_no_chart() -> None:
    assert gantt_drawing("gantt", "fifo", result([]), []) is None


@pytest.mark.filterwarnings("error")
def test_names_that_look_like_formulas_are_drawn_as_they_are() -> None:
    odd = result([record(1, started=0, ended=10, tenant="$x^$ <&> 研究")], stays=(stay(1, (0,), 0, 10),))
    drawing = gantt_drawing("gantt", "fifo", odd, main_tenants([odd]))
    assert "$x^$ &lt;&amp;&gt; 研究" in page_svg(drawing)
    assert svg_file(drawing).startswith(b"<?xml")
