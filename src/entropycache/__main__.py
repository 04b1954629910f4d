"""``python -m entropycache``: the command line."""

from entropycache.cli import main

main()
