"""`@fact` against the standard library's frozen dataclass of the same fields."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from typing import Any

import pytest

from specplan.planner.fact import fact


@fact
class Shape:
    """A fact with every kind of field."""

    name: str
    rows: int = 3
    tags: list[str] = field(default_factory=list)
    seen: Mapping[str, int] | None = field(default=None, compare=False)

    @property
    def doubled(self) -> int:
        return 2 * self.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """The same, as the standard library makes it."""

    name: str
    rows: int = 3
    tags: list[str] = field(default_factory=list)
    seen: Mapping[str, int] | None = field(default=None, compare=False)


@fact
class Empty:
    """No fields."""


GIVEN: list[dict[str, Any]] = [{"name": "a"}, {"rows": 5, "name": "", "tags": ["x"], "seen": {"y": 1}}]


@pytest.mark.parametrize("given", GIVEN)
def test_has_the_values_of_a_dataclass(given: dict[str, Any]) -> None:
    made, standard = Shape(**given), Standard(**given)
    assert asdict(made) == asdict(standard)
    assert repr(made) == repr(standard).replace("Standard", "Shape")
    assert [item.name for item in fields(Shape)] == [item.name for item in fields(Standard)]
    assert made.doubled == 2 * standard.rows


def test_compares_by_class_and_by_compared_fields() -> None:
    assert Shape(name="a") == Shape(name="a", seen={"b": 1})
    assert Shape(name="a") != Shape(name="a", rows=4)
    others: list[object] = [Standard(name="a"), Empty(), "a"]
    assert all(Shape(name="a") != other for other in others)
    assert Empty() == Empty()


def test_hashes_alike_where_equal() -> None:
    one: Any = ()     # a list, the default of tags, has no hash
    assert hash(Shape(name="a", tags=one)) == hash(Shape(name="a", tags=one, seen={"b": 1}))
    with pytest.raises(TypeError, match="unhashable"):
        hash(Shape(name="a"))


def test_each_has_a_default_of_its_own() -> None:
    assert Shape(name="a").tags is not Shape(name="a").tags


def test_never_changes() -> None:
    made: Any = Shape(name="a")
    with pytest.raises(FrozenInstanceError):
        made.name = "b"
    with pytest.raises(FrozenInstanceError):
        del made.name
    with pytest.raises(FrozenInstanceError):
        made.other = 1
    assert not hasattr(made, "__dict__")


@pytest.mark.parametrize("given", [{}, {"rows": 1}, {"name": "a", "row": 2}])
def test_refuses_missing_and_unknown_fields(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Standard(**given)
    with pytest.raises(TypeError, match=r"name|row"):
        Shape(**given)


def test_is_replaced_copied_and_pickled() -> None:
    made = Shape(name="a", tags=["x"], seen={"b": 1})
    changed = replace(made, rows=9)
    assert (changed.name, changed.rows, changed.tags) == ("a", 9, ["x"])
    deep = copy.deepcopy(made)
    assert deep == made
    assert deep.tags is not made.tags
    assert copy.copy(made).tags is made.tags
    assert pickle.loads(pickle.dumps(made)).seen == {"b": 1}
