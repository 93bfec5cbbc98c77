"""A short sample of every trace format, as published but for its length."""

from __future__ import annotations

import json
from pathlib import Path

from scheduler.simulation.rates import ThroughputTable
from scheduler.simulation.traces.options import TraceOptions

#: Where the public data lie, when they are there at all.
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"

PHILLY = """\
submit_time,submit_s,vc,num_gpus,duration_s,duration_kind,source
2017-10-07 01:00:00,0,6214e9,1,3600,sum,A
2017-10-07 01:00:30,30,ee9e8c,16,60,sum,A
2017-10-07 02:00:00,3600,6214e9,8,7200,sum,A
"""

PHILLY_LOG = json.dumps(
    [
        {
            "status": "Pass",
            "vc": "ee9e8c",
            "jobid": "application_1506638472019_14199",
            "attempts": [
                {
                    "start_time": "2017-10-07 01:12:09",
                    "end_time": "2017-10-07 01:13:23",
                    "detail": [{"ip": "m47", "gpus": [f"gpu{n}" for n in range(8)]}],
                },
                {
                    "start_time": "2017-10-07 01:13:30",
                    "end_time": "2017-10-09 06:53:12",
                    "detail": [{"ip": "m412", "gpus": [f"gpu{n}" for n in range(8)]}],
                },
            ],
            "submitted_time": "2017-10-07 01:11:39",
            "user": "ce2f4c",
        },
        {
            "status": "Killed",
            "vc": "6214e9",
            "jobid": "application_1506638472019_14200",
            "attempts": [
                {
                    "start_time": "2017-10-07 01:12:00",
                    "end_time": "2017-10-07 01:13:00",
                    "detail": [{"ip": "m1", "gpus": ["gpu0"]}, {"ip": "m2", "gpus": ["gpu5"]}],
                }
            ],
            "submitted_time": "2017-10-07 01:11:49",
            "user": "19a8f0",
        },
    ],
    indent=4,
)

#: Arrival last: with weight and SLO; of traces/msr: arrival before the scale factor.
GAVEL = (
    "ResNet-18 (batch size 32)\tpython3 main.py\timage\t--num_steps\t1\t3000\t1\t1\t-1.000000\t0.000000\n"
    "LM (batch size 10)\tpython3 main.py\tlanguage\t--steps\t1\t500\t2\t5\t-1.000000\t120.500000\n"
)
GAVEL_MSR = "LM (batch size 10)\tcd %s && python3 main.py\t--steps\t1\t1000\t6.000000\t4\n"

TIRESIAS = """\
job_id,num_gpu,submit_time,iterations,model_name,duration,interval
0,1,0,606,vgg19,164,30
1,8,30,133,resnet50,147,23
"""

MURI = """\
job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,\
resource_time_1,resource_time_2,priority
0,1,0,5853661,dqn,128,2868294000,46122000,490,446,8,0,1
1,8,201694000,8787693,bert,128,4472936000,201694000,509,435,8,0.5,0
"""

CHRONUS = """\
job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,\
best_effort,job_type
0,vc_6214e9,1,8555,5049,vgg16,747,14,1105,10,0,strict
1,vc_ed69ec,4,832,296,mobilenet_v2,98,8,128,10,1,best
"""

HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1425511,uXBbc,vcJkd,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
1425512,uVMrF,vchbv,0,16,1,COMPLETED,2020-06-09 18:41:20,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0
1425513,uzqls,vcpDC,16,16,2,TIMEOUT,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-17 14:15:21,675233,0
"""

#: What `sacct -aXP` prints with the columns of the reader's docstring.
SLURM = """\
JobID|User|Account|Partition|Submit|Eligible|State|ElapsedRaw|Timelimit|ReqTRES|AllocTRES
101|mara|vision|gpu|2026-10-01T09:00:00|2026-10-01T09:00:00|COMPLETED|3600|1-00:00:00|\
billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1|billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1
102_7|ines|nlp|gpu|2026-10-01T09:05:00|2026-10-01T10:00:00|CANCELLED by 1000|60|UNLIMITED|\
billing=8,cpu=8,gres/gpu=16,node=2|billing=8,cpu=8,gres/gpu=16,node=2
103|ines|nlp|gpu|2026-10-01T09:06:00|2026-10-01T09:06:00|TIMEOUT|1831|00:30:00|cpu=2,node=1|\
cpu=2,gres/gpu=1,node=1
104|mara|vision|cpu|2026-10-01T09:07:00|2026-10-01T09:07:00|COMPLETED|60|01:00:00|cpu=2,node=1|cpu=2,node=1
105|mara|vision|gpu|2026-10-01T09:08:00|2026-10-01T09:08:00|CANCELLED by 1000|0|01:00:00|\
cpu=2,gres/gpu=1,node=1|
106|mara|vision|gpu|2026-10-01T09:09:00|2026-10-01T09:09:00|RUNNING|900|01:00:00|gres/gpu=1|gres/gpu=1
101.batch||vision||2026-10-01T09:00:00|2026-10-01T09:00:00|COMPLETED|3600|||cpu=8,gres/gpu=2,mem=64G,node=1
"""

OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,0
openb-pod-0001,6000,12288,1,460,V100M16|V100M32,BE,Failed,427061,12902960,427161
openb-pod-0002,32000,49152,0,0,,BE,Running,427090,10822031,427091
openb-pod-0003,6000,12288,2,1000,,LS,Pending,427100,427900,
"""

