"""What the torch API means, as tables: qualified name → role. Nothing here is code about one script.

Names follow the public documentation (https://docs.pytorch.org/docs/stable/).
"""

from __future__ import annotations

ALIASES = {
    "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
    "torch.utils.data.dataset.random_split": "torch.utils.data.random_split",
    "torch.utils.data.dataset.Dataset": "torch.utils.data.Dataset",
    "torch.utils.data.dataset.IterableDataset": "torch.utils.data.IterableDataset",
    "torch.utils.data.dataset.TensorDataset": "torch.utils.data.TensorDataset",
    "torch.utils.data.dataset.Subset": "torch.utils.data.Subset",
    "torch.utils.data.sampler.WeightedRandomSampler": "torch.utils.data.WeightedRandomSampler",
    "torch.utils.data.sampler.SubsetRandomSampler": "torch.utils.data.SubsetRandomSampler",
    "torch.utils.data.sampler.RandomSampler": "torch.utils.data.RandomSampler",
    "torch.utils.data.sampler.SequentialSampler": "torch.utils.data.SequentialSampler",
    "torch.utils.data.sampler.Sampler": "torch.utils.data.Sampler",
    "torch.utils.data.sampler.BatchSampler": "torch.utils.data.BatchSampler",
    "torch.cuda.amp.GradScaler": "torch.amp.GradScaler",
    "torch.nn.modules.module.Module": "torch.nn.Module",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel": "torch.nn.DataParallel",
    "torch.tensorboard.SummaryWriter": "torch.utils.tensorboard.SummaryWriter",
    "tqdm.tqdm_notebook": "tqdm.tqdm",
    "tqdm.std.tqdm": "tqdm.tqdm",
    "tqdm.auto.tqdm": "tqdm.tqdm",
    "tqdm.notebook.tqdm": "tqdm.tqdm",
    "tqdm.auto.trange": "tqdm.trange",
    "torch.autograd.Variable": "torch.autograd.variable.Variable",
}

MODULE = "torch.nn.Module"
MODULE_PREFIXES = ("torch.nn.modules.", "torchvision.models.", "timm.create_model", "segmentation_models_pytorch.")
UNKNOWN_MODULES = ("torch.nn.modules.", "timm.create_model", "torch.hub.load", "segmentation_models_pytorch.")
"""Modules whose parts are not known: they may hold batch normalisation."""
CONTAINERS = {"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.DataParallel"}
CONTAINER_METHODS = {
    "append", "appendleft", "add", "insert", "extend", "update", "pop", "popleft", "popitem", "copy", "union", "join", "get", "setdefault", "items",
    "values", "keys", "clear", "remove", "discard", "sort", "reverse", "index", "count", "intersection", "difference", "most_common",
}  # fmt: skip
NOT_MODULES = {"torch.nn.Parameter", "torch.nn.Module", "torch.nn.Buffer"}

LOSSES_WEIGHTED = {"cross_entropy", "nll_loss"}
LOSSES = {
    "l1_loss", "mse_loss", "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "kl_div", "smooth_l1_loss", "huber_loss", "margin_ranking_loss", "triplet_margin_loss", "cosine_embedding_loss",
    "hinge_embedding_loss", "soft_margin_loss", "multilabel_soft_margin_loss", "multi_margin_loss", "poisson_nll_loss",
    "gaussian_nll_loss", "ctc_loss", "multilabel_margin_loss", "triplet_margin_with_distance_loss",
}  # fmt: skip
LOSS_CLASSES = {
    "L1Loss": "l1_loss", "MSELoss": "mse_loss", "CrossEntropyLoss": "cross_entropy", "NLLLoss": "nll_loss",
    "NLLLoss2d": "nll_loss", "BCELoss": "binary_cross_entropy", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "KLDivLoss": "kl_div", "SmoothL1Loss": "smooth_l1_loss", "HuberLoss": "huber_loss",
    "MarginRankingLoss": "margin_ranking_loss", "TripletMarginLoss": "triplet_margin_loss",
    "CosineEmbeddingLoss": "cosine_embedding_loss", "HingeEmbeddingLoss": "hinge_embedding_loss",
    "SoftMarginLoss": "soft_margin_loss", "MultiLabelSoftMarginLoss": "multilabel_soft_margin_loss",
    "MultiMarginLoss": "multi_margin_loss", "PoissonNLLLoss": "poisson_nll_loss", "GaussianNLLLoss": "gaussian_nll_loss",
    "CTCLoss": "ctc_loss", "MultiLabelMarginLoss": "multilabel_margin_loss",
    "TripletMarginWithDistanceLoss": "triplet_margin_with_distance_loss",
}  # fmt: skip
NO_PARAMETERS = {
    "ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "GELU", "SiLU", "Mish", "Tanh", "Sigmoid", "Softmax", "LogSoftmax", "Softplus",
    "Hardtanh", "Hardswish", "Hardsigmoid", "Identity", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "Flatten",
    "Unflatten", "Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d",
    "AvgPool2d", "AvgPool3d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "PixelShuffle", "ZeroPad2d",
    "ReflectionPad1d", "ReflectionPad2d", "ReplicationPad2d", "ConstantPad1d", "ConstantPad2d", "CosineSimilarity", "PairwiseDistance", "Fold",
    "Unfold", "Threshold", "Softsign", "LogSigmoid", "Tanhshrink", "ChannelShuffle", "LocalResponseNorm", "Softmax2d", "Softmin", "GLU",
} | set(LOSS_CLASSES)  # fmt: skip
BATCH_NORMS = {
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d",
}  # fmt: skip
NORMED_MODELS = ("resnet", "resnext", "densenet", "mobilenet", "efficientnet", "vgg11_bn", "vgg16_bn", "wide_resnet", "inception", "googlenet", "shufflenet", "deeplab", "fcn")  # fmt: skip

