"""The HTML report in a real browser: controls, numbers of the CLI, keyboard, no network, no errors, phone, print."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from specplan.cli import app

CONFIG: dict[str, Any] = {
    "target": "llama-3.3-70b", "gpu": "h200-sxm", "parallel": {"tp": 4}, "dtypes": {"weights": "fp8", "kv": "fp8"},
    "engine": "vllm", "max_draft_len": 16, "objective": "latency",
    "workload": {"batch": [1, 8, 64], "context_tokens": [2000, 32000], "input_tokens": 1500, "output_tokens": 500,
                 "request_rate": 2.0, "price_per_gpu_hour": 3.0, "slo": {"tpot_ms": 50}},
    "drafters": [
        {"mechanism": "eagle3", "acceptance": {"alpha": 0.75}},
        {"mechanism": "draft_model", "model": "llama-3.2-1b", "name": "</script><b>1b", "acceptance": {"alpha": 0.8}},
    ],
}
NUMBERS = (
    "step_s", "acceptance_length", "break_even_acceptance_length", "speedup", "speedup_end_to_end",
    "tokens_per_s_per_user", "tokens_per_s_per_gpu", "memory_bytes",
)


def run(folder: Path, *arguments: str, config: dict[str, Any] = CONFIG) -> Result:
    (folder / "cfg.yaml").write_text(json.dumps(config), encoding="utf-8")
    return CliRunner().invoke(app, [arguments[0], "-m", str(folder / "cfg.yaml"), *arguments[1:]])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    result = run(folder, "report", "-o", str(folder / "report.html"))
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    return folder / "report.html"


@pytest.fixture(scope="module")
def answer(written: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(written.parent, "recommend", "--json").stdout)
    return found


@pytest.fixture
def page(browser: Any, written: Path) -> Iterator[Any]:
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(written.as_uri())
    assert browser.execute_script("return document.documentElement.dataset.ready") == "yes"
    yield browser
    assert browser.get_log("browser") == []


def shown(page: Any) -> dict[str, str]:
    found: dict[str, str] = page.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('#numbers dd')]"
        ".map((node) => [node.dataset.key, node.dataset.value]))"
    )
    return found


def select(page: Any, name: str, value: str) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    Select(page.find_element(By.ID, name)).select_by_value(value)


def test_controls_change_numbers_to_those_of_the_cli(page: Any, answer: dict[str, Any]) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    before = shown(page)
    select(page, "batch", "64")
    select(page, "context", "32000")
    select(page, "drafter", "eagle3")
    slider = page.find_element(By.ID, "draft")
    slider.send_keys(Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)   # by keyboard: D = 3
    after = shown(page)
    assert after["step_s"] != before["step_s"]
    cell = next(cell for cell in answer["cells"] if (cell["batch"], cell["context_tokens"]) == (64, 32000))
    candidate = next(item for item in cell["candidates"] if (item["drafter"], item["draft_len"]) == ("eagle3", 3))
    for name in NUMBERS:
        assert float(after[name]) == candidate[name], name
    assert float(after["off_step_s"]) == cell["off"]["step_s"]
    assert "D = 3" in page.find_element(By.CSS_SELECTOR, "#step figcaption").text


def test_every_cell_and_draft_length_equals_the_cli(page: Any, answer: dict[str, Any]) -> None:
    cells = page.execute_script("return JSON.parse(document.getElementById('facts').textContent).cells")
    for cell, other in zip(answer["cells"], cells, strict=True):
        drafters = {item["drafter"]: item["columns"] for item in other["drafters"]}
        for candidate in cell["candidates"]:
            columns = drafters[candidate["drafter"]]
            row = columns["draft_len"].index(candidate["draft_len"])
            assert all(columns[name][row] == candidate[name] for name in NUMBERS)


def test_the_map_leads_to_a_cell(page: Any, answer: dict[str, Any]) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    button = page.find_element(By.CSS_SELECTOR, "#map button[data-batch='8'][data-context='32000']")
    button.send_keys(Keys.ENTER)
    assert button.get_attribute("aria-pressed") == "true"
    best = next(c for c in answer["cells"] if (c["batch"], c["context_tokens"]) == (8, 32000))["recommendation"]
    assert shown(page)["recommended"] == str(best["draft_len"])
    assert button.text == str(best["draft_len"])


def test_everything_is_reached_by_keyboard(page: Any) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    reached = set()
    page.execute_script("document.activeElement.blur()")
    for _ in range(60):
        page.switch_to.active_element.send_keys(Keys.TAB)
        reached.add(page.execute_script("return document.activeElement.id || document.activeElement.tagName"))
    assert {"batch", "context", "drafter", "draft", "BUTTON", "SUMMARY"} <= reached
    for figure in ("step", "speedup", "pareto", "acceptance", "roofline"):
        picture = page.find_element(By.CSS_SELECTOR, f"#{figure} > svg")
        assert picture.get_attribute("aria-label")
        assert page.find_element(By.CSS_SELECTOR, f"#{figure} figcaption").text
        assert page.execute_script("return arguments[0].querySelectorAll('title').length", picture) > 3   # hover values


@pytest.mark.parametrize("width", [320, 360, 412])
def test_no_horizontal_scroll_on_a_phone(page: Any, width: int) -> None:
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        page.refresh()
        wide, inner = page.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= width
        assert inner == width
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("width", [1024, 1200])
def test_no_table_is_cut_on_a_screen(page: Any, width: int) -> None:
    """All eleven columns of "Under load", its price included, are seen without scrolling."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        page.refresh()
        widths, columns = page.execute_script(
            "return [[...document.querySelectorAll('.scroll')].map((box) => [box.scrollWidth, box.clientWidth]),"
            " document.querySelectorAll('[aria-labelledby=load] th').length]")
        assert columns == 11
        assert [pair for pair in widths if pair[0] > pair[1]] == []
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_no_request_leaves_the_page(page: Any) -> None:
    select(page, "batch", "8")
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert asked
    assert all(url.startswith(("file:", "data:")) for url in asked), asked


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_text_stands_out_in_dark_and_light(page: Any, scheme: str) -> None:
    features = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
    try:
        ink, paper = page.execute_script(
            "const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]"
        )
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    light, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 7      # WCAG 2.2, enhanced contrast
    assert (luminance(paper) < 0.1) == (scheme == "dark")


