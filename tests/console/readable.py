"""What makes a page hard to read, in the words of a browser: each is a script that returns what it found."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Page

NAMELESS: Final = """() => [...document.querySelectorAll('a[href], button, input, select, textarea, summary, progress, meter, svg[role=img]')]
    .filter(each => !(each.getAttribute('aria-label') || each.textContent.trim() || (each.labels && [...each.labels].some(label => label.textContent.trim()))))
    .map(each => each.outerHTML.slice(0, 160))"""  # noqa: E501
"""Controls and pictures that cannot be read aloud."""

FAINT: Final = """() => {
    const parts = (colour) => { const found = colour.match(/[0-9.]+/g).map(Number); return found.length < 4 ? [...found, 1] : found; };
    const over = (top, under) => under.map((each, at) => top[at] * top[3] + each * (1 - top[3]));
    const ground = (element) => {
        const layers = [];
        for (let each = element; each; each = each.parentElement) layers.push(parts(getComputedStyle(each).backgroundColor));
        return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
    };
    const light = (colour) => colour.map((each) => each / 255).map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
        .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest('svg, option, noscript, :disabled, .skip')) continue;
        const style = getComputedStyle(element);
        const under = ground(element);
        const [one, other] = [light(over(parts(style.color), under)), light(under)].sort((a, b) => b - a);
        const size = parseFloat(style.fontSize);
        const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        const contrast = (one + 0.05) / (other + 0.05);
        if (contrast < (isLarge ? 3 : 4.5)) found.push(`${contrast.toFixed(2)}: ${walker.currentNode.data.trim().slice(0, 40)} <${element.className}>`);
    }
    return [...new Set(found)];
}"""  # noqa: E501
"""Texts whose contrast is below that of WCAG 2.2, level AA (1.4.3)."""

CUT: Final = """() => [...document.querySelectorAll('.scroll')].filter(each => each.scrollWidth > each.clientWidth + 1)
    .map(each => each.innerText.slice(0, 80))"""
"""Tables that are wider than their place. On a phone they scroll."""


def check_readable(page: Page, where: str) -> None:
    """At the widths of a laptop and of a phone, in light and dark."""
    for width in (1440, 1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        cut = page.evaluate(CUT)
        assert width < 1280 or not cut, f"{where} has tables that are cut off at {width}: {cut}"
        assert not is_wider_than_the_window(page), f"{where} is cut off at {width}"
        assert not page.evaluate(NAMELESS), f"{where} has controls that cannot be read aloud"
        for scheme in () if width == 1280 else ("light", "dark"):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            faint = page.evaluate(FAINT)
            assert not faint, f"{where}, {scheme}, at {width}: {faint}"


def is_wider_than_the_window(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))
