"""The page of a run in Chromium: as axe finds it, with and without its script, and of 500 tasks."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.browser import Browser, chromium
from tests.played_run import PlayedRun
from tests.support import cli, until

pytestmark = [pytest.mark.process, pytest.mark.needs("chromium", "chromium-driver", "axe")]

RECORD = """exitCode: 226
outcome: "failed"
message: "the command ended with exit code 1"
phrase: "CudaOutOfMemory"
reason: "The GPU did not have enough memory for the program."
solution: ["Use a smaller batch"]
matchedUserLogString: "CUDA out of memory"
"""


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    with chromium() as started:
        yield started


def report(folder: Path, tasks: int = 3) -> None:
    played = PlayedRun(folder, worker=tasks)
    for index in range(tasks):
        played.output(f"worker/{index}", f"hello from {index}\nneedle {index}\n</pre><script>\n".encode())
    played.output("worker/0", b"RuntimeError: CUDA out of memory\nafter\n")
    (played.task_folder("worker/0") / "exit.yaml").write_text(RECORD)
    (played.task_folder("worker/0") / "variables.json").write_text(
        '{"A": {"source": "platform", "value": "b"}}'
    )
    played.all("succeeded", exitCode=0)
    played.set("worker/0", "failed", exitCode=226)
    played.end("failed", "worker/0")
    assert cli("report", folder).returncode == 0


def test_axe_finds_nothing_in_any_look_and_the_page_says_nothing_to_the_console(
    chrome: Chrome, tmp_path: Path
) -> None:
    report(tmp_path)
    browser = Browser(chrome, tmp_path.as_uri())
    browser.open("/report.html#worker/0")
    assert browser.console() == []
    assert not list(browser.faults("closed"))
    chrome.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    assert not list(browser.faults("open"))


def test_a_failure_leads_to_its_task_and_a_search_to_the_lines_that_have_it(
    chrome: Chrome, tmp_path: Path
) -> None:
    report(tmp_path)
    browser = Browser(chrome, tmp_path.as_uri())
    browser.open("/report.html")
    browser(".failure a").click()
    until(lambda: browser.shows("hello from 0"))
    browser.write("#text", "NEEDLE 2")
    until(lambda: browser.shows("1 line"))
    assert browser.shows("needle 2")
    assert not browser.shows("hello from 2")
    shown = [each for each in chrome.find_elements(By.CSS_SELECTOR, ".task") if each.is_displayed()]
    assert [each.get_attribute("id") for each in shown] == ["worker/2"]
    browser.write("#text", "\ue017\ue003")  # delete what is marked
    until(lambda: len([e for e in chrome.find_elements(By.CSS_SELECTOR, ".task") if e.is_displayed()]) == 3)


def test_without_scripts_all_but_the_search_is_there(tmp_path: Path) -> None:
    report(tmp_path)
    with chromium("--blink-settings=scriptEnabled=false") as chrome:
        browser = Browser(chrome, tmp_path.as_uri())
        browser.open("/report.html")
        assert not browser("#search").is_displayed()
        browser(".task > summary").click()
        until(lambda: "needle 0" in browser(".task").text)


def test_five_hundred_tasks_are_searched_as_one_types(chrome: Chrome, tmp_path: Path) -> None:
    report(tmp_path, tasks=500)
    browser = Browser(chrome, tmp_path.as_uri())
    browser.open("/report.html")
    browser.write("#text", "needle 499")
    until(lambda: browser.shows("needle 499") and not browser.shows("needle 498"))
    assert browser.shows("1 line")
