"""Finding configurations of engines in files, running the rules, and saying what was found; see docs/check.md."""
