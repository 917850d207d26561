"""An unmodified transformers model as a sampler and as a trainer run it: stock torch kernels.

Qwen3 with random weights from a config and a fixed seed; nothing is downloaded. Three ways to the
same log-probs, all of them right: *alone*, the KV cache decoding one sequence token by token;
*ragged*, the KV cache decoding several together, padded on the left as ``generate`` does; and
*packed*, one full forward of all sequences in one row, as trainers run it, where position ids that
begin again part the sequences.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelsmith.errors import MissingError

if TYPE_CHECKING:
    from torch import Tensor

    Choose = Callable[[Tensor, int], Tensor]

VOCABULARY = 4096
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "max_position_embeddings": 512,
}
"""The model's config; what is not named is Qwen3's default."""
PROMPTS = (5, 12, 17, 31)
"""Tokens of the prompts, of no common length so that a batch of them is ragged."""
NEW_TOKENS = 16
SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rollout:
    """One sequence: its prompt, what was sampled, and the sampler's log-probs of that (float32).
    Only the same object is equal."""

    name: str
    prompt: "Tensor"
    tokens: "Tensor"
    logprobs: "Tensor"

    @property
    def ids(self) -> "Tensor":
        """Prompt and answer."""
        import torch

        return torch.cat((self.prompt, self.tokens))


def build(dtype: str, attention: str) -> Any:
    """The model in a dtype (``bfloat16``, ``float32``) with one of transformers' attentions.

    Raises:
        MissingError: transformers is not installed.
    """
    try:
        from transformers import Qwen3Config, Qwen3ForCausalLM
    except ImportError as error:
        raise MissingError(
            f"the demonstration needs transformers with Qwen3: {error}",
            hint="pip install 'kernelsmith-rl[audit]'",
        ) from error
    import torch

    torch.manual_seed(SEED)
    config = Qwen3Config(**SHAPE, attn_implementation=attention)
    return Qwen3ForCausalLM(config).to(getattr(torch, dtype)).eval()


def prompts() -> list["Tensor"]:
    """The prompts, of a fixed seed."""
    import torch

    generator = torch.Generator().manual_seed(SEED + 1)
    return [torch.randint(VOCABULARY, (size,), generator=generator) for size in PROMPTS]


def sampling(generator: Any) -> "Choose":
    """Samples the next token of every row at temperature 1."""
    import torch

    def choose(logits: "Tensor", step: int) -> "Tensor":
        return torch.multinomial(torch.softmax(logits, -1), 1, generator=generator)

    return choose


def feeding(rollouts: Sequence[Rollout]) -> "Choose":
    """Feeds what was sampled once already."""
    import torch

    tokens = torch.stack([rollout.tokens for rollout in rollouts])
    return lambda logits, step: tokens[:, step : step + 1]


def decode(
    model: Any, given: Sequence["Tensor"], names: Sequence[str], choose: "Choose"
) -> list[Rollout]:
    """Answers the prompts in one batch with a KV cache, padded on the left. A batch of one has no
    padding and gets no mask: it is decoding alone."""
    import torch

    width = max(len(prompt) for prompt in given)
    mask = torch.stack([_padded(torch.ones_like(prompt), width) for prompt in given])
    fed = torch.stack([_padded(prompt, width) for prompt in given])
    positions, cache = (mask.cumsum(1) - 1).clamp(min=0), _cache(model)
    tokens, logprobs = [], []
    with torch.no_grad():
        for step in range(NEW_TOKENS):
            ragged = {"attention_mask": mask, "position_ids": positions} if len(given) > 1 else {}
            logits = model(input_ids=fed, **ragged, **cache).logits[:, -1].float()
            fed = choose(logits, step)
            tokens.append(fed)
            logprobs.append(of_tokens(logits, fed[:, 0])[:, None])
            positions, mask = positions[:, -1:] + 1, torch.cat((mask, torch.ones_like(fed)), 1)
    return [
        Rollout(name=name, prompt=prompt, tokens=row, logprobs=values)
        for name, prompt, row, values in zip(
            names, given, torch.cat(tokens, 1), torch.cat(logprobs, 1), strict=True
        )
    ]


def packed(model: Any, rollouts: Sequence[Rollout]) -> list["Tensor"]:
    """The trainer's log-probs of each rollout: one forward of all of them in one row. With
    gradients where the caller has them."""
    import torch

    ids = torch.cat([rollout.ids for rollout in rollouts])[None]
    positions = torch.cat([torch.arange(len(rollout.ids)) for rollout in rollouts])[None]
    logits = model(input_ids=ids, position_ids=positions, use_cache=False).logits[0].float()
    found, start = [], 0
    for rollout in rollouts:
        size = len(rollout.ids)
        answer = logits[start + len(rollout.prompt) - 1 : start + size - 1]
        found.append(of_tokens(answer, rollout.tokens))
        start += size
    return found


def of_tokens(logits: "Tensor", tokens: "Tensor") -> "Tensor":
    """Log-softmax in float32 of float32 logits [tokens, vocabulary], at each token."""
    import torch

    return torch.log_softmax(logits, -1).gather(-1, tokens[:, None])[:, 0]


@contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread while this lasts, so that the number of cores decides no bit."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _cache(model: Any) -> dict[str, Any]:
    """A KV cache, by the name by which this version of transformers takes one."""
    from transformers import DynamicCache

    known = inspect.signature(model.forward).parameters
    name = "cache" if "cache" in known else "past_key_values"
    return {name: DynamicCache(config=model.config), "use_cache": True}


def _padded(values: "Tensor", width: int) -> "Tensor":
    import torch

    return torch.cat((values.new_zeros(width - len(values)), values))
