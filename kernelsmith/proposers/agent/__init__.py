"""The proposer ``agent``: a language model that rewrites kernels through a few tools."""

from kernelsmith.proposers.agent.agent import Agent
from kernelsmith.proposers.agent.budget import Budget
from kernelsmith.proposers.agent.guards import CountingJournal

__all__ = ["Agent", "Budget", "CountingJournal"]
