"""The proposer ``agent``: a language model that rewrites kernels through a few tools."""
