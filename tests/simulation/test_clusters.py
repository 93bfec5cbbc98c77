"""Clusters as people write them, and who of a workload is who in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.core.fitting.feasible import never_fits
from scheduler.core.model.snapshot import Member, Snapshot, Tenant
from scheduler.simulation.cluster_yaml import read_cluster_yaml
from scheduler.simulation.clusters import load_cluster, parse_cluster, read_cluster
from scheduler.simulation.errors import ClusterError, InputError
from scheduler.simulation.inventory import ClusterSpec
from scheduler.simulation.joining import join
from scheduler.simulation.traces.registry import read_trace
from tests.simulation import samples
from tests.simulation.samples import SHARED


def sizes(cluster: ClusterSpec) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for node in cluster.nodes:
        found.setdefault(node.gpu_model, []).append(len(node.gpus))
    return found


# --- a SPEC


def test_a_spec_gives_gpus_of_each_model_and_of_a_node() -> None:
    cluster = parse_cluster("v100=36,p100=36,k80=36:4")
    assert cluster.gpus_by_model == {"k80": 36, "p100": 36, "v100": 36}
    assert sizes(cluster) == {"v100": [4] * 9, "p100": [4] * 9, "k80": [4] * 9}
    assert sizes(parse_cluster("v100=36:4,p100=32:8")) == {"v100": [4] * 9, "p100": [8] * 4}
    assert sizes(parse_cluster("v100=16")) == {"v100": [8, 8]}


def test_the_last_node_is_smaller_when_gpus_do_not_come_out_even() -> None:
    cluster = parse_cluster("v100=20:8")
    assert sizes(cluster) == {"v100": [8, 8, 4]}
    assert cluster.notes == ("The last v100 node has 4 GPUs, the others 8.",)
    assert sizes(parse_cluster("v100=4:8")) == {"v100": [4]}


def test_without_virtual_clusters_one_owns_everything() -> None:
    (vc,) = parse_cluster("v100=8,k80=4").virtual_clusters
    assert (vc.name, vc.guaranteed, vc.members) == ("cluster", {"k80": 4, "v100": 8}, ())


def test_ids_of_nodes_and_gpus_are_unique() -> None:
    cluster = parse_cluster("v100=36,p100=36,k80=36:4")
    gpus = [gpu.id for node in cluster.nodes for gpu in node.gpus]
    assert gpus == list(range(1, 109))
    assert [node.id for node in cluster.nodes] == list(range(1, 28))
    assert len({node.name for node in cluster.nodes}) == 27


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v100=", r"'v100=' is not model=GPUs; a SPEC is like v100=36,p100=36,k80=36:4"),
        ("v100=8,", "'' is not model=GPUs"),
        ("v100=0", "v100: GPUs must be from 1 to 1,000,000"),
        ("v100=8:0", "on nodes of at least 1"),
        ("v100=99999999999", "GPUs must be from 1 to 1,000,000"),
        ("v100=8,v100=8", "v100 is named twice; give all its GPUs at once"),
        ("v100=8:4,p100=8,k80=8", "give the GPUs of a node once, after the last"),
        ("v100=-8", "is not model=GPUs"),
    ],
)
def test_a_wrong_spec_says_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        parse_cluster(text)


def test_what_is_neither_a_file_nor_a_spec_is_said_so() -> None:
    with pytest.raises(ClusterError, match="there is no such file, and a SPEC is like"):
        load_cluster("clsuter.yaml")


# --- a file

YAML = """
name: example
racks:
  - name: rack
    count: 2
    nodes:
      - {count: 2, gpu_model: V100, gpus: 8, cpus: 64, memory: 512GiB, sockets: 2, switches: 4,
         storage_bandwidth: 2GiB, cache: 300GiB}
nodes:
  - {name: old, gpu_model: K80, gpus: 4}
prices: {V100: 2.48}
virtual_clusters:
  - name: research
    guaranteed: {V100: 24}
    members: {speech: 2, vision: 1}
    policy: fifo
    default_time_limit: 12h
  - name: anyone
    guaranteed: {V100: 8, K80: 4}
tenants:
  - {name: speech, quota: {V100: 16, "*": 20}, quota_cpus: 64, quota_memory: 512GiB}
