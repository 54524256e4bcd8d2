"""An API is declared once, in the handler file that is named for its key, and is answered for that alone."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

from highwater.apis import APIS
from highwater.net.registry import Api, Role
from tests.tidy.repository import PACKAGE, named, python_files, tree_of

OF_EVERY_LISTENER = PACKAGE / "net" / "api_versions.py"
"""ApiVersions is computed from all the others, and has no part of the node to ask."""


def handler_files() -> list[Path]:
    return sorted(PACKAGE.rglob("k[0-9][0-9]_*.py"))


def module_of(path: Path) -> ModuleType:
    return import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))


def declarations(path: Path) -> int:
    """How many `Api(...)` a file has."""
    calls = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    return sum(isinstance(call.func, ast.Name) and call.func.id == "Api" for call in calls)


def test_every_handler_file_has_one_declaration_and_no_other_file_has_any() -> None:
    allowed = {*handler_files(), OF_EVERY_LISTENER}
    wrong = [path for path in python_files("src/highwater") if declarations(path) != (path in allowed)]
    assert not wrong, ", ".join(map(named, wrong))


def test_every_handler_file_declares_the_key_in_its_name_and_the_request_of_that_key() -> None:
    for path in handler_files():
        found = re.match(r"k(\d\d)_", path.name)
        api: Api = module_of(path).API
        assert found is not None and int(found[1]) == api.key == api.request.API_KEY, named(path)


def test_every_handler_file_is_answered_without_being_named_anywhere() -> None:
    answered = {id(api) for role in Role for api in APIS[role]}
    left_out = [named(path) for path in handler_files() if id(module_of(path).API) not in answered]
    assert not left_out, "no listener answers " + ", ".join(left_out)
    gathering = (PACKAGE / "apis.py").read_text()
    assert not re.search(r"\bk\d\d_", gathering), "src/highwater/apis.py finds the handler files by itself"


def test_forwarded_apis_are_the_controllers_and_are_answered_by_both_listeners() -> None:
    of_brokers, of_controllers = (
        {api.key: (api.versions, api.most_elements, api.most_bytes) for api in APIS[role] if api.forwarded}
        for role in (Role.BROKER, Role.CONTROLLER)
    )
    assert of_brokers == of_controllers
