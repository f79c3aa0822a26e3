"""How many drafted tokens the target accepts: curves per position, their conversions, intervals and the library."""
