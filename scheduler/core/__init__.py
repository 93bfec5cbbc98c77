"""The pure core: the facts of an instant in, a plan and reasons out. No framework, clock, network or chance.

`round.decide` is the product. Fifteen wings on eight floors, from the top; a wing imports from floors below:

- `sim` runs rounds in virtual time; `fairness` measures which tenants gained and lost by sharing;
- `round`: the steps of a round, and what holds whatever a policy decides;
- `policies` and `placers`, a file or a folder each, known by name to `round.registry`;
- `building_blocks`: the interface of policies and placers, and what they are made of;
- `serving_pools`: nodes that are lent to the cluster, and go back;
- `fitting`: what there is and what fits; `lending`: guarantees that change hands;
- `cells`: HiveD's geometry; `solvers`: mathematics; `perf`: throughputs; `goodput`: their progress by number
  of GPUs; `failures`: classes of failures;
- `model`: the facts, the plan, lifecycles, errors, words, stored forms.
"""
