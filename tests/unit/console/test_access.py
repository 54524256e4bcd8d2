"""Who may use the console: the token, the names in Host and Origin, the cookie."""

from __future__ import annotations

import pytest

from highwater.console.access import HEADERS, Access, checked_base_path, new_token

ACCESS = Access("secret-token", 8080, "", frozenset({"console.example"}))


@pytest.mark.parametrize(
    "host", ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST", "10.1.2.3:9", "console.example"]
)
def test_an_address_localhost_and_a_name_that_was_allowed_are_own_hosts(host: str) -> None:
    assert ACCESS.is_own_host(host)


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8080", "a@localhost", "localhost:x"]
)
def test_any_other_host_name_is_foreign_so_that_a_rebound_name_reaches_nothing(host: str) -> None:
    assert not ACCESS.is_own_host(host)


def test_an_origin_is_own_only_if_it_names_the_host_of_the_request() -> None:
    assert Access.is_own_origin("http://127.0.0.1:8080", "127.0.0.1:8080")
    assert Access.is_own_origin("https://console.example", "console.example"), "a proxy adds TLS"
    for foreign in ("http://127.0.0.1:8081", "http://evil.example", "null", "file://127.0.0.1:8080", "http://[", ""):
        assert not Access.is_own_origin(foreign, "127.0.0.1:8080")


def test_the_cookie_is_for_this_port_alone_and_out_of_reach_of_scripts_and_other_sites() -> None:
    assert ACCESS.cookie == "highwater_console_8080=secret-token; Path=/; HttpOnly; SameSite=Strict"
    assert Access("t", 9, "/kafka").cookie == "highwater_console_9=t; Path=/kafka; HttpOnly; SameSite=Strict"


def test_the_token_is_found_among_other_cookies_and_compared_whole() -> None:
    header = "highwater_console_8081=other; highwater_console_8080=secret-token; x=y"
    assert ACCESS.is_token(ACCESS.cookie_token(header))
    assert not ACCESS.is_token(ACCESS.cookie_token("highwater_console_8081=secret-token"))
    assert not ACCESS.is_token("secret-toke") and not ACCESS.is_token("") and not ACCESS.is_token("sécret-token")


def test_the_token_for_changes_is_another_one_and_does_not_show_the_first() -> None:
    assert ACCESS.is_change_token(ACCESS.change_token)
    assert ACCESS.change_token != Access("another", 8080).change_token
    assert ACCESS.token not in ACCESS.change_token and not ACCESS.is_change_token(ACCESS.token)


def test_tokens_are_long_and_drawn_anew() -> None:
    drawn = {new_token() for _ in range(100)}
    assert len(drawn) == 100 and min(map(len, drawn)) >= 32


def test_the_policy_of_content_allows_nothing_inline_and_nothing_from_elsewhere() -> None:
    policy = dict(HEADERS)["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    assert dict(HEADERS)["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("text, path", [("", ""), ("/", ""), ("/kafka/", "/kafka"), ("/a/b-c_d", "/a/b-c_d")])
def test_a_base_path_loses_the_slash_at_its_end(text: str, path: str) -> None:
    assert checked_base_path(text) == path


@pytest.mark.parametrize("text", ["kafka", "//evil.example", "/a b", '/"x', "/a/../b", "/<script>"])
def test_a_base_path_that_could_mean_something_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="base path"):
        checked_base_path(text)