"""


def read_text(folder: Path, text: str, name: str = "cluster.yaml") -> ClusterSpec:
    (folder / name).write_text(text)
    return load_cluster(str(folder / name))


def test_a_file_describes_racks_nodes_virtual_clusters_and_tenants(tmp_path: Path) -> None:
    cluster = read_text(tmp_path, YAML)
    assert cluster.name == "example"
    assert [(node.name, node.path) for node in cluster.nodes] == [
        ("rack-1-V100-0001", ("rack-1",)),
        ("rack-1-V100-0002", ("rack-1",)),
        ("rack-2-V100-0003", ("rack-2",)),
        ("rack-2-V100-0004", ("rack-2",)),
        ("old", ("rack-1",)),
    ]
    node = cluster.nodes[0]
    assert (node.cpus, node.memory_bytes) == (64, 512 * 2**30)
    assert (node.storage_bandwidth, node.cache_bytes) == (2.0 * 2**30, 300 * 2**30)
    assert [gpu.path for gpu in node.gpus][2:5] == [
        ("socket-0", "switch-1"),
        ("socket-0", "switch-1"),
        ("socket-1", "switch-2"),
    ]
    research, anyone = cluster.virtual_clusters
    assert research.members == (Member(tenant="speech", weight=2), Member(tenant="vision"))
    assert (research.policy, research.placer, research.default_time_limit_seconds) == (
        "fifo",
        "consolidate",
        43_200,
    )
    assert anyone.members == ()
    assert cluster.prices == {"V100": 2.48}
    assert cluster.tenants == (
        Tenant(
            name="speech",
            quota={"V100": 16, "*": 20},
            quota_cpus=64.0,
            quota_memory_bytes=512 * 2**30,
        ),
    )


WRONG = [
    (
        "gpus: 8, cpus: 64",
        "gpus: -1",
        r"racks\[0\]: nodes\[0\]: gpus: -1 is not a whole number of at least 1",
    ),
    ("gpus: 8, cpus: 64", "gpus: 0, cpus: 64", r"nodes\[0\]: gpus: 0 GPUs have no gpu_model; give a number"),
    (
        "gpu_model: V100, gpus: 8, cpus: 64",
        "gpus: 0",
        r"nodes\[0\]: cpus: must be given, since the node has no",
    ),
    ("gpus: 8", "gpu: 8", r"nodes\[0\]: gpu: is not a field here; there are name, count, gpu_model, gpus"),
    ("switches: 4", "switches: 3", "8 GPUs cannot be divided evenly among 2 sockets and 3 switches"),
    ("512GiB", "lots", "memory: 'lots' is not a size such as 512GiB"),
    ("bandwidth: 2GiB", "bandwidth: fast", "storage_bandwidth: 'fast' is not a size such as 512GiB"),
    ("300GiB", "[]", r"cache: \[\] is not a size such as 512GiB"),
    ("cpus: 64", "cpus: .nan", r"cpus: \.nan is not a number that a field can have"),
    ("{V100: 24}", "{A100: 24}", "guaranteed: there is no A100; the nodes have K80 or V100"),
    ("{V100: 24}", "{V100: 25}", "33 V100 are guaranteed in all; there are 32"),
    ("{V100: 24}", "{V100: -1}", r"guaranteed\.V100: -1 is not a whole number of at least 0"),
    ("speech: 2", "speech: 0", r"members\.speech: 0 is not a weight above 0"),
    ("policy: fifo", "policy: fofi", "policy: there is no policy 'fofi'"),
    ("V100: 2.48", "A100: 2.48", "prices: there is no A100; the nodes have K80 or V100"),
    ("V100: 2.48", "V100: 0", r"prices\.V100: 0 is not a price above 0"),
    ("{V100: 2.48}", "2.48", r"prices: 2\.48 is not like {V100: 2\.48}"),
    ("12h", "soon", "default_time_limit: 'soon' is not a duration such as 12h or 90m"),
    ("name: anyone", "name: research", "virtual_clusters: the name research is given twice"),
    ("name: example", "name: [", r"cluster\.yaml:\d+: is not YAML"),
    ("name: example", "name: example\nname: other", r"cluster\.yaml:\d+: name stands here twice"),
    ("name: example", "---\nname: example\n---\nname: other", "has 2 documents; it must have one"),
    (
        '{name: speech, quota: {V100: 16, "*": 20}, quota_cpus: 64, quota_memory: 512GiB}',
        "speech",
        r"tenants\[0\]: must have fields \(name",
    ),
    ("quota_cpus: 64", "quota_cpus: many", r"tenants\[0\]: quota_cpus: 'many' is not a number"),
    ("quota_memory: 512GiB", "quota_memory: big", r"tenants\[0\]: quota_memory: 'big' is not a size"),
]


@pytest.mark.parametrize(("right", "wrong", "message"), WRONG)
def test_a_wrong_file_says_which_field_and_what_would_be_right(
    tmp_path: Path, right: str, wrong: str, message: str
) -> None:
    assert right in YAML
    with pytest.raises(InputError, match=message):
        read_text(tmp_path, YAML.replace(right, wrong, 1))


def test_a_file_without_nodes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="nodes: there are none"):
        read_text(tmp_path, "name: empty\n")
    with pytest.raises(ClusterError, match="must have fields"):
        read_text(tmp_path, "")


TABLES = [
    ("machine_id,num_gpus,gpu_mem_gb\nm0,2,12\nm1,8,24\nm2,0,12\n", {"gpu-12gb": [2], "gpu-24gb": [8]}),
    (
        "machineId,number of GPUs, single GPU mem\nm0,2, 12GB\nm1,8,24GB\nm2,0,12GB\n",
        {"gpu-12gb": [2], "gpu-24gb": [8]},
    ),
    (
        "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,1024,0,\nn1,64000,2048,2,P100\n",
        {"": [0], "P100": [2]},
    ),
    ("num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,1,4,8,9\n", {"gpu": [4, 4]}),
    (",num\nvcA,2\nvcB,1\n", {"gpu": [8] * 3}),
    ("date,vcA,vcB,total\n2020-09-01,8,8,16\n2020-09-02,12,0,12\n", {"gpu": [8, 4]}),
]


@pytest.mark.parametrize(("text", "expected"), TABLES)
def test_published_tables_are_clusters(tmp_path: Path, text: str, expected: dict[str, list[int]]) -> None:
    assert sizes(read_text(tmp_path, text, "cluster.csv")) == expected


def test_a_node_without_gpus_has_cpus_and_no_model(tmp_path: Path) -> None:
    cluster = read_text(
        tmp_path,
        YAML.replace(
            "nodes:\n  - {name: old",
            "nodes:\n  - {gpus: 0, cpus: 96, memory: 1TiB, count: 2}\n  - {name: old",
        ),
    )
    found = [node for node in cluster.nodes if not node.gpus]
    assert [(node.name, node.gpu_model, node.cpus, node.memory_bytes) for node in found] == [
        ("rack-1-cpu-0005", "", 96, 2**40),
        ("rack-1-cpu-0006", "", 96, 2**40),
    ]
    assert cluster.virtual_clusters == read_text(tmp_path, YAML).virtual_clusters


def test_phillys_own_list_has_no_ending(tmp_path: Path) -> None:
    text = "machineId,number of GPUs, single GPU mem\nm0,2, 12GB\n"
    assert sizes(read_text(tmp_path, text, "cluster_machine_list")) == {"gpu-12gb": [2]}


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    for data, words in (
        ("nodes: []".encode("utf-16"), r"cluster\.yaml: is text in UTF-16"),
        (b"nodes:\n- {name: M\xfcller}", r"cluster\.yaml: is not UTF-8: line 2 has a byte 0xfc"),
    ):
        (tmp_path / "cluster.yaml").write_bytes(data)
        with pytest.raises(ClusterError, match=words):
            read_cluster(tmp_path / "cluster.yaml")


def test_tables_of_virtual_clusters_give_each_its_nodes(tmp_path: Path) -> None:
    cluster = read_text(tmp_path, ",num\nvcA,2\nvcB,1\n", "cluster.csv")
    assert [(vc.name, vc.guaranteed) for vc in cluster.virtual_clusters] == [
        ("vcA", {"gpu": 16}),
        ("vcB", {"gpu": 8}),
    ]


def test_a_wrong_table_names_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"cluster\.csv:3: num_gpus: 'two' is not a whole number"):
        read_text(tmp_path, "machine_id,num_gpus\nm0,2\nm1,two\n", "cluster.csv")
    with pytest.raises(ClusterError, match='"a" and "b" match no known cluster table'):
        read_text(tmp_path, "a,b\n1,2\n", "cluster.csv")
    with pytest.raises(ClusterError, match='a valid header is "machine_id,num_gpus,gpu_mem_gb", '):
        read_text(tmp_path, "a,b\n1,2\n", "cluster.csv")
    with pytest.raises(ClusterError, match=r"cluster\.csv:1: the columns are separated by semicolons"):
        read_text(tmp_path, "machine_id;num_gpus\nm0;2\n", "cluster.csv")
    with pytest.raises(ClusterError, match=r"cluster\.csv:3: does not have the 2 fields of the header"):
        read_text(tmp_path, "machine_id,num_gpus\nm0,2\nm1\n", "cluster.csv")


@pytest.mark.parametrize(
    ("file", "nodes", "gpus"),
    [
        ("traces/philly/philly_machines_revised.csv", 539, 3205),
        ("openb/openb_node_list_gpu_node.csv", 1213, 6212),
        ("traces/tiresias/cluster_spec.csv", 16, 64),
        ("lucid/venus_vc_nodes.csv", 135, 1080),
    ],
)
def test_published_clusters_are_read(file: str, nodes: int, gpus: int) -> None:
    if not (SHARED / file).is_file():
        pytest.skip(f"the public data are not here: {SHARED / file}")
    cluster = read_cluster(SHARED / file)
    assert (len(cluster.nodes), sum(cluster.gpus_by_model.values())) == (nodes, gpus)


# --- a workload in a cluster


def philly(folder: Path, text: str = samples.PHILLY) -> Path:
    (folder / "philly.csv").write_text(text)
    return folder / "philly.csv"


def test_every_job_may_run_once_a_workload_is_joined_to_a_cluster(tmp_path: Path) -> None:
    workload = read_trace(philly(tmp_path), "philly").workload
    cluster, joined = join(parse_cluster("v100=16"), workload)
    snapshot = Snapshot(
        round_number=1,
        now=0.0,
        round_seconds=60.0,
        nodes=cluster.nodes,
        tenants=cluster.tenants,
        virtual_clusters=cluster.virtual_clusters,
    )
    assert [never_fits(arrival.job, snapshot) for arrival in joined.arrivals] == [None, None, None]
    assert {arrival.job.virtual_cluster for arrival in joined.arrivals} == {"cluster"}
    assert [tenant.name for tenant in cluster.tenants] == ["6214e9", "ee9e8c"]
    assert "Jobs of the trace's 2 virtual clusters are all submitted to cluster." in joined.notes


def test_virtual_clusters_of_the_same_name_are_kept(tmp_path: Path) -> None:
    workload = read_trace(philly(tmp_path), "philly").workload
    cluster, joined = join(read_text(tmp_path, "vc,num\n6214e9,2\nee9e8c,3\n", "vcs.csv"), workload)
    assert joined == workload
    assert [vc.members for vc in cluster.virtual_clusters] == [
        (Member(tenant="6214e9"),),
        (Member(tenant="ee9e8c"),),
    ]


def test_jobs_of_virtual_clusters_that_are_not_there_are_left_out_and_counted(tmp_path: Path) -> None:
    workload = read_trace(philly(tmp_path), "philly").workload
    several = read_text(tmp_path, "vc,num\nee9e8c,3\nother,1\n", "vcs.csv")
    _, joined = join(several, workload)
    assert [(arrival.job.id, arrival.job.submitted_at) for arrival in joined.arrivals] == [(1, 0.0)]
    assert joined.left_out == (
        "2 jobs were left out: the cluster does not have their virtual clusters (6214e9)."
        " The first: job 1 of 6214e9.",
    )
    with pytest.raises(ClusterError, match=r"philly\.csv submits to 6214e9, which vcs\.csv does not have"):
        join(several, workload, strict=True)


def test_machines_without_gpus_are_left_out_and_named(tmp_path: Path) -> None:
    cluster = read_text(tmp_path, "machine_id,num_gpus\nm1,0\nm2,8\nm3,0\n", "machines.csv")
    assert cluster.left_out == ("2 entries without GPUs were left out. The first: m1 (machines.csv:2).",)
    workload = read_trace(philly(tmp_path), "philly").workload
    with pytest.raises(ClusterError, match=r"--strict leaves nothing out: 2 entries without GPUs"):
        join(cluster, workload, strict=True)


def test_nodes_of_a_serving_pool_are_its_own_until_it_lends_them() -> None:
    text = """
    nodes: [{gpu_model: V100, gpus: 4}, {name: serve, gpu_model: V100, gpus: 4, serving_pool: chat}]
    serving_pools: [{name: chat, return: 10m, nodes_needed: {"20:00": 0, "08:00": 1}}]
    """
    cluster = read_cluster_yaml("cluster.yaml", text)
    assert [node.takes_work for node in cluster.nodes] == [True, False]
    (pool,) = cluster.pools
    assert pool.return_seconds == 600.0
    assert pool.curve is not None
    assert pool.curve.steps == ((28_800, 1), (72_000, 0))


@pytest.mark.parametrize(
    ("pools", "wrong"),
    [
        ("[]", "serving_pools: node serve is of chat"),
        ("[{name: chat, nodes_needed: {noon: 1}}]", "nodes_needed: 'noon' is not a time of day"),
        ("[{name: chat}, {name: chat}]", "the name chat is given twice"),
    ],
)
def test_serving_pools_that_make_no_sense_are_refused(pools: str, wrong: str) -> None:
    nodes = "nodes: [{name: serve, gpu_model: V100, gpus: 4, serving_pool: chat}]"
    with pytest.raises(ClusterError, match=wrong):
        read_cluster_yaml("cluster.yaml", f"{nodes}\nserving_pools: {pools}\n")