DATALOADER = "torch.utils.data.DataLoader"
DATALOADERS = {DATALOADER, "torch_geometric.loader.DataLoader", "torch_geometric.data.DataLoader"}
DATA_LIBRARIES = ("torchtext.", "torch_geometric.", "dgl.", "webdataset.", "nvidia.dali.", "torchdata.", "monai.data.", "ffcv.")
OPTIMIZER_PREFIXES = (
    "torch.optim.", "torch_optimizer.", "timm.optim.", "bitsandbytes.optim.", "transformers.AdamW", "transformers.optimization.",
    "lion_pytorch.", "apex.optimizers.", "adabelief_pytorch.", "madgrad.", "pytorch_optimizer.",
)  # fmt: skip
SCHEDULER_PREFIXES = (
    "torch.optim.lr_scheduler.", "transformers.get_", "transformers.optimization.get_", "timm.scheduler.", "warmup_scheduler.",
    "pl_bolts.optimizers.lr_scheduler.",
)  # fmt: skip
NOT_OPTIMIZERS = {"torch.optim.swa_utils.AveragedModel", "torch.optim.swa_utils.SWALR", "torch.optim.swa_utils.update_bn"}

MODULE_SELF_METHODS = {
    "to", "cuda", "cpu", "train", "eval", "float", "half", "double", "bfloat16", "requires_grad_", "apply", "share_memory", "xpu", "type",
}  # fmt: skip
STRUCTURAL_METHODS = {
    "to", "cuda", "cpu", "float", "half", "double", "bfloat16", "requires_grad_", "apply", "add_module", "register_module",
    "register_parameter", "resize_token_embeddings", "gradient_checkpointing_enable", "type", "share_memory", "to_empty", "init_weights",
    "reset_parameters", "load_state_dict", "weight_init", "freeze", "unfreeze",
}  # fmt: skip
PARAMETER_METHODS = {"parameters", "named_parameters", "children", "named_children", "modules", "named_modules", "buffers", "named_buffers"}

