"""`python -m specplan` is the same as the console script."""

from specplan.cli import app

app()