SHOCKWAVE = """\
job_id,arrival_s,job_type,scale_factor,total_steps,mode,priority_weight,slo,listed_duration_s,model,dataset,\
num_epochs,samples_per_epoch,batch_size_schedule,epoch_seconds_by_batch_size
0,0.0,LM (batch size 10),1,134583,gns,1.0,-1,1418,LM,Wikitext-2,3,59675,10x2;20x1,10:60.5;20:40
"""

POLLUX = """\
name,time,application,num_replicas,batch_size
ncf-0,107,ncf,1,256
ncf-1,110,ncf,6,1536
"""

ALLOT = """\
id,submitted_at,tenant,virtual_cluster,gpus,gpu_models,duration_seconds,application,priority,guaranteed,status
a,10,speech,research,8,V100|P100,600,bert,2,true,passed
b,12.5,vision,research,12,,60,,0,false,failed
"""

ALLOT_LINES = """\
{"submitted_at": 10, "replicas": 2, "gpus_per_replica": 4, "duration_seconds": 600, "time_limit_seconds": 900}

{"submitted_at": 20.5, "gpus": 1, "duration_seconds": 60, "estimate_seconds": 90}
"""

#: Rates of the job types in the samples.
TABLE = ThroughputTable(
    name="sample.json",
    reference="v100",
    alone={
        ("ResNet-18 (batch size 32)", 1, "v100"): 30.0,
        ("ResNet-18 (batch size 32)", 1, "k80"): 6.0,
        ("LM (batch size 10)", 1, "v100"): 50.0,
        ("LM (batch size 10)", 2, "v100"): 100.0,
        ("LM (batch size 10)", 2, "k80"): 25.0,
    },
)

OPTIONS = TraceOptions(throughputs=TABLE)

#: Format -> texts of it.
SAMPLES: dict[str, tuple[str, ...]] = {
    "alibaba-gpu-v2023": (OPENB,),
    "allot": (ALLOT, ALLOT_LINES),
    "chronus": (CHRONUS,),
    "gavel": (GAVEL, GAVEL_MSR),
    "helios": (HELIOS,),
    "muri": (MURI,),
    "philly": (PHILLY, PHILLY_LOG),
    "pollux": (POLLUX,),
    "shockwave": (SHOCKWAVE,),
    "slurm": (SLURM,),
    "tiresias": (TIRESIAS,),
}


def write_profiles(folder: Path) -> Path:
    """Write a small profile of ncf; return the folder of profiles."""
    ncf = folder / "profiles" / "ncf"
    ncf.mkdir(parents=True, exist_ok=True)
    (ncf / "placements.csv").write_text(
        "placement,local_bsz,step_time,sync_time\n"
        "1,200,0.10,0.01\n1,300,0.20,0.01\n24,128,0.50,0.20\n33,128,9.0,1.0\n"
    )
    (ncf / "scalability.csv").write_text(
        "num_nodes,num_replicas,local_bsz,step_time,sync_time\n6,24,64,1,0.5\n"
    )
    for batch, progress, iterations in ((256, 1000, 1000), (2048, 990, 100)):
        rows = "".join(
            f"{progress * epoch // 10},{iterations * epoch // 10},0.5,1,1\n" for epoch in range(1, 11)
        )
        (ncf / f"validation-{batch}.csv").write_text(f"progress,iteration,metric,grad_sqr,grad_var\n{rows}")
    return folder / "profiles"