TENSOR_SUMS = {"sum", "nansum", "count_nonzero"}
TENSOR_MEANS = {"mean", "nanmean"}
TENSOR_SPREADS = {"median", "std", "var", "nanmedian", "quantile", "logsumexp"}
TENSOR_EXTREMES = {"max", "min", "amax", "amin", "norm", "any", "all", "unique", "topk_", "argmax", "argmin"}
SAME_EVERYWHERE = {
    "is_cuda", "device", "dtype", "ndim", "is_sparse", "requires_grad", "is_leaf", "layout", "is_quantized", "grad_fn", "names", "dim", "ndimension",
    "is_contiguous", "get_device", "element_size", "is_floating_point", "is_complex",
}  # fmt: skip
"""Attributes and methods of a tensor that do not depend on its values or on how many samples it holds."""
FILLED = {f"{m}.{f}" for m in ("torch", "numpy") for f in ("zeros", "ones", "empty", "full", "arange", "eye", "linspace", "tri")}
"""Functions whose arguments give a shape: the values are the same on all ranks."""
COUNTS = {"num_graphs", "num_nodes", "num_edges", "batch_size", "num_graphs_"}
"""Attributes of a batch object that count what it holds."""
RAGGED = {"masked_select", "nonzero", "pack_padded_sequence", "argwhere"}
TENSOR_SCALARS = {"item", "tolist"}
TENSOR_SIZES = {"size", "shape", "numel", "nelement"}
NONLINEAR = {"exp", "log", "log2", "log10", "log1p", "sqrt", "pow", "power", "square", "sigmoid", "tanh", "expm1", "rsqrt", "reciprocal", "clamp", "clip", "relu", "abs", "softplus", "maximum", "minimum", "clamp_min", "logsumexp", "isnan", "isinf", "isfinite"}
KEEP = {
    "item", "detach", "cpu", "cuda", "to", "clone", "float", "double", "half", "long", "int", "data", "numpy", "squeeze", "unsqueeze", "view",
    "contiguous", "type", "bool", "abs", "requires_grad_", "tolist", "mul_", "add_", "div_", "round",
}  # fmt: skip

DRAWS_TORCH = {"torch.randn", "torch.rand", "torch.randint", "torch.randperm", "torch.normal", "torch.bernoulli", "torch.multinomial", "torch.randn_like", "torch.rand_like", "torch.randint_like", "torch.FloatTensor", "torch.cuda.FloatTensor"}  # fmt: skip
INDEX_DRAWS = {
    "torch.randint", "numpy.random.randint", "numpy.random.choice", "random.sample", "random.choices", "random.randint", "random.choice",
    "random.randrange", "torch.multinomial", "numpy.random.random_integers",
}  # fmt: skip
GENERATORS = {"numpy.random.default_rng", "numpy.random.RandomState", "random.Random"}
GENERATOR_METHODS = {
    "integers": "randint", "choice": "choice", "permutation": "permutation", "shuffle": "shuffle", "random": "random", "normal": "normal",
    "standard_normal": "randn", "uniform": "uniform", "randint": "randint", "rand": "rand", "randn": "randn", "sample": "sample",
    "choices": "choices", "randrange": "randrange", "random_sample": "random", "permuted": "permutation", "gauss": "gauss",
}  # fmt: skip
NOT_DRAWS = {"seed", "get_state", "set_state", "getstate", "setstate", "Random", "SystemRandom"}
PERMUTATIONS = {"torch.randperm", "numpy.random.permutation", "numpy.random.shuffle", "random.shuffle"}
ENTROPY_SPLITS = {
    "torch.utils.data.random_split": "generator",
    "sklearn.model_selection.train_test_split": "random_state",
    "sklearn.model_selection.KFold": "random_state",
    "sklearn.model_selection.StratifiedKFold": "random_state",
}
CLOCKS = {
    "time.time", "time.perf_counter", "time.monotonic", "time.process_time", "datetime.datetime.now", "datetime.datetime.today",
    "datetime.datetime.utcnow", "datetime.now", "time.strftime", "time.localtime", "time.ctime", "time.asctime", "os.getpid", "uuid.uuid4", "uuid.uuid1",
    "datetime.date.today", "socket.gethostname", "time.gmtime", "timeit.default_timer",
}  # fmt: skip
SEEDS = {
    "torch.manual_seed", "random.seed", "numpy.random.seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all",
    "lightning.seed_everything", "transformers.set_seed", "torch.random.manual_seed",
}  # fmt: skip

