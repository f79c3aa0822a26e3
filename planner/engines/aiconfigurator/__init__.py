"""NVIDIA aiconfigurator."""
