"""The shell in which a batch script of Slurm runs here: its variables, and srun and scontrol as functions.

All of the script runs once for each task. srun runs its command once, as this rank, where this component of
a heterogeneous job has a part in the step.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

#: The variables of Slurm that scripts read, from those that agents set.
_VARIABLES = """\
export SLURM_JOB_ID="$ALLOT_JOB" SLURM_JOBID="$ALLOT_JOB" SLURM_PROCID="$((${{RANK:-0}} - {first}))"
export SLURM_NTASKS={tasks} SLURM_NPROCS={tasks} SLURM_JOB_NAME={name}
export SLURM_NNODES={nodes} SLURM_JOB_NUM_NODES={nodes} SLURM_GPUS_ON_NODE={gpus} SLURM_CPUS_PER_TASK={cpus}
export SLURM_NTASKS_PER_NODE={per_node} SLURM_LOCALID=0 SLURM_NODEID="$((SLURM_PROCID / {per_node}))"
if [ -n "${{ALLOT_ARRAY:-}}" ]; then
  export SLURM_ARRAY_JOB_ID="$ALLOT_ARRAY" SLURM_ARRAY_TASK_ID="$ALLOT_ARRAY_INDEX"
  export SLURM_ARRAY_TASK_COUNT="$ALLOT_ARRAY_SIZE"
fi
if [ "${{ALLOT_RESTARTS:-0}}" != 0 ]; then export SLURM_RESTART_COUNT="$ALLOT_RESTARTS"; fi
export SLURM_SUBMIT_DIR="$PWD" SLURM_TASKS_PER_NODE={per_node} SLURMD_NODENAME="${{ALLOT_NODE:-}}"
export SLURM_NODELIST="${{MASTER_ADDR:-$ALLOT_NODE}}" SLURM_JOB_NODELIST="${{MASTER_ADDR:-$ALLOT_NODE}}"
"""

_OF_ALL_COMPONENTS = """\
export SLURM_HET_SIZE={size} SLURM_HET_JOB_ID="$ALLOT_JOB" ALLOT_HET_GROUP={group}
export SLURM_JOB_NODELIST_HET_GROUP_0="$SLURM_JOB_NODELIST" SLURM_NODELIST_HET_GROUP_0="$SLURM_JOB_NODELIST"
"""

_OF_A_COMPONENT = """\
export SLURM_JOB_ID_HET_GROUP_{group}="$ALLOT_JOB" SLURM_NTASKS_HET_GROUP_{group}={tasks}
export SLURM_JOB_NUM_NODES_HET_GROUP_{group}={nodes} SLURM_NNODES_HET_GROUP_{group}={nodes}
export SLURM_CPUS_PER_TASK_HET_GROUP_{group}={cpus} SLURM_GPUS_ON_NODE_HET_GROUP_{group}={gpus}
"""

#: `srun a : b` has a part for each component; `--het-group=0,2-3` says for which ones a part is. As in Slurm,
#: a part without a command has that of the next, and ranks are counted through all components of the step.
_FUNCTIONS = r"""
_allot_part() {
  _allot_groups=
  while [ $# -gt 0 ]; do
    case "$1" in
      --) shift; break ;;
      --het-group=*|--pack-group=*) _allot_groups="${1#*=}"; shift ;;
      --het-group|--pack-group) _allot_groups="$2"; shift 2 ;;
      -[nNcGpAtJowexCDqm]|--ntasks|--nodes|--cpus-per-task|--gpus|--output|--error|--ntasks-per-node|--mpi|\
      --gres|--gpus-per-task|--gpus-per-node|--mem|--time|--chdir|--job-name|--partition|--account|--nodelist|\
      --container-image|--container-mounts|--container-workdir|--container-name|--export)
        shift 2 ;;
      -*) shift ;;
      *) break ;;
    esac
  done
  _allot_command=("$@")
}
srun() {
  local place=0 mine="${ALLOT_HET_GROUP:-0}" takes_part= word range group tasks first=0 all=0 parts=0
  local -a part=() command=()
  for word in "$@" :; do
    if [ "$word" != : ]; then part+=("$word"); continue; fi
    _allot_part "${part[@]}"
    for range in $(echo "${_allot_groups:-$place}" | tr , ' '); do
      for group in $(seq "${range%-*}" "${range#*-}"); do
        if [ "$group" = "$mine" ]; then takes_part=1; fi
        tasks="SLURM_NTASKS_HET_GROUP_$group"
        if [ "$group" -lt "$mine" ]; then first=$((first + ${!tasks:-0})); fi
        all=$((all + ${!tasks:-0})) parts=$((parts + 1))
      done
    done
    if [ -n "$takes_part" ] && [ ${#command[@]} = 0 ]; then command=("${_allot_command[@]}"); fi
    part=() place=$((place + 1))
  done
  if [ -z "$takes_part" ]; then return 0; fi
  if [ $parts = 1 ]; then "${command[@]}"; return; fi
  SLURM_PROCID=$((first + SLURM_PROCID)) SLURM_NTASKS=$all SLURM_NPROCS=$all "${command[@]}"
}
scontrol() { if [ "$1 $2" = "show hostnames" ]; then echo "${3:-$SLURM_NODELIST}"; else return 1; fi; }
"""


_BEGINNING = "eval $'export SLURM_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """The size of a job, or of one component of a heterogeneous one: its tasks and what each of them has."""

    tasks: int
    nodes: int
    per_node: int
    gpus: int
    cpus: int


def with_preamble(script: str, name: str, components: Sequence[Component], group: int) -> str:
    """Return what each task of the component with this number runs, for a script that begins with #!.

    The preamble is in the script's first line, so that errors have the line numbers of the script.
    """
    text = _preamble(name, components, group)
    for character, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n")):
        text = text.replace(character, escaped)
    return f"eval $'{text}' {script}"


def own_script(text: str) -> str:
    """Return the script that was submitted, from what a task runs; other text as it is."""
    first, newline, rest = text.partition("\n")
    return f"#!{first.rpartition(' #!')[2]}{newline}{rest}" if text.startswith(_BEGINNING) else text


def _preamble(name: str, components: Sequence[Component], group: int) -> str:
    own = components[group]
    of_own = {"nodes": own.nodes, "per_node": own.per_node, "gpus": own.gpus, "cpus": own.cpus}
    is_one = len(components) == 1
    text = _VARIABLES.format(
        name=shlex.quote(name),
        first=sum(one.tasks for one in components[:group]),
        # Elastic jobs have other numbers of replicas than they ask for.
        tasks='"${WORLD_SIZE:-1}"' if is_one else own.tasks,
        **of_own,
    )
    if not is_one:
        text += _OF_ALL_COMPONENTS.format(size=len(components), group=group)
        for number, one in enumerate(components):
            text += _OF_A_COMPONENT.format(
                group=number, tasks=one.tasks, nodes=one.nodes, cpus=one.cpus, gpus=one.gpus
            )
    return text + _FUNCTIONS.lstrip()
