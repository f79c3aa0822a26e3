"""A tier of a schedule: the batches in which one draft length holds. Apart, so that reading it needs no arrays."""

from __future__ import annotations

from typing import NamedTuple


class Tier(NamedTuple):
    """Batches from `first` to `last` (both included) draft `draft_len` tokens per step."""

    first: int
    last: int
    draft_len: int
