import logging
import sys


def make_logger(path):
    logging.basicConfig(level=logging.INFO, filename=path)
    logger = logging.getLogger("train")
    logger.addHandler(logging.StreamHandler(sys.stdout))
    logger.addHandler(logging.FileHandler(path, mode="w"))
    return logger
