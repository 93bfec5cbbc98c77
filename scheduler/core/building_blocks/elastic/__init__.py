"""For policies that choose how many GPUs each elastic job gets, and on which nodes.

`pools` makes problems of a view: per GPU model what each node offers, and which gangs may be how large there.
`arrangement` says which replicas are on which node while a policy tries things. `grants` makes grants of what
was decided, in which everything that is unchanged stays. `knapsack` divides GPUs exactly. `extra_workers` is
all of it for policies in which whoever runs keeps its fewest GPUs.
"""
