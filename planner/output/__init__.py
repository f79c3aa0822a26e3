"""Answers for people and machines: JSON of the output contract, tables for a terminal."""

from specplan.planner.output.contract import answer_json, explanation_json
from specplan.planner.output.explained import print_explanation
from specplan.planner.output.tables import print_answer

__all__ = ["answer_json", "explanation_json", "print_answer", "print_explanation"]
