"""The proposer ``agent``: a model that rewrites kernels, several conversations at once."""

from kernelsmith.proposers.agent.agent import Agent

__all__ = ["Agent"]
