"""A proposal fits whatever the hardware looks like, and gives everybody what was guaranteed."""

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.cells.compiling import compiled
from scheduler.core.cells.proposal import Machine, proposed
from scheduler.core.model.cell_specification import CellType, PhysicalCell


def machine(name: str, gpus: int, *, model: str = "V100", rack: str = "r1", switch: int = 2) -> Machine:
    """A machine with GPUs in groups behind switches, half of the GPUs on each socket."""
    places = tuple((str(index * 2 // gpus), str(index // switch), index) for index in range(gpus))
    return Machine(name=name, rack=rack, gpu_model=model, gpus=places)


def kinds(*machines: Machine) -> dict[str, tuple[str, int]]:
    return {kind.name: (kind.of, kind.count) for kind in proposed(machines, {}).types}


def test_levels_come_from_sockets_and_switches_and_equal_racks() -> None:
    four = [machine(name, 8, rack=f"r{name[0]}") for name in ("1a", "1b", "2a", "2b")]
    assert kinds(*four) == {
        "V100-SWITCH": ("V100", 2),
        "V100-SOCKET": ("V100-SWITCH", 2),
        "V100-NODE": ("V100-SOCKET", 2),
        "V100-RACK": ("V100-NODE", 2),
    }
    assert [cell.name for cell in proposed(four, {}).physical] == ["r1", "r2"]


def test_racks_that_differ_are_no_cells_and_nodes_that_differ_inside_have_no_parts() -> None:
    three = [machine("a", 4), machine("b", 4), machine("c", 4, rack="r2")]
    assert "V100-RACK" not in kinds(*three)
    assert kinds(machine("a", 8, rack="r1"), machine("b", 8, rack="r2", switch=4)) == {
        "V100-NODE": ("V100", 8)
    }
    uneven = Machine(name="u", rack="r1", gpu_model="V100", gpus=((0, 0, 0), (0, 0, 1), (1, 1, 2)))
    assert proposed([uneven], {}).types == (CellType(name="V100-NODE", of="V100", count=3, node=True),)


def test_nodes_of_several_sizes_are_several_chains() -> None:
    found = proposed([machine("a", 8), machine("b", 2)], {"vision": {"V100": 10}})
    assert {cell.type for cell in found.physical} == {"V100-8-NODE", "V100-2-NODE"}
    assert found.virtual_clusters["vision"].cells == {"V100-8-NODE": 1, "V100-2-NODE": 1}


def test_gpus_that_are_not_numbered_by_nearness_are_put_in_order() -> None:
    crossed = Machine(
        name="x", rack="r1", gpu_model="V100", gpus=((0, 0, 0), (0, 0, 2), (1, 1, 1), (1, 1, 3))
    )
    assert proposed([crossed], {}).physical == (
        PhysicalCell(type="V100-NODE", name="x", nodes=("x",), gpus={"x": (0, 2, 1, 3)}),
    )


def test_a_rack_with_two_models_is_two_cells() -> None:
    mixed = [machine(f"{model}-{n}", 4, model=model) for model in ("P100", "V100") for n in (1, 2)]
    assert [cell.name for cell in proposed(mixed, {}).physical] == ["r1", "r1-V100"]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Machine], dict[str, dict[str, int]]]:
    """Machines of any size in any rack, and guarantees that their GPUs can cover."""
    machines = [
        machine(
            f"n{number}",
            draw(st.sampled_from([1, 2, 3, 4, 6, 8])),
            model=draw(st.sampled_from(["A", "B"])),
            rack=draw(st.sampled_from(["r1", "r2"])),
            switch=draw(st.sampled_from([1, 2, 4])),
        )
        for number in range(draw(st.integers(0, 8)))
    ]
    left = Counter[str]()
    for each in machines:
        left[each.gpu_model] += len(each.gpus)
    guarantees: dict[str, dict[str, int]] = {}
    for name in draw(st.lists(st.sampled_from("vwxyz"), unique=True)):
        share = {model: draw(st.integers(0, left[model])) for model in sorted(left)}
        left.subtract(share)
        guarantees[name] = share
    return machines, guarantees


@given(clusters())
def test_every_proposal_fits_and_keeps_every_guarantee(
    cluster: tuple[list[Machine], Mapping[str, Mapping[str, int]]],
) -> None:
    machines, guarantees = cluster
    layout = compiled(proposed(machines, guarantees))
    assert len(layout.where) == sum(len(each.gpus) for each in machines)
    for name, share in guarantees.items():
        assert layout.guaranteed(name) == {model: gpus for model, gpus in sorted(share.items()) if gpus}
