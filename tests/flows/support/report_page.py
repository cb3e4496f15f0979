"""Uses report.html as a reader would. report_page.py FOLDER_OF_RUNS [FOLDER_FOR_SCREENSHOTS]"""
import json
import pathlib
import sys

from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from browser import Browser

folder, pictures = pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
POINTS = "#front-chart .point"


def control(browser, words):
    """The select or box whose label begins with these words."""
    return browser.run("[...document.querySelectorAll('#front-chart label')].find(l => l.textContent.trim().startsWith(arguments[0]))"
                       ".querySelector('select, input')", words)


def filters_and_axes(browser, run):
    trials = [json.loads(line) for line in open(folder / run / "trials.jsonl")]
    ok = [each for each in trials if "final_round" not in each and each["outcome"] == "ok"]
    on_front = {point["trial"] for point in json.load(open(folder / run / "front.json"))["points"]}  # and the default
    assert len(browser.find_all(POINTS)) == len(ok), "not every measured trial is a point"
    control(browser, "front only").click()
    assert len(browser.find_all(POINTS)) == len(on_front), "'front only' shows something else than the front"
    control(browser, "front only").click()

    knob = next(name for name in ok[0]["configuration"] if len({str(each["configuration"][name]) for each in ok}) > 1)
    value = str(ok[-1]["configuration"][knob])
    Select(control(browser, knob)).select_by_value("=" + value)
    wanted = sum(str(each["configuration"][knob]) == value for each in ok)
    assert len(browser.find_all(POINTS)) == wanted, f"{knob}={value} does not show {wanted} trials"
    Select(control(browser, knob)).select_by_value("")

    Select(control(browser, "up")).select_by_value("device_bytes")
    assert "device_bytes" in browser.find("#front-chart .chart > svg").get_attribute("aria-label")
    Select(control(browser, "up")).select_by_value("kl_mean")

    browser.run("document.querySelector('#front-chart details.behind').open = true")
    browser.wait(f"document.querySelectorAll('#front-chart .numbers tbody tr').length === {len(ok)}")
    browser.run("document.querySelector('#front-chart details.behind').open = false")


def first_screen(browser, path):
    """What to launch is seen without scrolling at a desk, and on a telephone before the finer reasons."""
    edge = lambda css, side: browser.run(f"document.querySelector('{css}').getBoundingClientRect().{side}")
    assert edge("#launch-flags select", "bottom") <= 900, "flags of a server are below the first screen"
    assert browser.find("#launch-flags select").get_attribute("value") == "vllm"
    assert "--set" in browser.find("#launch-command pre").text
    browser.size(390, 844)
    browser.open(path)
    assert edge(".launch .why", "top") < edge(".launch .what", "top") < edge(".launch .more", "top"), "reasons before what to launch"
    browser.size(1280, 900)
    browser.open(path)


def picking(browser):
    heading = lambda: browser.find("#picked h3").text
    first = heading()
    assert "recommended" in first, first
    assert len(browser.find_all(POINTS + "[tabindex='0']")) == 1, "more than one point in the tab order"
    browser.run("document.querySelector('#front-chart .point[tabindex=\"0\"]').focus()")
    active = browser.driver.switch_to.active_element
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT):
        browser.driver.switch_to.active_element.send_keys(key)
    moved = browser.driver.switch_to.active_element
    assert moved != active, "arrow keys do not move"
    number = moved.get_attribute("aria-label").split(",")[0]
    assert not browser.find("#front-chart .tip").get_attribute("hidden"), "no tip beside the point in focus"
    moved.send_keys(Keys.ENTER)
    assert heading().startswith(f"Picked: {number},"), f"{heading()} after picking {number}"
    assert browser.run("document.activeElement.getAttribute('aria-pressed')") == "true", "the focus is lost by picking"
    # The command of the picked one sets every knob of its table.
    command = browser.find("#picked pre").text.replace("\n", " ")
    for row in browser.find_all("#picked table tr"):
        cells = [cell.text for cell in row.find_elements("css selector", "th, td")]
        if len(cells) == 3 and cells[1]:
            assert f"--set {cells[0]}={cells[1]}" in command, f"{cells} is not in {command}"
    next(button for button in browser.find_all("#picked button") if button.text == "Pick the recommended one").click()
    assert heading() == first
    # Its flags, for each server that is chosen; the choice stays when another point is picked.
    choose = lambda: browser.find("#picked select")
    next(option for option in choose().find_elements("css selector", "option") if option.text == "Ollama").click()
    assert "OLLAMA_NUM_PARALLEL=" in browser.find("#picked .server-flags").text, browser.find("#picked .server-flags").text
    next(button for button in browser.find_all("#picked button") if button.text == "Pick the default").click()
    assert choose().get_attribute("value") == "ollama" and "--trial 0 --server ollama" in browser.find("#picked .server-flags").text
    next(button for button in browser.find_all("#picked button") if button.text == "Pick the recommended one").click()
    # By the mouse: the default is a square somewhere on the chart.
    browser.run("document.querySelector('#front-chart .point.default').dispatchEvent(new MouseEvent('click', {bubbles: true, "
                "clientX: document.querySelector('#front-chart .point.default').getBoundingClientRect().x + 5, "
                "clientY: document.querySelector('#front-chart .point.default').getBoundingClientRect().y + 5}))")
    assert "default" in heading(), heading()