PRINTS = {"torch_geometric.logging.log", "tensorboard_logger.log_value", "print", "pprint.pprint", "click.echo", "rich.print", "sys.stdout.write", "sys.stderr.write", "tqdm.tqdm.write", "sys.stdout.flush"}
PRINTING_LIBRARIES = ("loguru.logger.", "absl.logging.", "logzero.", "rich.console.Console.", "rich.print", "termcolor.cprint")
LOGGER_METHODS = {"debug", "info", "warning", "warn", "error", "critical", "exception", "log"}
BARS = {"tqdm.tqdm": "disable", "tqdm.trange": "disable", "alive_progress.alive_bar": "disable", "progressbar.progressbar": ""}
WRITERS = {
    "torch.utils.tensorboard.SummaryWriter", "tensorboardX.SummaryWriter", "torch.utils.tensorboard.writer.SummaryWriter",
    "visdom.Visdom", "csv.writer", "csv.DictWriter", "logging.FileHandler", "logging.handlers.RotatingFileHandler",
}  # fmt: skip
EVENT_WRITERS = {"torch.utils.tensorboard.SummaryWriter", "tensorboardX.SummaryWriter", "torch.utils.tensorboard.writer.SummaryWriter", "visdom.Visdom"}
TRACKERS = ("wandb.", "mlflow.", "neptune.", "comet_ml.", "clearml.", "swanlab.", "aim.")
FILE_CALLS = {
    "torchvision.utils.save_image", "matplotlib.pyplot.savefig", "matplotlib.pyplot.show", "numpy.save", "numpy.savez", "numpy.savetxt",
    "numpy.savez_compressed", "json.dump", "pickle.dump", "yaml.dump", "yaml.safe_dump", "shutil.copy", "shutil.copyfile", "shutil.copy2",
    "shutil.copytree", "shutil.move", "os.rename", "os.replace", "os.symlink", "imageio.imwrite", "imageio.mimsave", "cv2.imwrite",
    "joblib.dump", "torch.onnx.export", "torch.jit.save", "scipy.io.savemat", "scipy.misc.imsave", "skimage.io.imsave", "numpy.ndarray.tofile",
    "safetensors.torch.save_file", "soundfile.write", "torchaudio.save", "scipy.io.wavfile.write",
}  # fmt: skip
FOLDER_CALLS = {"os.makedirs", "os.mkdir", "shutil.rmtree", "os.remove", "os.unlink", "os.rmdir", "os.removedirs"}
FETCHES = {
    "urllib.request.urlretrieve", "urllib.urlretrieve", "wget.download", "gdown.download", "gdown.cached_download", "nltk.download", "shutil.unpack_archive",
    "torch.hub.download_url_to_file", "torchvision.datasets.utils.download_url", "torchvision.datasets.utils.download_and_extract_archive",
    "torchvision.datasets.utils.extract_archive", "torchvision.datasets.utils.download_file_from_google_drive", "tensorflow.keras.utils.get_file",
    "kagglehub.dataset_download", "kaggle.api.dataset_download_files",
}  # fmt: skip
FETCHING = (".urlretrieve", ".urlopen", ".download_url", ".download_and_extract_archive", "requests.get", ".snapshot_download", ".hf_hub_download")
READS_TERMINAL = {"input", "getpass.getpass"}
SHELL_CALLS = {"os.system", "os.popen", "subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output", "subprocess.Popen", "subprocess.getoutput"}
FETCHING_COMMANDS = {"wget", "curl", "unzip", "tar", "gunzip", "gdown", "kaggle", "aria2c"}
FILE_METHODS = {"to_csv", "to_json", "to_pickle", "to_excel", "to_parquet", "write_text", "write_bytes", "savefig", "save_pretrained", "save_model", "write_html", "write_image"}  # fmt: skip
WRITER_METHODS_PREFIX = ("add_", "log", "writerow", "write", "close", "flush", "set_postfix", "set_description", "finish")

DISTRIBUTED_MARKS = (
    "torch.distributed.init_process_group", "torch.nn.parallel.DistributedDataParallel", "torch.distributed.fsdp", "horovod.",
    "torch.distributed.device_mesh", "torch.distributed._composable", "fairscale.", "apex.parallel.", "torch_xla.",
)  # fmt: skip
FRAMEWORKS = {
    "accelerate": ("Hugging Face Accelerate", "accelerate launch"),
    "pytorch_lightning": ("PyTorch Lightning", "Trainer(devices=N, strategy='ddp')"),
    "lightning": ("PyTorch Lightning", "Trainer(devices=N, strategy='ddp')"),
    "deepspeed": ("DeepSpeed", "deepspeed --num_gpus N"),
    "fastai": ("fastai", "learn.distrib_ctx() with accelerate launch"),
    "catalyst": ("Catalyst", "its own distributed engine"),
    "colossalai": ("Colossal-AI", "colossalai run"),
    "composer": ("MosaicML Composer", "the composer launcher"),
    "mmengine": ("MMEngine", "its dist_train.sh launcher"),
    "ray.train": ("Ray Train", "TorchTrainer with ScalingConfig(num_workers=N)"),
}
