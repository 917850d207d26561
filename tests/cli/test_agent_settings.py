"""The agent's settings: defaults, file, options, prices, and the server with its key."""

import typing
from decimal import Decimal
from pathlib import Path

import pytest
from anthropic._data.deprecated_models import DEPRECATED_MODELS
from anthropic.types.model import Model

from kernelsmith import config
from kernelsmith.errors import InputError, MissingError
from kernelsmith.lineage import records
from kernelsmith.model import Rates, Usage, cost_usd

RATE_NAMES = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")


def test_the_default_model_is_current_in_the_client_and_has_a_price() -> None:
    known = {name for part in typing.get_args(Model) for name in typing.get_args(part)}
    assert config.DEFAULT_MODEL in known
    assert config.DEFAULT_MODEL not in DEPRECATED_MODELS
    found = config.agent_settings({})
    assert (found.model, found.budget_usd) == (config.DEFAULT_MODEL, Decimal(5))
    assert found.price is not None


def test_options_win_over_the_file_which_wins_over_defaults(tmp_path: Path) -> None:
    (tmp_path / "kernelsmith.toml").write_text(
        '[agent]\nmodel = "mine"\nbudget_usd = 2.5\nconcurrency = 3\n'
        '[agent.prices."mine"]\ninput = "1"\noutput = "2"\n'
        'cache_read = "0.1"\ncache_write_5m = "1"\ncache_write_1h = "1"\n'
    )
    table = config.load(tmp_path, {}).agent
    found = config.agent_settings(table, concurrency=7, model=None)
    assert (found.model, found.budget_usd, found.concurrency) == ("mine", Decimal("2.5"), 7)
    assert found.price is not None
    assert found.price.rates.output == Decimal(2)


def test_settings_come_back_from_the_record_as_they_were() -> None:
    before = config.agent_settings({"effort": "high"}, budget_usd="2.50")
    assert config.settings_of(records.plain(before), {}) == before


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"modle": "x"}, "unknown key agent.modle"),
        ({"concurrency": "two"}, "agent.concurrency = 'two'"),
        ({"concurrency": 0}, "agent.concurrency is 0"),
        ({"budget_usd": 0}, "budget usd is 0"),
        ({"model": "mine"}, "no price is known for model 'mine'"),
        ({"prices": {"mine": {"input": "x"}}}, 'agent.prices."mine"'),
        ({"prices": {"mine": {"inptu": "1"}}}, "unknown key 'inptu'"),
        ({"prices": 5}, "agent.prices = 5"),
        ({"prices": {"mine": 5}}, 'agent.prices."mine" = 5'),
        ({"prices": {"mine": dict.fromkeys(RATE_NAMES, -1)}}, "cache_read is below 0"),
        ({"rehearsal": True}, "unknown key agent.rehearsal"),
    ],
)
def test_a_wrong_setting_is_named(table: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says.replace('"', '"')):
        config.agent_settings(table)


def test_a_model_without_a_price_runs_where_dollars_are_not_limited() -> None:
    found = config.agent_settings({"model": "mine", "budget_usd": "none"}, budget_tokens=1000)
    assert (found.price, found.budget_usd, found.budget_tokens) == (None, None, 1000)


def test_the_key_is_needed_for_anthropic_and_never_shown() -> None:
    with pytest.raises(MissingError, match="ANTHROPIC_API_KEY is not set"):
        config.endpoint({})
    found = config.endpoint({"ANTHROPIC_API_KEY": "sk-secret"})
    assert "sk-secret" not in repr(found)
    own = config.endpoint({"ANTHROPIC_BASE_URL": "http://127.0.0.1:8000/v/"})
    assert own.base_url == "http://127.0.0.1:8000/v"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://host", "address is 'ftp://host'"),
        ("http://", "address is 'http://'"),
        ("http://host:99999", "Port out of range"),
        ("http://host?key=1", "address is"),
        ("http://me:hunter2@host", "carries a credential"),
    ],
)
def test_a_wrong_address_is_named_before_anything_is_built(url: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        config.endpoint({"ANTHROPIC_BASE_URL": url})
    assert says in caught.value.message
    assert "hunter2" not in caught.value.message


def test_a_call_is_priced_to_the_last_digit_and_long_prompts_pay_the_long_rates() -> None:
    price = config.shipped_prices()["claude-haiku-5-5"]
    short = Usage(input=1, output=1, cache_read=1, cache_write_5m=1, cache_write_1h=1)
    assert cost_usd(short, price) == Decimal("0.000000935")
    long = Usage(input=90_000, cache_read=10_001, output=10)
    assert cost_usd(long, price) == Decimal("0.04552505")


def test_every_shipped_price_is_complete_and_its_cache_reads_cost_least() -> None:
    for model, price in config.shipped_prices().items():
        assert isinstance(price.rates, Rates), model
        rates = price.rates
        assert 0 < rates.cache_read < rates.input < rates.cache_write_5m < rates.cache_write_1h
        assert rates.input < rates.output
