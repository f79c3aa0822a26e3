"""The wheel: holds what it should, installs beside PyPI's `microbench`, writes nothing outside `specplan/`, runs."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path, environment: Mapping[str, str] | None = None) -> str:
    found = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**os.environ, **(environment or {})},
        capture_output=True, text=True, check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


def test_wheel_holds_code_and_data_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tracked = run("git", "ls-files", "planner", "microbench", "gpu_profiles", "cli.py", "specplan/*.py", cwd=ROOT)
    wanted = {name if name.startswith("specplan/") else f"specplan/{name}" for name in tracked.splitlines()}
    assert wanted <= names
    others = {name for name in names - wanted if ".dist-info/" not in name}
    assert "specplan/py.typed" in others
    assert not [name for name in names if "__pycache__" in name or name.startswith("specplan/specplan")]
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert all(name.startswith("specplan") for name in names)


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }


def test_installs_beside_another_microbench_and_answers(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "environment"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check")
    run(*pip, "install", "--no-deps", "microbench", cwd=tmp_path)
    before = files(place)
    run(*pip, "install", "--no-deps", wheel, cwd=tmp_path)
    after = files(place)

    assert {name: after.get(name) for name in before} == before     # nothing of others was touched
    packages = Path(sysconfig.get_path("purelib", vars={"base": ""})).as_posix().lstrip("/")
    ours = (f"{packages}/specplan/", f"{packages}/specplan-")
    assert {name for name in after.keys() - before.keys() if not name.startswith(ours)} == {"bin/specplan"}

    # Dependencies come from this environment; its editable specplan does not, for that takes a .pth file.
    borrowed = {"PYTHONPATH": sysconfig.get_path("purelib")}
    where = run(python, "-c", "import specplan.cli, microbench; print(specplan.cli.__file__, microbench.__file__)",
                cwd=tmp_path, environment=borrowed)
    assert all(path.startswith(str(place)) for path in where.split())
    example = ROOT / "examples" / "llama-3.3-70b-h200.yaml"
    command = (place / "bin" / "specplan", "recommend", "--model", example, "--json")
    answer = run(*command, cwd=tmp_path, environment=borrowed)
    assert '"recommendation"' in answer

    run(*pip, "uninstall", "--yes", "specplan", cwd=tmp_path)
    assert files(place) == before
