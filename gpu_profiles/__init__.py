"""GPU profiles: one YAML file per GPU. Data only; `README.md` has the schema and the rule of provenance."""
