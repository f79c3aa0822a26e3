"""The planner: from a configuration to a decision. Rooms in the order in which data flows; see CONTRIBUTING.md."""
