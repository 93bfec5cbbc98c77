"""Options that quotas of tenants and of members have in common."""

from typing import Annotated

import typer

CpusOption = Annotated[
    float | None, typer.Option(help="CPUs held at once, as jobs state them.", min=0, show_default="no limit")
]
MemoryOption = Annotated[
    str, typer.Option(help="Memory held at once, such as 512GiB.", metavar="SIZE", show_default="no limit")
]
