"""What a line of a conversion written by hand is for: the rule whose construct it holds."""

from __future__ import annotations

import re

_CONSTRUCTS: list[tuple[str, str]] = [
    ("SC101", r"init_process_group|destroy_process_group|torchrun|\bWORLD_SIZE\b|\bMASTER_(ADDR|PORT)\b|environ\[.(LOCAL_)?RANK|get_rank\(\)|get_world_size\(\)|\b(local_)?rank\b.*=|is_initialized\(\)"),
    ("SC201", r"DistributedSampler|sampler\s*="),
    ("SC203", r"set_epoch\("),
    ("SC206", r"islice\(.*(rank|world_size)"),
    ("SC207", r"\[\s*rank\s*::\s*world_size\s*\]"),
    ("SC209", r"manual_seed\(.*rank|seed\(.*rank"),
    ("SC210", r"download\s*=.*rank"),
    ("SC212", r"sorted\("),
    ("SC301", r"DistributedDataParallel|\bDDP\("),
    ("SC303", r"\.grad\b.*(reduce|world_size)|average_gradients"),
    ("SC307", r"no_sync\(|nullcontext"),
    ("SC308", r"convert_sync_batchnorm|SyncBatchNorm"),
    ("SC311", r"nn\.DataParallel"),
    ("SC315", r"loss.*\*\s*world_size"),
    ("SC401", r"set_device|local_rank|LOCAL_RANK|torch\.device\(|device_ids|\.cuda\(|\.to\(device"),
    ("SC501", r"range\(rank,\s*len\("),
    ("SC504", r"all_reduce|all_gather|ReduceOp|\breduce\("),
    ("SC602", r"tqdm.*disable|disable\s*="),
    ("SC601", r"if\s+.*\brank\b\s*(==|!=)\s*0|if\s.*\b\w*(main|master|primary)\w*|rank_zero|get_rank\(\)\s*==\s*0"),
    ("SC605", r"exist_ok\s*="),
    ("SC611", r"\.module\b|torch\.save"),
    ("SC612", r"map_location|barrier\(\)"),
    ("SC701", r"fully_shard|init_device_mesh|MixedPrecisionPolicy"),
    ("SC702", r"get_model_state_dict|get_optimizer_state_dict|StateDictOptions|full_tensor"),
    ("SC703", r"set_model_state_dict|set_optimizer_state_dict"),
    ("SC802", r"\blr\b.*world_size|learning_rate.*world_size"),
    ("SC801", r"batch_size\s*//\s*(dist\.get_)?world_size"),
]  # fmt: skip
_COMPILED = [(rule, re.compile(pattern)) for rule, pattern in _CONSTRUCTS]
_SETTING = re.compile(
    r"\b(lr|learning_rate|weight_decay|momentum|betas?|eps|batch_size|epochs?|num_epochs|dropout|warmup\w*|gamma|step_size|max_iters|steps|clip\w*|max_norm|seed|temperature|label_smoothing|hidden\w*|num_layers)\b['\"]?\s*[=:,)]"
    r"|(Loss|cross_entropy|mse_loss|nll_loss|criterion|backward)\b|optim\.\w+\(|lr_scheduler|LR\(",
)


def rules_of(line: str) -> tuple[str, ...]:
    """Rules whose construct a line has, the likeliest first."""
    return tuple(rule for rule, pattern in _COMPILED if pattern.search(line))


def is_setting(line: str) -> bool:
    """Whether a line sets what training depends on: a rate, a size, a loss, an optimizer."""
    return bool(_SETTING.search(line))
