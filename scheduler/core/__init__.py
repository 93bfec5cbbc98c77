"""The pure core: the facts of an instant in, a plan and reasons out. No framework, clock, network or chance.

`round` is the product, and `session` the same for rounds that follow one another. What goes in is `snapshot`
(indexed by `facts`), what comes out is `plan`; the steps between are `admit`, `reserve`, `allocate` and
`place` (which `serve` takes for one view), `dealing`, `diff`, `check` and `explain`. `policy` has the two
seams, `registry` the names of what fills them. The folders, from the top:

- `sim` runs rounds in virtual time, `fairness` says who gained and who lost by sharing;
- `policies` and `placers`, a file each, and what they are made of: `parts`, `targets`, `leasing`, `market`;
- `restraint`, `guarantees`, `checks`: what holds whatever a policy decides;
- `fitting`: what there is and what fits; `cells`: HiveD's geometry; `lending`: guarantees that change hands;
- `allocation`, `auction`, `perf`, `failures`: mathematics and tables that know nothing of rounds.
"""
