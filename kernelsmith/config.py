"""Settings: the only reader of the environment and of ``kernelsmith.toml``.

An option on the command line wins over the environment, which wins over the file in the current
folder. The file may hold ``db``, ``tasks`` (a list of folders), ``device``, ``sandbox``,
``proposer``, ``time_limit`` and the tables ``agent`` (the fields of ``model.AgentSettings``) and
``operations`` (those of :class:`Operations`); any other key is an error.
"""

import os
import re
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kernelsmith.errors import InputError, MissingError
from kernelsmith.model import AgentSettings, Price, Rates

FILE_NAME = "kernelsmith.toml"
DEFAULT_TIME_LIMIT = "8h"
DEFAULT_MODEL = "claude-opus-5-5"
DEFAULT_BASE_URL = "https://api.anthropic.com"
DEFAULT_IMAGE = "kernelsmith-worker"
GIT_TIMEOUT_S = 5.0
WEBHOOK_VARIABLE = "KERNELSMITH_SUMMARY_WEBHOOK"
LOG_LEVELS = ("debug", "info", "warning", "error")
SHORTEST_SECRET = 8
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|WEBHOOK", re.IGNORECASE)
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What holds unless an option says otherwise."""

    db: Path = Path("runs.db")
    tasks: tuple[Path, ...] = ()
    device: str = "auto"
    sandbox: str = "auto"
    proposer: str = "search"
    time_limit: str = DEFAULT_TIME_LIMIT
    agent: Mapping[str, Any] = field(default_factory=dict)
    operations: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """What a run tells to the outside while it goes on and at its end. ``summary_webhook`` is a
    secret: whoever has it may write where it leads. ``secrets``: what stays out of every log."""

    log: Path | None = None
    log_level: str = "info"
    metrics_port: int | None = None
    metrics_address: str = "127.0.0.1"
    metrics_to: Path | None = None
    summary_to: Path | None = None
    summary_webhook: str = field(default="", repr=False)
    summary_command: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server that speaks the Messages API. The key is in no record and no message."""

    base_url: str
    api_key: str = field(repr=False)


def load(folder: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Reads ``kernelsmith.toml`` of ``folder`` (default: here), then ``KERNELSMITH_DB``.

    Raises:
        InputError: the file is not TOML, or holds a key or a type that is not known.
    """
    path = (folder or Path.cwd()) / FILE_NAME
    known = _read(path) if path.is_file() else {}
    db = (os.environ if environment is None else environment).get("KERNELSMITH_DB")
    if db:
        known["db"] = Path(db)
    return Settings(**known)


def endpoint(environment: Mapping[str, str] | None = None) -> Endpoint:
    """The model server: ``ANTHROPIC_BASE_URL`` and ``ANTHROPIC_API_KEY`` (else
    ``ANTHROPIC_AUTH_TOKEN``). A server of one's own may need no key.

    Raises:
        InputError: the address is none.
        MissingError: no key for Anthropic's own server.
    """
    variables = os.environ if environment is None else environment
    key = variables.get("ANTHROPIC_API_KEY") or variables.get("ANTHROPIC_AUTH_TOKEN") or ""
    base_url = variables.get("ANTHROPIC_BASE_URL") or DEFAULT_BASE_URL
    base_url = server_address(base_url)
    if not key and base_url == DEFAULT_BASE_URL:
        raise MissingError(
            "the agent needs a key: ANTHROPIC_API_KEY is not set",
            hint="set it, or point ANTHROPIC_BASE_URL at a server of your own; "
            "`kernelsmith rehearse` needs neither",
        )
    return Endpoint(base_url=base_url, api_key=key or "none")


def server_address(url: str) -> str:
    """The address of a model server, without a slash at its end.

    Raises:
        InputError: no http or https address, or one that carries a credential or a query.
    """
    hint = "name it as https://HOST or http://HOST:PORT"
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise InputError(f"the model server's address is {url!r}: {error}", hint=hint) from error
    if "@" in parts.netloc:
        raise InputError(
            "the model server's address carries a credential",
            hint="the client sends its own; " + hint,
        )
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InputError(f"the model server's address is {url!r}", hint=hint)
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise InputError(f"the model server's address is {url!r}", hint=hint)
    return url.rstrip("/")


def agent_settings(table: Mapping[str, Any], **options: Any) -> AgentSettings:
    """The agent's settings: ``options`` that are not None, else the file's table, else defaults;
    prices of the table on top of the shipped ones.

    Raises:
        InputError: an unknown key, a wrong type, a limit that is not positive, or a dollar budget
            for a model without a price.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(given.get("budget_usd"), str) and given["budget_usd"] != "none":
        given["budget_usd"] = dollars(given["budget_usd"])
    if "rehearsal" in table:
        raise InputError("unknown key agent.rehearsal", hint="`kernelsmith rehearse` is a command")
    found = settings_of({"model": DEFAULT_MODEL, **table, **given}, prices=shipped_prices())
    for name in ("max_tokens", "concurrency", "sessions_max", "turns_max", "stale_submissions"):
        value = getattr(found, name)
        if value is not None and value < 1:
            raise InputError(f"agent.{name} is {value}; at least 1 is needed")
    for name in ("budget_usd", "budget_tokens"):
        value = getattr(found, name)
        if value is not None and value <= 0:
            raise InputError(f"{name.replace('_', ' ')} is {value}", hint="name more than 0")
    if found.budget_usd is not None and found.price is None:
        raise InputError(
            f"no price is known for model {found.model!r}, so no dollar budget can be kept",
            hint=f'give [agent.prices."{found.model}"] in {FILE_NAME}, or --budget-usd none '
            "with --budget-tokens N",
        )
    return found


def settings_of(table: Mapping[str, Any], prices: Mapping[str, Price]) -> AgentSettings:
    """Settings from a table of the file or of a run's record; ``prices`` where it has none.

    Raises:
        InputError: an unknown key or a wrong type.
    """
    from pydantic import TypeAdapter, ValidationError

    _refuse_unknown("agent", table, [each.name for each in fields(AgentSettings)])
    prices_of_table = table.get("prices", {})
    if not isinstance(prices_of_table, Mapping):
        raise InputError(
            f"agent.prices = {prices_of_table!r}", hint='a table [agent.prices."MODEL"]'
        )
    own = {model: _price(model, rates) for model, rates in prices_of_table.items()}
    # "none" is how a file or an option says that dollars are not limited: TOML has no null.
    plain = {k: None if v == "none" else v for k, v in table.items() if k != "prices"}
    try:
        checked = TypeAdapter(AgentSettings).validate_python({**plain, "prices": {**prices, **own}})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"agent.{where} = {first['input']!r}: {first['msg']}") from error
    return checked


