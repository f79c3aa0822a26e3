"""From step times and acceptance to a decision: value, guidelines, the choice of D, schedules."""
