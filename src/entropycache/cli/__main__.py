"""``python -m entropycache.cli``."""

from entropycache.cli import main

main()
