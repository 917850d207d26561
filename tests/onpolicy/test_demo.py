"""The demonstration's parts: its three ways are the same computation, and a planted difference is
traced to where it was planted. The whole of it runs with the guide (tests/docs)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelsmith.errors import InputError, MissingError
from kernelsmith.onpolicy import demo, demo_model
from kernelsmith.onpolicy.demo_origin import kept, origin, parting

pytest.importorskip("transformers", reason="the extra [audit] is not installed")


@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    with demo_model.one_thread():
        yield demo_model.build("float32", "eager")


@pytest.fixture(scope="module")
def batch(model: Any) -> list[demo_model.Rollout]:
    given = demo_model.prompts()[:2]
    choose = demo_model.sampling(torch.Generator().manual_seed(5))
    return demo_model.decode(model, given, ["a", "b"], choose)


def packed(model: Any, rollouts: Any) -> list[torch.Tensor]:
    with torch.no_grad():
        return demo_model.packed(model, rollouts)


def test_the_three_ways_compute_the_same_thing(model: Any, batch: Any) -> None:
    trainer = packed(model, batch)
    for rollout, values in zip(batch, trainer, strict=True):
        (alone,) = demo_model.decode(model, [rollout.prompt], ["c"], demo_model.feeding([rollout]))
        assert torch.equal(alone.tokens, rollout.tokens)
        for other in (alone.logprobs, rollout.logprobs, packed(model, [rollout])[0]):
            assert (values - other).abs().max() < 1e-5  # a wrong position or mask is off by 0.1
        assert values.max() < -1


def test_sequences_of_a_pack_do_not_see_each_other(model: Any, batch: Any) -> None:
    other = demo_model.Rollout(
        name="x",
        prompt=batch[0].prompt.flip(0),
        tokens=batch[0].tokens.flip(0),
        logprobs=batch[0].logprobs,
    )
    before, after = (packed(model, [one, batch[1]]) for one in (batch[0], other))
    assert torch.equal(before[1], after[1])
    assert not torch.equal(before[0], after[0])


@pytest.mark.parametrize(
    ("module", "what"),
    [
        ("model.layers.1.mlp.up_proj", "matrix product"),
        ("model.layers.0.input_layernorm", "RMSNorm"),
        ("lm_head", "matrix product"),
    ],
)
def test_a_planted_difference_is_traced_to_its_module(
    model: Any, batch: Any, module: str, what: str
) -> None:
    """The same forward twice has the same bits everywhere; then one module says one ulp more."""

    def outputs() -> dict[str, torch.Tensor]:
        with kept(model) as found:
            packed(model, batch[:1])
        return {name: pieces[0][0] for name, pieces in found.items()}

    def nudge(_: Any, given: Any, found: torch.Tensor) -> torch.Tensor:
        return torch.nextafter(found, torch.full_like(found, torch.inf))

    clean = outputs()
    assert parting(clean, outputs()) is None
    hook = model.get_submodule(module).register_forward_hook(nudge)
    try:
        found = parting(outputs(), clean)
    finally:
        hook.remove()
    assert found is not None
    assert (found.module, found.what, found.first) == (module, what, 0)
    assert found.positions == found.of == len(batch[0].ids)
    assert found.equal_before == list(clean).index(module)


def test_attention_itself_stands_between_the_projections_and_the_next(
    model: Any, batch: Any
) -> None:
    with kept(model) as found:
        packed(model, batch)
    names = list(found)
    layer = "model.layers.0.self_attn"
    attention = names.index(f"{layer}.attention")
    assert names[attention + 1] == f"{layer}.o_proj"
    assert {f"{layer}.{one}" for one in ("q_proj", "k_norm", "v_proj")} <= set(names[:attention])


def test_a_decoded_sequence_lies_beside_its_place_in_the_pack(model: Any, batch: Any) -> None:
    """What ``origin`` compares: the ragged batch's padded rows beside a pack, token by token. A
    module that says of each token which it is tells whether they lie right."""

    def name(_: Any, given: Any, found: torch.Tensor) -> torch.Tensor:
        return found * 0 + given[0][..., None]

    hook = model.model.embed_tokens.register_forward_hook(name)
    try:
        for row in range(2):
            found = origin(model, batch, row, batch)
            assert found is None or found.module != "model.embed_tokens"
    finally:
        hook.remove()


def test_dumps_that_are_there_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "trainer.jsonl").write_text("mine")
    with pytest.raises(InputError, match=r"trainer\.jsonl is there"):
        demo.run(tmp_path)
    with pytest.raises(InputError, match="cannot be made"):
        demo.run(tmp_path / "trainer.jsonl" / "x")


def test_without_transformers_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(MissingError, match="needs transformers") as caught:
        demo_model.build("float32", "eager")
    assert caught.value.hint == "pip install 'kernelsmith-rl[audit]'"
