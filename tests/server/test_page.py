"""The page in a real browser: type, run, race, change the policy, see an error; on a phone, by
keyboard, in the dark. Skipped where there is no browser.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from entropycache import GenerationConfig, load
from tests.server.tools import serving

CHROMIUM = "/usr/bin/chromium"
PATIENCE = 120_000  # milliseconds: for a condition on a busy machine, far above what it takes
pytestmark = pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"there is no {CHROMIUM}")
QUIET = [
    *("--no-sandbox", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
]


@pytest.fixture(scope="module")
def server():
    engine = load("tiny", dtype="float32", device="cpu")
    with serving(engine, defaults=GenerationConfig(gen_length=32)) as running:
        yield running


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=QUIET, timeout=PATIENCE)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, server):
    """``open_page(**context)``: the page, ready; nothing is logged, nor asked of other hosts."""
    contexts, said = [], []

    def open_(url: str = server.url, **options):
        context = browser.new_context(**options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda r: said.append(r.url) if not r.url.startswith(url) else None)
        page.goto(url)
        page.wait_for_selector("#model:has-text('ready')")
        page.fill("#length", "16")
        return page

    open_.said = said
    yield open_
    for context in contexts:
        context.close()
    assert said == []


def ends(page, selector: str = ".state:has-text('done')") -> None:
    """Wait for a run's end, or for ``selector``; an error that the page shows fails at once."""
    page.wait_for_selector(f"{selector}, #error:not([hidden])")
    assert page.locator("#error").is_hidden(), page.locator("#error").inner_text()


def run(page) -> None:
    """A run from its start to its end."""
    page.click("#run")
    ends(page)


def test_type_and_run(open_page, server):
    page = open_page()
    page.fill("#prompt", "1 + 1 =")
    run(page)
    expected = server.client().chat.completions.create(
        model="small",
        messages=[{"role": "user", "content": "1 + 1 ="}],
        extra_body={"gen_length": 16, "threshold": 0.9},
    )
    shown = expected.choices[0].message.content or "(empty: the first token ends the answer)"
    assert page.locator(".lane .text").inner_text() == shown
    assert page.locator(".canvas .cell").count() == 16
    assert page.locator(".canvas .mask").count() == 0
    passes = int(page.locator("[data-stat=passes]").inner_text().split()[0])
    assert page.locator(".timeline rect").count() == passes
    assert page.locator(".timeline rect.full").count() >= 1
    assert int(page.locator("[data-stat=rows]").inner_text().split()[0].replace(",", "")) > 0
    assert page.locator("#run").is_enabled() and page.locator("#stop").is_disabled()


def test_look_back_at_any_pass(open_page):
    page = open_page()
    page.select_option("#first-rule", "one")
    run(page)
    page.focus(".scrub input")
    page.keyboard.press("Home")
    assert page.locator(".canvas .mask").count() == 15
    assert page.locator(".canvas .now").count() == 1
    assert page.locator(".canvas.full").count() == 1
    assert "full: the cache is empty" in page.locator(".scrub output").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.locator(".canvas .mask").count() == 14
    assert "partial: the rest is read" in page.locator(".scrub output").inner_text()
    assert page.locator(".canvas .fresh").count() > 0


def test_a_race_of_two(open_page):
    page = open_page()
    page.click("#race")
    ends(page, "#verdict:not([hidden])")
    names = page.locator(".lane .name").all_inner_texts()
    assert names == ["entropy · confident tokens", "plain decoding · one token a pass"]
    assert page.locator(".lane .state").all_inner_texts() == ["done", "done"]
    assert "sooner" in page.locator("#verdict").inner_text()
    assert "They commit differently" in page.locator("#verdict").inner_text()
    full = page.locator(".lane").nth(1).locator(".timeline rect")
    assert full.count() == page.locator(".lane").nth(1).locator("rect.full").count() == 16
    untils = page.locator(".until").all_inner_texts()
    assert untils[0] == untils[1], "both share a time axis"


