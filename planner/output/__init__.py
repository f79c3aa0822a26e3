"""Answers for people and machines: JSON of the output contract, tables for a terminal, pictures, a page."""