def shipped_prices() -> dict[str, Price]:
    """Prices by model, from ``prices.toml``: list prices of the day it names."""
    text = Path(__file__).with_name("prices.toml").read_text(encoding="utf-8")
    return {model: _price(model, rates) for model, rates in tomllib.loads(text).items()}


def operations(
    table: Mapping[str, Any], environment: Mapping[str, str] | None = None, **options: Any
) -> Operations:
    """What a run tells: ``options`` that are not None, else ``KERNELSMITH_SUMMARY_WEBHOOK`` of the
    environment, else the file's table.

    Raises:
        InputError: an unknown key, a wrong type, level or address.
    """
    from pydantic import TypeAdapter, ValidationError

    variables = os.environ if environment is None else environment
    known = [each.name for each in fields(Operations) if each.name != "secrets"]
    _refuse_unknown("operations", table, known)
    given = {name: value for name, value in options.items() if value is not None}
    if (webhook := variables.get(WEBHOOK_VARIABLE)) and "summary_webhook" not in given:
        given["summary_webhook"] = webhook
    try:
        found = TypeAdapter(Operations).validate_python({**table, **given})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InputError(f"operations.{name}: {first['msg']}") from None  # the value may be secret
    if found.log_level not in LOG_LEVELS:
        raise InputError(f"no log level {found.log_level!r}", hint=", ".join(LOG_LEVELS))
    if found.metrics_port is not None and not 0 <= found.metrics_port <= 65535:
        raise InputError(f"no port {found.metrics_port}", hint="0 takes any free one")
    webhook = found.summary_webhook
    if webhook and not _is_web_address(webhook):
        raise InputError("the webhook's address is no http or https URL", hint="https://HOST/PATH")
    return replace(found, secrets=_secrets(variables, webhook))


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is no number
        return False


