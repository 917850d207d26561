"""All fuzzed properties, for ``make test`` and ``make proof-fuzz`` alike."""

from tests.fuzz import judge_properties, plan_properties, policy_properties, spool_properties
from tests.fuzz.properties import Property

PROPERTIES: tuple[Property, ...] = (
    *policy_properties.PROPERTIES,
    *plan_properties.PROPERTIES,
    *spool_properties.PROPERTIES,
    *judge_properties.PROPERTIES,
)
