"""Cells: groups of near GPUs that virtual clusters own by type and number (HiveD, OSDI'20).

`model.cell_specification` defines what an operator declares. `document` reads and writes it; `compiling`
checks it and numbers the cells. Rounds bind the cells to hardware (`round/guarantees/binding.py`).
"""