def _refuse_unknown(name: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raises InputError if a table of the file has another key."""
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise InputError(f"unknown key {name}.{unknown[0]}", hint=f"known: {', '.join(known)}")


def _secrets(environment: Mapping[str, str], webhook: str) -> tuple[str, ...]:
    """Values of variables that hold a secret by their names, and the webhook whole and without
    its server; the longest first, so that none is cut in two by a shorter one."""
    found = {value for name, value in environment.items() if _SECRET_NAME.search(name)}
    if webhook:
        found |= {webhook, webhook.partition("://")[2].partition("/")[2]}
    long_enough = (each for each in found if len(each) >= SHORTEST_SECRET)
    return tuple(sorted(long_enough, key=lambda each: (-len(each), each)))


def gpu_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that say which GPUs a process sees, and in which order: a worker must mean the
    same one as the host."""
    source = os.environ if environment is None else environment
    names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
    return {name: source[name] for name in names if name in source}


def docker_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that say where the Docker engine is and how it is reached."""
    source = os.environ if environment is None else environment
    names = ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")
    return {name: source[name] for name in names if source.get(name)}


def docker_image(environment: Mapping[str, str] | None = None) -> str:
    """The image that workers run in: ``KERNELSMITH_IMAGE``, else the one that ``doctor
    --build-image`` makes."""
    source = os.environ if environment is None else environment
    return source.get("KERNELSMITH_IMAGE") or DEFAULT_IMAGE


def user_name(environment: Mapping[str, str] | None = None) -> str:
    """Who decides, unless an option says otherwise: git's ``user.name`` as it is here, else
    ``USER``; "" where neither is set."""
    variables = os.environ if environment is None else environment
    try:
        asked = subprocess.run(
            ["git", "config", "user.name"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_TIMEOUT_S,
            check=False,
            env=dict(variables),
        )
        name = asked.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        name = ""
    return name or variables.get("USER", "").strip()


def wants_traceback() -> bool:
    """Whether ``KERNELSMITH_TRACEBACK`` asks to see where an unforeseen error came from."""
    return bool(os.environ.get("KERNELSMITH_TRACEBACK"))


def seconds(text: str) -> float:
    """A duration in seconds: ``90``, ``90s``, ``5m``, ``8h``, ``1h30m``.

    Raises:
        InputError: anything else, or nothing positive.
    """
    word = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", word):
        total = float(word)
    elif re.fullmatch(r"(\d+(\.\d+)?[smhd])+", word):
        parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", word)
        total = sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    else:
        raise InputError(f"{text!r} is not a duration", hint="write 90s, 5m, 8h or 1h30m")
    if total <= 0:
        raise InputError(f"{text!r} leaves no time", hint="write 90s, 5m, 8h or 1h30m")
    return total


def dollars(text: str) -> Decimal:
    """An amount of US dollars: ``5``, ``$5``, ``2.50``.

    Raises:
        InputError: anything else, or nothing positive.
    """
    try:
        amount = Decimal(text.strip().removeprefix("$"))
    except InvalidOperation as error:
        raise InputError(f"{text!r} is no amount of dollars", hint="write 5 or 2.50") from error
    if not amount.is_finite() or amount <= 0:
        raise InputError(f"{text!r} leaves nothing to spend", hint="write 5 or 2.50")
    return amount


def _read(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: {error}", hint="mend the file or remove it") from error
    kinds: dict[str, type] = {"tasks": list, "agent": dict, "operations": dict}
    names = Settings.__dataclass_fields__
    for key, value in found.items():
        if key not in names:
            hint = f"known keys: {', '.join(names)}"
            raise InputError(f"{path}: unknown key {key!r}", hint=hint)
        if not isinstance(value, kinds.get(key, str)):
            raise InputError(f"{path}: {key} = {value!r} has the wrong type")

    def place(text: object) -> Path:
        try:
            return path.parent / Path(str(text)).expanduser()
        except RuntimeError as error:
            raise InputError(f"{path}: {text!r}: {error}", hint="name a folder that is") from error

    if "db" in found:
        found["db"] = place(found["db"])
    if "tasks" in found:
        found["tasks"] = tuple(map(place, found["tasks"]))
    table = found.get("operations", {})
    for name in ("log", "metrics_to", "summary_to"):
        if isinstance(table.get(name), str):
            table[name] = place(table[name])
    return found


def _price(model: str, table: Any) -> Price:
    """A price from a flat table (rates, ``long_above``, ``long``) or from its recorded form."""
    from pydantic import TypeAdapter, ValidationError

    hint = "US dollars for a million tokens, e.g. input = 4"
    if not isinstance(table, Mapping):
        raise InputError(f'agent.prices."{model}" = {table!r}: it must be a table', hint=hint)
    names = {each.name for each in fields(Rates)}
    if "rates" in table:
        shaped: dict[str, Any] = dict(table)
    else:
        unknown = sorted(set(table) - names - {"long_above", "long"})
        if unknown:
            raise InputError(
                f'unknown key {unknown[0]!r} in agent.prices."{model}"',
                hint=f"known: {', '.join(sorted(names))}, long_above, long",
            )
        shaped = {"rates": {name: table[name] for name in names & set(table)}}
        shaped |= {name: table[name] for name in ("long_above", "long") if name in table}
    try:
        price = TypeAdapter(Price).validate_python(shaped)
    except ValidationError as error:
        first = error.errors()[0]
        where = str(first["loc"][-1])
        raise InputError(f'agent.prices."{model}": {where}: {first["msg"]}', hint=hint) from error
    for rates in (price.rates, price.long):
        below = [name for name in sorted(names) if rates is not None and getattr(rates, name) < 0]
        if below:
            raise InputError(f'agent.prices."{model}": {below[0]} is below 0', hint=hint)
    return price
