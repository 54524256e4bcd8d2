"""The login of a client: which SASL mechanism it speaks, and as whom."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from highwater.client.sasl.exchange import Exchange
from highwater.client.sasl.jaas import LoginModule
from highwater.client.sasl.oauthbearer import OAuthBearerExchange
from highwater.client.sasl.plain import PlainExchange
from highwater.client.sasl.scram import HASHES, ScramExchange
from highwater.client.sasl.tokens import UNSECURED, Tokens, unsecured_token

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MODULES: Final = {
    PLAIN: "PlainLoginModule",
    **dict.fromkeys(HASHES, "ScramLoginModule"),
    OAUTHBEARER: "OAuthBearerLoginModule",
}
MECHANISMS: Final = tuple(MODULES)

MECHANISM = "sasl.mechanism"
TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE = "sasl.oauthbearer.scope"
CALLBACK_HANDLER = "sasl.login.callback.handler.class"
JWT_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
OAUTH_SETTINGS: Final = (TOKEN_ENDPOINT, CLIENT_ID, CLIENT_SECRET, SCOPE, CALLBACK_HANDLER, JWT_RETRIEVER)
_CLASSES = {
    CALLBACK_HANDLER: ("OAuthBearerLoginCallbackHandler",),
    JWT_RETRIEVER: ("ClientCredentialsJwtRetriever", "DefaultJwtRetriever", "FileJwtRetriever"),
}
_EXTENSION = "extension_"


@dataclass(frozen=True, slots=True)
class Login:
    mechanism: str
    who: str
    """For errors: the name that logs in."""
    exchange: Callable[[], Exchange] = field(repr=False)
    """A new exchange for each authentication. Raises ClientFailure if it has no token to begin with."""


def check_login(module: LoginModule, settings: Mapping[str, str]) -> None:
    """Whether the parts fit together; secrets may still be references. Raises ValueError."""
    mechanism = settings[MECHANISM]
    if module.name != MODULES[mechanism]:
        raise ValueError(
            f"sasl.mechanism is {mechanism}, which needs {MODULES[mechanism]} in sasl.jaas.config, not {module.name}"
        )
    if mechanism != OAUTHBEARER:
        for name in ("username", "password"):
            if name not in module.options:
                raise ValueError(f"sasl.jaas.config has no {name} for {module.name}")
        _check_options(module, ("username", "password"))
        return
    _check_options(module, ("clientId", "clientSecret", "scope", _EXTENSION, *UNSECURED))
    for setting, classes in _CLASSES.items():
        if setting in settings and settings[setting].rpartition(".")[2] not in classes:
            raise ValueError(f"{setting} can only be {' or '.join(classes)}: there are no Java classes to call")
    if TOKEN_ENDPOINT not in settings:
        if any(name in settings for name in OAUTH_SETTINGS):
            raise ValueError(f"{TOKEN_ENDPOINT} is missing: the place where tokens come from")
        return
    scheme = urlsplit(settings[TOKEN_ENDPOINT]).scheme
    if scheme not in ("http", "https", "file"):
        raise ValueError(f"{TOKEN_ENDPOINT} must begin with https://, http:// or file://")
    if scheme != "file":
        for setting, option in ((CLIENT_ID, "clientId"), (CLIENT_SECRET, "clientSecret")):
            if setting not in settings and option not in module.options:
                raise ValueError(f"{setting} is missing (or {option} in sasl.jaas.config): {TOKEN_ENDPOINT} needs it")


def _check_options(module: LoginModule, known: tuple[str, ...]) -> None:
    """An option is not quoted: with a wrong quote it may be a part of a password."""
    prefixes = tuple(name for name in known if name.endswith("_"))
    for at, name in enumerate(module.options, 1):
        if name not in known and not name.startswith(prefixes or ("\0",)):
            raise ValueError(
                f"sasl.jaas.config: option number {at} of {module.name} is not known; there are {', '.join(known)}"
            )


def login_of(module: LoginModule, settings: Mapping[str, str]) -> Login:
    """All values are as they are to be used. Raises ValueError."""
    mechanism, options = settings[MECHANISM], module.options
    if mechanism == OAUTHBEARER:
        return _oauth_login(options, settings)
    username, password = options["username"], options["password"]

    def exchange() -> Exchange:
        if mechanism == PLAIN:
            return PlainExchange(username, password)
        return ScramExchange(mechanism, username, password)

    exchange()  # what it would refuse is refused before any connection is made
    return Login(mechanism, f"user {username}", exchange)


def _oauth_login(options: Mapping[str, str], settings: Mapping[str, str]) -> Login:
    extensions = {
        name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)
    }
    url = settings.get(TOKEN_ENDPOINT)
    if url is None:
        unsecured_token(options, time.time())  # what it would refuse is refused before any connection is made
        tokens, who = Tokens(lambda: unsecured_token(options, time.time())), "the unsecured token"
    elif urlsplit(url).scheme == "file":
        from highwater.client.sasl.token_endpoint import token_in_file

        path = unquote(urlsplit(url).path)
        tokens, who = Tokens(lambda: token_in_file(path)), f"the token in {path}"
    else:
        from highwater.client.sasl.token_endpoint import fetched_token

        client_id = settings.get(CLIENT_ID) or options["clientId"]
        secret = settings.get(CLIENT_SECRET) or options["clientSecret"]
        scope = settings.get(SCOPE) or options.get("scope")
        tokens, who = Tokens(lambda: fetched_token(url, client_id, secret, scope)), f"the token of client {client_id}"
    return Login(OAUTHBEARER, who, lambda: OAuthBearerExchange(tokens.token(), extensions))