def luminance(color: str) -> float:
    """Relative luminance of `rgb(r, g, b)` (WCAG 2.2)."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_prints_without_controls(page: Any) -> None:
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        display = page.execute_script("return getComputedStyle(document.querySelector('fieldset')).display")
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert display == "none"
    pdf = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    assert len(pdf) > 20_000


def test_page_is_whole_and_light(written: Path, answer: dict[str, Any]) -> None:
    text = written.read_text(encoding="utf-8")
    assert len(text.encode()) < 1_500_000
    assert "</script><b>" not in text               # a drafter's name is text, not markup
    assert not re.search(r"(?:src|href)=[\"']?https?:|@import|url\(['\"]?http", text)
    for rule in answer["guidelines"]:
        assert rule["id"] in text
    for item in answer["provenance"]:
        assert item["parameter"] in text
    assert "--speculative-config" in text           # the configuration to paste
    assert "Under load" in text


def test_too_many_cells_are_refused_in_words(tmp_path: Path) -> None:
    batches = ",".join(str(batch) for batch in range(1, 200))
    result = run(tmp_path, "report", "-o", str(tmp_path / "r.html"), "--batch", batches, "--context", "1k,2k,3k,4k")
    assert result.exit_code == 1
    assert "ask for fewer batches or contexts" in result.stderr
    assert not (tmp_path / "r.html").exists()


def test_unwritable_output_leaves_nothing(tmp_path: Path) -> None:
    result = run(tmp_path, "report", "-o", str(tmp_path / "none" / "report.html"))
    assert result.exit_code == 2
    assert "report.html: cannot be written" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["cfg.yaml"]


def test_without_acceptance_the_report_says_so(tmp_path: Path) -> None:
    config = CONFIG | {"drafters": [{"mechanism": "eagle3"}], "workload": {"batch": [1], "context_tokens": [2000]}}
    result = run(tmp_path, "report", "-o", str(tmp_path / "r.html"), config=config)
    assert result.exit_code == 0, result.output
    assert "Acceptance unknown" in (tmp_path / "r.html").read_text(encoding="utf-8")
