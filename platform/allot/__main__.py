"""`python -m allot` is the same as `allot`."""

from allot.main import main

main()
