import os
import torch.distributed as dist
import logging
import sys


def make_logger(path):
    logging.basicConfig(level=logging.INFO, filename=path if dist.get_rank() == 0 else os.devnull)
    logger = logging.getLogger("train")
    logger.addHandler(logging.StreamHandler(sys.stdout))
    logger.addHandler(logging.FileHandler(path if dist.get_rank() == 0 else os.devnull, mode="w"))
    return logger
