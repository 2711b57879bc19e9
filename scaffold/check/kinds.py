"""What the checks know of PyTorch: which call makes what."""

from __future__ import annotations

import re

RANK, LOCAL_RANK, WORLD, MAIN, OTHERS, RANKED = "rank", "local rank", "world size", "rank 0", "other ranks", "differs by rank"
DDP, FSDP, INNER, LOADER, SAMPLER, OPTIMIZER, PLATEAU, MADE, INSTANCE = "ddp", "fsdp", "inner", "loader", "sampler", "optimizer", "plateau", "made", "instance"

ENVIRONMENT = {
    "RANK": RANK, "SLURM_PROCID": RANK, "OMPI_COMM_WORLD_RANK": RANK, "PMI_RANK": RANK,
    "LOCAL_RANK": LOCAL_RANK, "SLURM_LOCALID": LOCAL_RANK, "OMPI_COMM_WORLD_LOCAL_RANK": LOCAL_RANK,
    "WORLD_SIZE": WORLD, "SLURM_NTASKS": WORLD, "OMPI_COMM_WORLD_SIZE": WORLD,
}  # fmt: skip

CALLS = {
    "get_rank": RANK, "get_global_rank": RANK, "get_local_rank": LOCAL_RANK, "get_node_local_rank": LOCAL_RANK, "get_world_size": WORLD,
    "DistributedDataParallel": DDP, "FullyShardedDataParallel": FSDP, "fully_shard": FSDP,
    "DataLoader": LOADER, "StatefulDataLoader": LOADER, "DistributedSampler": SAMPLER, "ReduceLROnPlateau": PLATEAU,
}  # fmt: skip

OPTIMIZERS = {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax", "LBFGS", "Adafactor", "Muon", "ZeroRedundancyOptimizer"}

SAME = {"to", "cuda", "cpu", "train", "eval", "float", "double", "half", "bfloat16", "requires_grad_", "compile", "apply", "share_memory", "xpu", "npu"}
"""Methods that give back what they were called on."""

THROUGH = {
    "int", "str", "abs", "iter", "enumerate", "tqdm", "trange", "zip", "compile", "convert_sync_batchnorm", "cycle", "islice", "list", "tuple", "track", "rich_tqdm", "bool", "deepcopy",
}  # fmt: skip
"""Functions whose result stands for their first argument."""

RANK_NAME = re.compile(r"^(global_?|dist_?|ddp_?|my_?|proc(ess)?_?|world_?)?rank$|^ddp_rank$|^process_index$")
LOCAL_NAME = re.compile(r"^(ddp_)?local_?(rank|process_index)$")
WORLD_NAME = re.compile(r"^(ddp_)?world_?size$|^num_?replicas$|^n_?ranks$|^num_processes$")
MAIN_NAME = re.compile(r"^(is_?)?(main|master|primary)_?(process|rank|worker|proc|node)$|^is_?(local_|global_)?(main|master|primary|rank_?(zero|0))\w*$|^(is_)?rank_?(zero|0)$", re.I)

REDUCES = {
    "all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "gather", "gather_object", "reduce", "reduce_scatter", "reduce_scatter_tensor",
    "broadcast", "broadcast_object_list", "scatter_object_list", "all_to_all", "full_tensor",
}  # fmt: skip
"""Collectives whose result ranks share."""

COLLECTIVES = REDUCES | {"barrier", "monitored_barrier", "scatter"}

REDUCING_NAME = re.compile(r"reduce|gather|sync|broadcast|average_across|aggregate|dist_mean|dist_avg|dist_sum|all_mean|all_avg|agree", re.I)
"""Names of functions out of sight that are taken to share a value among ranks."""

PLACING = {"device", "map_location", "device_ids", "output_device", "device_id", "disable", "position", "file"}
"""Parameters that say where a value lies, or who speaks: what comes out is the same on all ranks."""