def every_chart(browser):
    for figure in browser.find_all("figure"):
        browser.run("arguments[0].scrollIntoView()", figure)
        browser.wait("arguments[0].querySelector('.chart svg, .chart .note') !== null", figure)
        assert figure.find_element("css selector", "figcaption").text or figure.find_elements("css selector", ".note")


def sizes(browser, path, name):
    for width, height, dark in ((1280, 900, False), (800, 1100, True), (390, 844, False)):
        browser.size(width, height, dark)
        browser.open(path)
        every_chart(browser)
        assert browser.run("document.documentElement.scrollWidth") <= width, f"wider than {width} pixels"
        background = browser.run("getComputedStyle(document.body).backgroundColor")
        assert (background != "rgb(255, 255, 255)") == dark, background
        if pictures:
            browser.size(width, min(browser.run("document.documentElement.scrollHeight"), 8000), dark)
            browser.driver.save_screenshot(f"{pictures}/{name}-{width}.png")


def paper(browser, path):
    browser.size(1280, 900, dark=True)
    browser.open(path)
    pdf = browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})["data"]
    assert len(pdf) > 20000, "hardly anything is printed"
    missing = browser.run("[...document.querySelectorAll('figure')].filter(f => !f.querySelector('.chart svg, .chart .note')).map(f => f.id)")
    assert not missing, f"not drawn for paper: {missing}"


with Browser() as browser:
    small = str(folder / "small/report.html")
    browser.size(1280, 900)
    browser.open(small)
    first_screen(browser, small)
    filters_and_axes(browser, "small")
    picking(browser)
    every_chart(browser)
    browser.find("#theme").click()
    assert browser.run("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    browser.quiet(small)
    sizes(browser, small, "small")
    paper(browser, small)

    recorded = str(folder / "recorded/report.html")
    browser.open(recorded)
    every_chart(browser)
    browser.wait("document.querySelectorAll('#tax-chart rect title').length > 0")
    assert "made up: 1.21 times as long" in browser.find("#tax-chart .not-recorded").text
    browser.quiet(recorded)

    hostile = str(folder / "hostile/report.html")
    browser.open(hostile)
    every_chart(browser)
    assert browser.run("window.hit") is None, "a name was run"
    assert not browser.find_all("img"), "a name became an element"
    assert browser.find("h1").text.startswith("</script><script>"), browser.find("h1").text
    browser.quiet(hostile)

    large = str(folder / "large/report.html")
    browser.open(large)
    assert len(browser.find_all(POINTS)) > 1500
    # What a page costs to open is what it builds: about two elements a trial.
    assert browser.run("document.querySelectorAll('*').length") < 8000
    every_chart(browser)
    sizes(browser, large, "large")
    compare = str(folder / "compare.html")
    browser.size(1280, 900)
    browser.open(compare)
    points = browser.find_all("#money-chart .point")
    assert len(points) >= 2, "no chart of money"
    browser.run("document.querySelector('#money-chart .point').focus()")
    assert "USD per million tokens" in browser.driver.switch_to.active_element.get_attribute("aria-label")
    assert browser.run("window.hit") is None and not browser.find_all("img"), "a name was run"
    sizes(browser, compare, "compare")
print("report.html, compare.html: picks, filters, keys, three sizes, paper and hostile names")
