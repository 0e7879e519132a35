"""Chromium, driven as people use it, and what axe finds on the page that it shows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import files
from pathlib import Path
from typing import Any

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from tests.support import until

OPTIONS = (
    *(
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1200,1000",
    ),
    *("--disable-background-networking", "--disable-sync", "--no-first-run", "--disable-component-update"),
)
LOOKS = (("light", 1200), ("dark", 1200), ("light", 390))
"""Colour schemes and widths."""


class Browser:
    """Chromium at the pages below a URL."""

    def __init__(self, chrome: Chrome, url: str) -> None:
        self.chrome = chrome
        self.url = url

    def open(self, path: str) -> None:
        self.chrome.get(self.url + path)

    def __call__(self, css: str) -> WebElement:
        """The first element of a selector, once there is one."""
        return until(lambda: self.chrome.find_elements(By.CSS_SELECTOR, css))[0]

    def press(self, css: str, shows: str) -> None:
        """Press a button or link by the keyboard, and wait for what the next page shows."""
        old = self("html")
        self.type(css, Keys.ENTER)
        until(lambda: self("html") != old and self.shows(shows))

    def write(self, css: str, text: str) -> None:
        self.type(css, Keys.CONTROL, "a")
        self.type(css, text)

    def type(self, css: str, *keys: str) -> None:
        """Send keys to an element; to its successor if the page replaces it meanwhile."""

        def is_sent() -> bool:
            with suppress(StaleElementReferenceException):
                self(css).send_keys(*keys)
                return True
            return False

        until(is_sent)

    def text_of(self, css: str) -> str:
        """The text in a field, whichever element has it at the moment."""
        return str(self._run(f"return document.querySelector({css!r})?.value"))

    def shows(self, text: str) -> bool:
        shown = "return document.body ? document.body.innerText : ''"
        return text in self.chrome.execute_script(shown)

    def console(self) -> Sequence[dict[str, Any]]:
        """What the page, or the browser about it, has written to the console."""
        found: Sequence[dict[str, Any]] = self.chrome.get_log("browser")  # type: ignore[no-untyped-call]
        return found

    def faults(self, path: str) -> Iterator[str]:
        """What axe finds on the page that is shown, and how wide it is, in all looks."""
        for scheme, width in LOOKS:
            media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
            self.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            self.chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            for fault in self._axe():
                yield f"{path}, {scheme}, {width}: {fault['id']} {[each['html'] for each in fault['nodes']]}"
            if (wide := self._run("return document.documentElement.scrollWidth")) > width:
                yield f"{path}, {scheme}, {width}: {wide} wide"
        self.chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def _axe(self) -> Sequence[dict[str, Any]]:
        if not self._run("return 'axe' in window"):
            self._run(AXE)
        run = "const done = arguments[0]; axe.run().then((result) => done(result.violations))"
        found: Sequence[dict[str, Any]] = self.chrome.execute_async_script(run)
        return found

    def _run(self, script: str) -> Any:
        return self.chrome.execute_script(script)


AXE = next(
    (
        Path(str(each.locate())).read_text()
        for each in files("axe-selenium-python") or ()
        if each.name == "axe.min.js"
    ),
    "",
)


@contextmanager
def chromium(*more: str) -> Iterator[Chrome]:
    options = ChromeOptions()
    for each in (*OPTIONS, *more):
        options.add_argument(each)
    chrome = Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        chrome.set_script_timeout(120)
        yield chrome
    finally:
        chrome.quit()