def test_change_the_policy(open_page):
    page = open_page()
    before = page.locator("#first-hint").inner_text()
    page.select_option("#first-policy", "fast-dual")
    assert page.locator("#first-hint").inner_text() != before
    page.select_option("#first-rule", "four")
    run(page)
    assert page.locator(".lane .name").inner_text() == "fast-dual · four tokens a pass"
    assert int(page.locator("[data-stat=passes]").inner_text().split()[0]) <= 4


def test_an_error_is_shown_and_gone_after_the_next_run(open_page):
    page = open_page()
    page.fill("#first-options", "tau=high")
    page.click("#run")
    page.wait_for_selector("#error:not([hidden])")
    assert "tau must be a number, not 'high'" in page.locator("#error").inner_text()
    assert page.locator("#run").is_enabled() and page.locator(".lane").count() == 0
    page.fill("#first-options", "")
    run(page)
    assert page.locator("#error").is_hidden()
    open_page.said[:] = [x for x in open_page.said if "400" not in x]  # the browser's own note


def test_stop(open_page, server):
    page = open_page()
    page.fill("#length", "400")
    page.select_option("#first-policy", "none")
    page.select_option("#first-rule", "one")
    page.click("#run")
    page.wait_for_selector(".timeline rect")
    page.click("#stop")
    assert page.locator(".state").inner_text() == "stopped"
    assert page.locator(".scrub input").is_enabled(), "what there is can be looked at"
    server.settle()
    assert server.slots == 0


def test_examples_are_judged_by_their_known_answers(open_page):
    page = open_page()
    page.fill("#length", "40")
    question = page.input_value("#prompt")
    page.click("#another")
    assert page.input_value("#prompt") != question
    run(page)
    judged = page.locator(".judged").inner_text()
    assert judged.startswith(("✓ correct", "✗ the answer is"))


def test_text_is_never_taken_for_markup(open_page):
    page = open_page()
    page.fill("#prompt", "<img src=x onerror=alert(1)>")
    run(page)
    assert page.locator("#lanes img").count() == 0


@pytest.mark.parametrize("width", [320, 390])
def test_on_a_phone_nothing_is_cut_off(open_page, width):
    page = open_page(viewport={"width": width, "height": 800}, has_touch=True)
    page.click("#race")
    ends(page, "#verdict:not([hidden])")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for button in page.locator("button").all():
        assert button.bounding_box()["height"] >= 40


def test_by_keyboard_alone(open_page):
    page = open_page()
    page.focus("#prompt")
    page.keyboard.press("Control+a")
    page.keyboard.type("2 * 3 =")
    page.keyboard.press("Control+Enter")
    ends(page)
    page.focus("#temperature")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "run"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    unlabelled = page.evaluate(
        "[...document.querySelectorAll('#form input, #form select, #form textarea')]"
        ".filter(field => !field.labels.length).length"
    )
    assert unlabelled == 0


def test_light_and_dark_differ_and_both_can_be_read(open_page):
    grounds = set()
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme)
        run(page)
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        for selector in ("body", ".canvas .cell", "#run", "label", ".key .token"):
            assert contrast(page, selector) >= 4.5, (scheme, selector)
    assert len(grounds) == 2


def contrast(page, selector: str) -> float:
    """WCAG contrast of a text against the nearest background behind it."""
    return page.locator(selector).first.evaluate(
        """element => {
          const parts = text => text.match(/[\\d.]+/g).map(Number);
          const lum = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= .03928 ? v / 12.92
            : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
          let behind = element;
          const ground = e => parts(getComputedStyle(e).backgroundColor);
          while (ground(behind)[3] === 0) behind = behind.parentElement;
          const [a, b] = [lum(parts(getComputedStyle(element).color)), lum(ground(behind))];
          return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
        }"""
    )


def test_a_key_is_asked_for_where_the_server_wants_one(open_page):
    engine = load("tiny", dtype="float32", device="cpu")
    with serving(engine, api_key="k3y") as running:
        page = open_page(running.url)
        assert page.locator("#key-field").is_visible()
        page.click("#run")
        page.wait_for_selector("#error:not([hidden])")
        assert "API key" in page.locator("#error").inner_text()
        page.fill("#key", "k3y")
        run(page)
        page.close()
    open_page.said[:] = [x for x in open_page.said if "401" not in x]  # the browser's own note
