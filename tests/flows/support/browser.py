"""A headless Chromium that remembers what a page logged and asked for. Used by the page flows."""
import json

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait


class Browser:
    def __init__(self):
        options = Options()
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.driver.set_page_load_timeout(300)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    def size(self, width, height, dark=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def open(self, path):
        """Opens a file; fails on any console message and on any request but the one for the file."""
        self.driver.get("file://" + path)
        self.quiet(path)

    def quiet(self, path):
        messages = self.driver.get_log("browser")
        assert not messages, f"the console says {messages}"
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                assert url.split("#")[0] == "file://" + path, f"asks for {url}"

    def run(self, script, *arguments):
        return self.driver.execute_script("return " + script, *arguments)

    def wait(self, script, *arguments):
        return WebDriverWait(self.driver, 120).until(lambda _: self.run(script, *arguments))

    def find(self, css):
        return self.driver.find_element("css selector", css)

    def find_all(self, css):
        return self.driver.find_elements("css selector", css)
