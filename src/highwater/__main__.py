"""`python -m highwater` is the `highwater` command."""

from highwater.cli import main

main()
