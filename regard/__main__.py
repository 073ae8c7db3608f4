"""`python -m regard` is the same as the command `regard`."""

from regard.cli import main

main()
