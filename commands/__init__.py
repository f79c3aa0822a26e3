"""The commands, by subject. A module is imported when one of its commands runs; `cli.py` has the list."""
