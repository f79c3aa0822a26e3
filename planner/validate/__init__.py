"""Specplan against published measurements: read collections, resolve their words, predict, score, compare."""
