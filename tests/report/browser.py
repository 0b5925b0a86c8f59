"""A real headless Chromium, where one is installed."""

import shutil
from contextlib import contextmanager

import pytest


@contextmanager
def open_page(path, **settings):
    """The page in Chromium, and everything that it complained of or asked the network for."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page(**({"viewport": {"width": 1100, "height": 900}} | settings))
        noticed = []
        page.on("console", lambda message: noticed.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: noticed.append(f"error: {error}"))
        page.on("dialog", lambda dialog: noticed.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: noticed.append(f"request: {request.url}"))
        address = path.resolve().as_uri()
        page.goto(address)
        page.wait_for_selector(".card")
        assert noticed == [f"request: {address}"]
        yield page, noticed
        browser.close()
