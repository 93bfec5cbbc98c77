"""Slurm's commands as scripts call them, answered by Allotment: `allot slurm squeue -h -o %i`."""
