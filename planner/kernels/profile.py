"""GPU profiles by name or path: one YAML file each in gpu_profiles/, read into `GpuProfile`.

A GPU without measured kernels names the nearest measured one as `prior_from`: its entries are scaled in here.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

from specplan.planner.config.text_file import read_text
from specplan.planner.kernels.entries import Entry, GpuProfile, Hardware
from specplan.planner.kernels.prior import with_prior
from specplan.planner.kernels.profile_file import dump_profile, read_profile
from specplan.planner.messages import InputError, nearest

__all__ = ["PROFILES", "Entry", "GpuProfile", "Hardware", "dump_profile", "gpu_names", "load_gpu", "read_profile"]

PROFILES = Path(__file__).parents[2] / "gpu_profiles"


@functools.lru_cache(maxsize=1)
def gpu_names() -> tuple[str, ...]:
    """Names of the shipped profiles."""
    return tuple(sorted(path.stem for path in PROFILES.glob("*.yaml")))


def load_gpu(reference: str | Path, *, allow_preliminary: bool = False) -> GpuProfile:
    """Profile by name, or from a YAML file, with the entries of its `prior_from` scaled in where it has none.

    Raises
    ------
    InputError
        For an unknown name (nearest ones shown), an unreadable or faulty file, or preliminary figures that the
        caller did not allow.
    """
    profile = _load(str(reference))
    if profile.hardware.preliminary and not allow_preliminary:
        raise InputError(f"the figures of '{profile.name}' are preliminary ({profile.hardware.notes}); "
                         "--allow-preliminary uses them all the same")
    return profile


@functools.lru_cache(maxsize=64)
def _load(reference: str) -> GpuProfile:
    if reference in gpu_names():
        path = PROFILES / f"{reference}.yaml"
    elif reference.endswith((".yaml", ".yml")) or "/" in reference:
        path = Path(reference)
    else:
        raise InputError(f"no profile named '{reference}'{nearest(reference, gpu_names())} "
                         "(all names: specplan profiles list)")
    profile = replace(read_profile(read_text(path), file=str(path)), file=path)
    if profile.prior_from is None:
        return profile
    if profile.prior_from not in gpu_names() or profile.prior_from == profile.name:
        raise InputError(f"{path}: prior_from: no profile named '{profile.prior_from}'"
                         f"{nearest(profile.prior_from, gpu_names())}")
    source = read_profile(read_text(PROFILES / f"{profile.prior_from}.yaml"), file=profile.prior_from)
    return with_prior(profile, source)
