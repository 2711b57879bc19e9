"""The accounting of the ZeRO paper, and the decisions that follow from it on known GPUs."""

from __future__ import annotations

import pytest

from scaffold.errors import ScaffoldError
from scaffold.strategy.catalogue import find_gpu, gpus
from scaffold.strategy.choose import Setup, choose
from scaffold.strategy.memory import Model, estimate
from scaffold.strategy.regime import Regime
from scaffold.strategy.sizes import GB, GIB, parse_bytes, parse_count, show_bytes

MIXED_ADAM = Regime("adamw", "mixed")


@pytest.mark.parametrize(
    ("billions", "ddp", "on_8", "on_16"),
    [(1, 16, 2, 1), (8, 128, 16, 8), (70, 1120, 140, 70)],
)
def test_model_state_per_gpu(billions: int, ddp: int, on_8: int, on_16: int) -> None:
    model = Model(billions * 10**9)
    assert estimate(model, MIXED_ADAM, "ddp", 8).state == ddp * GB
    assert estimate(model, MIXED_ADAM, "fsdp2", 8).state == on_8 * GB
    assert estimate(model, MIXED_ADAM, "fsdp2", 16).state == on_16 * GB


@pytest.mark.parametrize(
    ("params", "gpu", "count", "nodes", "strategy"),
    [
        ("1B", "H100", 8, 1, "ddp"),
        ("8B", "H100", 8, 1, "fsdp2"),
        ("70B", "H100", 8, 1, "none"),
        ("70B", "H100", 16, 2, "none"),
        ("70B", "B200", 8, 1, "fsdp2"),
        ("8B", "H100", 1, 1, "none"),
    ],
)
def test_decisions(params: str, gpu: str, count: int, nodes: int, strategy: str) -> None:
    assert choose(Model(parse_count(params)), MIXED_ADAM, Setup(find_gpu(gpu), count, nodes)).strategy == strategy


def test_what_to_do_instead() -> None:
    """70B on 16 H100s is tight: LoRA first, then one larger machine, then more machines."""
    choice = choose(Model(70 * 10**9), MIXED_ADAM, Setup(find_gpu("H100"), 16, 2))
    assert choice.tight
    assert choice.lora is not None and choice.lora.fits(find_gpu("H100").memory)
    assert [str(setup) for setup, _ in choice.instead] == ["8 x B200", "3 machines of 8 x H100"]


@pytest.mark.parametrize(
    ("optimizer", "precision", "bytes_each"),
    [
        ("adamw", "fp32", 16), ("adamw", "autocast", 16), ("adamw", "bf16", 8), ("sgd", "fp32", 8), ("momentum", "fp32", 12),
        ("adamw8bit", "mixed", 10), ("lion", "fp32", 12), ("amsgrad", "fp32", 20),
    ],
)  # fmt: skip
def test_bytes_per_parameter(optimizer: str, precision: str, bytes_each: float) -> None:
    assert Regime(optimizer, precision).per_parameter == bytes_each


def test_frozen_parameters_have_no_gradients() -> None:
    assert estimate(Model(1000, trainable=100), Regime("adamw", "fp32"), "ddp", 1).state == 1000 * 4 + 100 * 12


def test_peaks_are_not_added() -> None:
    """Activations go while gradients come: the peak is the largest sum at one instant."""
    model = Model(1000, activations=((9000, 0), (8000, 2000), (100, 4000)))
    parts = {p.name: p.bytes for p in estimate(model, Regime("sgd", "fp32"), "ddp", 1).parts}
    assert parts["gradients"] + parts["activations"] == 10_000
    kept = {p.name: p.bytes for p in estimate(model, Regime("sgd", "fp32", keeps="forward"), "ddp", 1).parts}
    assert kept["gradients"] + kept["activations"] == 13_000


def test_gb_and_gib() -> None:
    assert parse_bytes("24GiB") == 24 * GIB and parse_bytes("80GB") == 80 * GB
    assert show_bytes(16 * GB) == "16.0 GB" and parse_count("1.3e9") == 1_300_000_000
    with pytest.raises(ScaffoldError, match="24GiB"):
        parse_bytes("24G")


@pytest.mark.parametrize(("name", "found"), [("h100", "H100"), ("NVIDIA L4", "L4"), ("a100-80gb", "A100-80GB"), ("RTX 4090", "RTX4090")])
def test_gpu_names(name: str, found: str) -> None:
    assert find_gpu(name).name == found


def test_unknown_gpus() -> None:
    with pytest.raises(ScaffoldError, match="A100-40GB, A100-80GB"):
        find_gpu("A100")
    with pytest.raises(ScaffoldError, match="--gpu-memory 24GiB"):
        find_gpu("K80")
    assert all(gpu.memory > 10 * GIB and gpu.source.startswith("https://") for gpu in gpus().values())
