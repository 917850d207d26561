"""The proposer ``search``: rewrites that are known to pay, then seeded exploration."""

from kernelsmith.proposers.search.identity import normalised_hash
from kernelsmith.proposers.search.search import Search

__all__ = ["Search", "normalised_hash"]
