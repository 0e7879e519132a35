"""The pages in Chromium: with scripts, by keyboard, and as axe finds them in light, dark and on a phone."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from pai_marketplace.settings import CALLBACK, OpenId
from pai_runtime.engines.local.ports import free_ports
from tests.browser import Browser, chromium
from tests.openid_provider import PASSWORD, SECRET, canaille
from tests.running_marketplace import WHOLE_JOB, RunningMarketplace, template
from tests.support import until

pytestmark = [pytest.mark.process, pytest.mark.needs("chromium", "chromium-driver", "axe")]


class MarketBrowser(Browser):
    """Chromium at a marketplace."""

    def __init__(self, chrome: Chrome, market: RunningMarketplace) -> None:
        super().__init__(chrome, market.url)
        self.market = market

    def sign_in(self, name: str) -> None:
        self.open("/sign-in")
        self.write("#token", self.market.tokens[name])
        self.press("main button", f"Signed in as {name}")


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    with chromium() as started:
        yield started


@pytest.fixture
def browser(chrome: Chrome, tmp_path: Path) -> Iterator[MarketBrowser]:
    with RunningMarketplace(tmp_path, review=True) as market:
        for version in ("1.0", "1.1"):
            text = template(version=version, usage="Say *something*.")
            assert market.publish(text, owner="team", title="Digits", tags=["images"]).status == 201
        requires = "[{name: marketplace://name/team/mnist@1.0, template_variables: {words: hi}}]"
        assert market.publish(template("needing", require=requires)).status == 201
        assert market.publish(WHOLE_JOB).status == 201
        for item in ("team/mnist/versions/1.0", "alice/needing/versions/1.0", "alice/hello/versions/1"):
            decided = market.call("PUT", f"/v1/items/{item}/review", {"status": "approved"}, "carol")
            assert decided.status == 200
        chrome.delete_all_cookies()
        yield MarketBrowser(chrome, market)


def test_axe_finds_nothing_on_any_page(browser: MarketBrowser) -> None:
    found: list[str] = []

    def look(*paths: str) -> None:
        for path in paths:
            browser.open(path)
            found.extend(browser.faults(path))

    look("/", "/?q=nothing", "/items/team/mnist", "/items/alice/hello/use", "/nowhere", "/publish")
    browser.open("/items/team/mnist/use")
    browser.press("button[value=fill]", "valid")
    found.extend(browser.faults("use"))
    browser.write("#text", "a: [")
    browser.press("button[value=check]", "error")
    found.extend(browser.faults("wrong job"))
    browser.open("/sign-in")
    browser.write("#token", "x")
    browser.press("main button", "not valid")
    found.extend(browser.faults("wrong token"))
    browser.sign_in("alice")
    look("/publish", "/items/team/mnist", "/items/team/mnist/edit", "/review")
    look("/items/team/mnist/differences?from=1.0&to=1.1")
    browser.open("/publish")
    browser.write("#text", "a: [")
    browser.press("button[value=publish]", "Not published")
    found.extend(browser.faults("wrong text"))
    browser.sign_in("carol")
    look("/review")
    assert not found


def test_an_item_is_published_found_used_and_changed(browser: MarketBrowser) -> None:
    browser.sign_in("alice")
    browser.open("/publish")
    browser.write("#text", template("brandnew"))
    until(lambda: browser.shows("The text is valid"))  # as one types
    browser.write("#title", "Brand new")
    browser.press("button[value=publish]", "waits for review")
    browser.open("/")
    browser.write("#q", "brand")
    until(lambda: browser.shows("1 item\n"))  # as one types, too
    assert browser.chrome.current_url.endswith("?q=brand")
    browser.press("#results h2 a", "marketplace://name/alice/brandnew@1.0")
    browser.press(".actions a", "Use Brand new")
    browser.write("#var-words", "good morning")
    until(lambda: "good morning" in browser.text_of("#text"))
    browser.write("#var-count", "many")
    until(lambda: browser.shows("expected a whole number"))
    browser.open("/items/alice/brandnew/edit")
    browser.write("#text", template("brandnew", "2.0"))
    browser.press("button[value=publish]", "2.0")
    browser.press("header form button", "Sign in")
    browser.open("/items/alice/brandnew")
    assert browser.shows("Nothing is here")


def test_a_job_is_checked_as_one_types_and_a_message_leads_to_its_line(browser: MarketBrowser) -> None:
    browser.open("/items/alice/hello/use")
    browser("#text").send_keys(Keys.CONTROL, Keys.END)
    browser("#text").send_keys("taskRolse: {}\n")
    browser.type("#checked a[data-line]", Keys.ENTER)
    focused = browser.chrome.switch_to.active_element
    assert focused.get_attribute("id") == "text"
    start, end = (int(str(focused.get_property(each))) for each in ("selectionStart", "selectionEnd"))
    assert str(focused.get_property("value"))[start:end] == "taskRolse: {}"


def test_the_keyboard_reaches_the_content_at_once(browser: MarketBrowser) -> None:
    browser.open("/")
    browser("body").send_keys(Keys.TAB)
    skip = browser.chrome.switch_to.active_element
    assert skip.get_attribute("class") == "skip"
    skip.send_keys(Keys.ENTER)
    until(lambda: browser.chrome.switch_to.active_element.get_attribute("id") == "main")


def test_who_has_no_right_is_told(browser: MarketBrowser) -> None:
    browser.sign_in("bob")
    browser.open("/items/team/mnist/edit")
    assert browser.shows("You have no right to this")
    browser.open("/items/team/mnist")
    assert not browser.chrome.find_elements(By.CSS_SELECTOR, "a[href$='/edit']")


def test_the_policy_keeps_inline_scripts_out(browser: MarketBrowser) -> None:
    browser.open("/")
    inline = "const e = document.createElement('script'); e.text = 'window.ran = 1'; document.body.append(e)"
    browser.chrome.execute_script(inline)
    assert browser.chrome.execute_script("return window.ran") is None


@pytest.mark.needs("canaille")
def test_who_signs_in_at_the_provider_is_signed_in_here(chrome: Chrome, tmp_path: Path) -> None:
    port, its_port = free_ports(2)
    url = f"http://127.0.0.1:{port}"
    with canaille(its_port, url + CALLBACK) as issuer:
        known = OpenId(issuer, "market", url, SECRET)
        with RunningMarketplace(tmp_path, port=port, openid=known) as market:
            browser = MarketBrowser(chrome, market)
            browser.open("/sign-in?next=/publish")
            browser.press("main a.button", "Login")
            browser.write("#login", "dora")
            browser.press("button[type=submit]", "Password")
            browser.write("#password", PASSWORD)
            # What another site's page leads to has to have the strict cookie nevertheless.
            browser.press("button[type=submit]", "Signed in as dora")
            assert urlsplit(chrome.current_url).path == "/publish"


def test_without_scripts_all_of_it_works(tmp_path: Path) -> None:
    with RunningMarketplace(tmp_path) as market, chromium("--blink-settings=scriptEnabled=false") as chrome:
        browser = MarketBrowser(chrome, market)
        browser.open("/sign-in")
        browser("#token").send_keys(market.tokens["alice"], Keys.ENTER)
        browser(".person form")
        browser.open("/publish")
        browser("#text").send_keys(template())
        browser("button[value=publish]").send_keys(Keys.ENTER)
        browser(".actions a").send_keys(Keys.ENTER)
        browser("#var-words").send_keys("good morning", Keys.ENTER)

        def is_filled_in() -> bool:
            with suppress(StaleElementReferenceException):  # of the page before
                return "good morning" in browser("#text").text
            return False

        until(is_filled_in)
        assert not browser("button[data-copy]").is_displayed()
