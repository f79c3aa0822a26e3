"""The parts of the package agree: links of a checkout, copies in the wheel, layers of imports, names in two rooms."""

from __future__ import annotations

import tomllib
import typing
from pathlib import Path
from typing import Any

from specplan.planner.config import schema
from specplan.planner.config.local_gpu import PROFILE_OF_DEVICE
from specplan.planner.kernels.profile import gpu_names
from specplan.planner.models import drafter, dtypes

ROOT = Path(__file__).parents[1]


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def links() -> dict[str, str]:
    """Root name -> where it is seen in the package."""
    return {
        str(path.readlink()).removeprefix("../"): f"specplan/{path.name}"
        for path in (ROOT / "specplan").iterdir() if path.is_symlink()
    }


def test_links_of_a_checkout_are_the_copies_of_the_wheel() -> None:
    assert links() == project()["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert all((ROOT / name).exists() for name in links())
    assert {path.name for path in (ROOT / "specplan").iterdir() if not path.is_symlink()} - {"__pycache__"} == {
        "__init__.py", "__main__.py", "py.typed"
    }


def test_every_linked_name_has_its_import_layer() -> None:
    layers = project()["tool"]["importlinter"]["contracts"][0]["layers"]
    assert {f"specplan.{Path(name).stem}" for name in links()} == set(layers)


def test_every_room_of_the_planner_has_its_import_layer() -> None:
    contract = project()["tool"]["importlinter"]["contracts"][1]
    rooms = {path.stem for path in (ROOT / "planner").iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    assert rooms - {"__init__"} <= {layer.strip("()") for layer in contract["layers"]}
    assert contract["exhaustive"] is True


def test_links_are_excluded_from_lint() -> None:
    """Ruff would read each file twice."""
    assert set(links().values()) == set(project()["tool"]["ruff"]["extend-exclude"])


def test_the_base_install_is_small() -> None:
    names = {requirement.split(">")[0] for requirement in project()["project"]["dependencies"]}
    assert names == {"numpy", "pydantic", "pyyaml", "rich", "scipy", "typer"}


def test_the_version_is_stated_once_more_and_the_same() -> None:
    import specplan

    assert project()["project"]["version"] == specplan.__version__


def test_words_of_the_configuration_are_those_of_the_models() -> None:
    """config/ lies below models/ and cannot import its tables; editors need the words in the schema."""
    assert typing.get_args(schema.MechanismName) == drafter.MECHANISMS
    assert set(typing.get_args(schema.WeightDtype)) == set(dtypes.BYTES_PER_WEIGHT)
    assert set(typing.get_args(schema.KvDtype)) == set(dtypes.BYTES_PER_KV)
    assert set(typing.get_args(schema.ActivationDtype)) == set(dtypes.BYTES_PER_ACTIVATION)


def test_detected_devices_have_profiles() -> None:
    assert set(PROFILE_OF_DEVICE.values()) <= set(gpu_names())
