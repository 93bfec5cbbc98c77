"""For policies that choose how many GPUs each elastic job gets, and on which nodes.

`pools` makes problems of a view: what each node offers per GPU model, and the sizes that gangs may have
there. `arrangement` says which replicas are on which node while a policy tries things. `grants` turns
decisions into grants, which leave unchanged jobs in place. `knapsack` divides GPUs exactly. `extra_workers`
combines all of these for policies in which a running job keeps its fewest GPUs.
"""
