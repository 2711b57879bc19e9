"""What calling, indexing into and iterating over things means: project code is entered, the torch API is looked up."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from scaffold.roles import api, kinds, pairs
from scaffold.roles.trace import Frame
from scaffold.roles.values import (
    NOTHING,
    Bound,
    Class,
    Const,
    Ext,
    Func,
    Inst,
    Map,
    Mod,
    Obj,
    Partial,
    Scope,
    Seq,
    Tag,
    Val,
    combined,
    join,
)  # fmt: skip
from scaffold.source.tree import dotted, walk

if TYPE_CHECKING:
    from scaffold.roles.follow import Interpreter

_PASS_THROUGH = {
    "tqdm.tqdm", "iter", "reversed", "itertools.cycle", "itertools.islice", "alive_progress.alive_it", "tqdm.trange", "rich.progress.track",
    "progressbar.progressbar", "list", "tuple", "sorted", "set", "itertools.chain", "prefetch_generator.BackgroundGenerator",
}  # fmt: skip
_PAIRING = {"enumerate", "zip"}
_VALUE_CALLS = {"int", "float", "round", "abs", "str", "repr", "bool", "torch.tensor", "torch.as_tensor", "numpy.array", "numpy.asarray", "numpy.round"}
_SAME_OBJECT = {"torch.compile", "torch.nn.DataParallel", "torch.jit.script", "torch.nn.SyncBatchNorm.convert_sync_batchnorm", "ipex.optimize", "torch.nn.utils.weight_norm", "torch.nn.utils.spectral_norm", "torch.autograd.variable.Variable"}  # fmt: skip
_COPIES = {"copy.deepcopy", "copy.copy", "torch.optim.swa_utils.AveragedModel"}
_CLASS_LIKE_CALLS = {"torch.load", "torch.no_grad", "torch.inference_mode", "torch.set_grad_enabled", "torch.utils.data.random_split", "open", "super", "range", "logging.getLogger", "io.open", "torch.device", "wandb.init", "torch.Generator", "torch.autograd.grad", "torch.autocast", "csv.writer", "yaml.safe_load", "yaml.load", "json.load", "sklearn.model_selection.train_test_split", "torch.utils.tensorboard.SummaryWriter", "torch.hub.load", "next", "vars", "timm.create_model"}  # fmt: skip


_KNOWN = ("torch.", "numpy.", "math.", "random.", "time.", "os.", "sys.", "range", "int", "float", "str", "abs", "round", "min", "max", "len", "format", "divmod", "pow", "sum", "matplotlib.", "logging.", "wandb.")


def module_name(name: str) -> bool:
    """Whether an external class or factory makes an ``nn.Module``."""
    if name == api.MODULE or name.startswith(api.MODULE_PREFIXES):
        return True
    if name.startswith("torch.nn.") and name not in api.NOT_MODULES:
        rest = name[len("torch.nn.") :]
        return "." not in rest and rest[:1].isupper()
    if name.startswith("transformers.") and (".from_pretrained" in name or ".from_config" in name):
        return "Tokenizer" not in name and "Config" not in name and "Processor" not in name
    return name in {"torch.hub.load", "torch.optim.swa_utils.AveragedModel"}


def role(inst: Inst) -> str:
    """The role that an instance's class gives it, '' if none."""
    for base in inst.bases():
        if base in api.DATALOADERS:
            return "loader"
        if base.startswith(api.SCHEDULER_PREFIXES):
            return "scheduler"
        last = base.rpartition(".")[2]
        if base.startswith(api.OPTIMIZER_PREFIXES) and base not in api.NOT_OPTIMIZERS and (last[:1].isupper() or last == "*"):
            return "optimizer"
        if base == "torch.amp.GradScaler":
            return "scaler"
        if base in api.WRITERS or base.startswith(("wandb.init",)):
            return "writer"
        if base == "logging.getLogger":
            return "logger"
        if base == "open" or base == "io.open":
            return "file"
        if base.startswith("argparse.") or base in {"yaml.safe_load", "yaml.load", "json.load", "omegaconf.OmegaConf"}:
            return "config"
        if base.startswith(("torch.utils.data.", "torchvision.datasets.", "datasets.")) and "ampler" not in base:
            return "dataset"
        if "ampler" in base.rpartition(".")[2] and base.startswith("torch.utils.data"):
            return "sampler"
        if module_name(base):
            return "module"
    return ""


def call(it: Interpreter, node: cst.Call) -> Val:
    """Evaluate a call; what it gives is a module at least where it is used as one."""
    value = _called(it, node)
    if node not in it.makes_module or any(role(i) for i in value.insts()) or any(isinstance(o, (Seq, Map, Func, Class)) for o in value.objs):
        return value
    return Val((_external_instance(it, node, f"{api.MODULE_PREFIXES[0]}{_last_name(node.func)}", [], {}),), value.tags)


def _last_name(node: cst.BaseExpression) -> str:
    return node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else "Module"


def _called(it: Interpreter, node: cst.Call) -> Val:
    """Callee, arguments, then what each possible callee does."""
    callee = it.eval(node.func)
    args, kwargs = _arguments(it, node)
    if not callee.objs:
        name = node.func.attr.value if isinstance(node.func, cst.Attribute) else "?"
        result = combined(callee, *args, *kwargs.values())
        it.event("call", node, name=f"?.{name}", value=callee, args=args, kwargs=kwargs, result=result)
        return result
    return join(*(_call_one(it, node, obj, args, kwargs) for obj in callee.objs[:6]))


def _arguments(it: Interpreter, node: cst.Call) -> tuple[list[Val], dict[str, Val]]:
    args: list[Val] = []
    kwargs: dict[str, Val] = {}
    for arg in node.args:
        value = it.eval(arg.value)
        if arg.star == "*":
            members = [o for o in value.objs if isinstance(o, Seq)]
            if members and members[0].rest is None:
                args += members[0].items
            else:
                args.append(iterate(it, value, arg))
        elif arg.star == "**":
            for obj in value.objs:
                if isinstance(obj, Map):
                    for key, item in obj.items.items():
                        kwargs[str(key)] = join(kwargs.get(str(key)), item)
        elif arg.keyword is not None:
            kwargs[arg.keyword.value] = value
        else:
            args.append(value)
    return args, kwargs


def _call_one(it: Interpreter, node: cst.Call, obj: Obj, args: list[Val], kwargs: dict[str, Val]) -> Val:
    if isinstance(obj, Func):
        return _call_function(it, node, obj, args, kwargs)
    if isinstance(obj, Class):
        return instantiate(it, node, obj, args, kwargs)
    if isinstance(obj, Ext):
        return _call_external(it, node, obj.name, args, kwargs)
    if isinstance(obj, Inst):
        return _call_instance(it, node, obj, args, kwargs)
    if isinstance(obj, Bound):
        return _call_method(it, node, obj, args, kwargs)
    if isinstance(obj, Partial) and obj.func is not None:
        return _call_one(it, node, obj.func, args, {**obj.kwargs, **kwargs})
    return combined(*args, *kwargs.values())


# ---- project functions and classes ---------------------------------------------------------------------------------


def _call_function(it: Interpreter, node: cst.Call, func: Func, args: list[Val], kwargs: dict[str, Val]) -> Val:
    owner = func.owner
    if isinstance(owner, Inst) and role(owner) == "module" and not _drives(func) and not it.inside_module:
        return _module_call(it, node, owner, func, args, kwargs, "method")
    if it.inside_module and _drives(func):
        inside, it.inside_module = it.inside_module, 0
        result = it.enter(func, args, kwargs, node)
        it.inside_module = inside
        return result
    return it.enter(func, args, kwargs, node)


def _drives(func: Func) -> bool:
    """Whether a method of a module runs backward or an optimizer itself, so that it is a loop and not a part of the model."""
    return func.node is not None and any(
        isinstance(n, cst.Attribute) and n.attr.value in {"backward", "zero_grad"} for n in walk(func.node)
    )


def is_driver(inst: Inst) -> bool:
    """Whether a module's class trains its parts itself."""
    if not isinstance(inst.cls, Class) or inst.cls.scope is None:
        return False
    values = inst.cls.scope.vars.values()
    return any(_drives(o) for v in values for o in v.objs if isinstance(o, Func))


def instantiate(it: Interpreter, node: cst.Call, cls: Class, args: list[Val], kwargs: dict[str, Val]) -> Val:
    """Make an instance of a project class and run its ``__init__``."""
    inst = it.at_site(node, cls, lambda: Inst(node, cls, {}, args, kwargs, node, it.frame.source, len(it.trace.events)))
    assert isinstance(inst, Inst)
    inst.args, inst.kwargs = args, kwargs
    it.event("call", node, name=f"{cls.name}()", value=Val((cls,)), args=args, kwargs=kwargs, result=Val((inst,)))
    _note_batch_size(it, inst)
    init = find_method(it, inst, "__init__")
    if init is not None:
        it.enter(init, args, kwargs, node)
    else:
        _fill_fields(cls, inst, args, kwargs)
    if any(isinstance(b, Ext) and b.name in api.CONTAINERS for b in cls.mro()):
        _adopt_all(it, inst, args)
    return Val((inst,))


def _fill_fields(cls: Class, inst: Inst, args: list[Val], kwargs: dict[str, Val]) -> None:
    names = []
    for base in reversed([b for b in cls.mro() if isinstance(b, Class) and b.node is not None]):
        for line in base.node.body.body:  # type: ignore[union-attr]
            for small in getattr(line, "body", ()) if isinstance(line, cst.SimpleStatementLine) else ():
                if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name):
                    names.append(small.target.value)
    for name, value in zip(names, args, strict=False):
        inst.attrs[name] = value
    inst.attrs.update(kwargs)


def find_method(it: Interpreter, inst: Inst, name: str, after: Class | None = None) -> Func | None:
    """The project method ``name`` of an instance, bound to it; ``after`` starts behind that class in the MRO."""
    if not isinstance(inst.cls, Class):
        return None
    func = inst.cls.method(name, after)
    return _bind(it, func, inst) if func is not None else None


def _bind(it: Interpreter, func: Func, inst: Obj) -> Func:
    decorators = [dotted(d.decorator) for d in getattr(func.node, "decorators", ())]
    if "staticmethod" in decorators:
        return func
    key = ("bound", func, inst)
    made = it.sites.setdefault(key, Func(func.site, func.node, func.scope, inst, func.cls, func.defaults))
    assert isinstance(made, Func)
    return made


# ---- instances -----------------------------------------------------------------------------------------------------


def _call_instance(it: Interpreter, node: cst.Call, inst: Inst, args: list[Val], kwargs: dict[str, Val]) -> Val:
    if role(inst) == "module":
        return _module_call(it, node, inst, find_method(it, inst, "forward"), args, kwargs, "forward")
    method = find_method(it, inst, "__call__")
    if method is not None:
        return it.enter(method, args, kwargs, node)
    it.event("call", node, name=f"{inst.qualified}.__call__", value=Val((inst,)), args=args, kwargs=kwargs)
    inputs = combined(*args, *kwargs.values())
    return pairs.mark(node, kinds.loss(inputs, "mean")) if inst.qualified.startswith(pairs.LIBRARIES) else inputs


def _module_call(
    it: Interpreter, node: cst.Call, inst: Inst, func: Func | None, args: list[Val], kwargs: dict[str, Val], kind: str
) -> Val:
    outermost = it.inside_module == 0
    name = func.node.name.value if func is not None and isinstance(func.node, cst.FunctionDef) else "forward"
    event = None
    start = len(it.trace.events)
    if outermost:
        event = it.event(kind, node, name=name, value=Val((inst,)), args=args, kwargs=kwargs)
    it.inside_module += 1
    it.trace.called.add(inst)
    result = it.enter(func, args, kwargs, node) if func is not None else _external_module(it, node, inst, args, kwargs)
    it.inside_module -= 1
    if it.inside_module == 1 and not it.no_grad:
        result = Val(result.objs, result.tags | {Tag("through", inst)})
        _mark_members(result, Tag("through", inst))
    if event is not None and kind == "method" and any(e.name.endswith("backward") for e in it.trace.events[start:]):
        event.kind, event.name, event.result = "call", f"{inst.qualified}.{name}", result
        return result  # a method that trains is a loop, not a pass through the model
    if outermost and not it.no_grad and (kind == "forward" or deep(it, result).tags):
        result = Val(result.objs, result.tags | {Tag("grad", it.trace.root(inst), node)})
        _mark_members(result, Tag("grad", it.trace.root(inst), node))
    if event is not None:
        event.result = result
    return result


def _mark_members(value: Val, tag: Tag) -> None:
    for obj in value.objs:
        if isinstance(obj, Seq):
            obj.items = [Val(i.objs, i.tags | {tag}) for i in obj.items]
        elif isinstance(obj, Map):
            obj.items = {k: Val(i.objs, i.tags | {tag}) for k, i in obj.items.items()}


def _external_module(it: Interpreter, node: cst.CSTNode, inst: Inst, args: list[Val], kwargs: dict[str, Val]) -> Val:
    inputs = kinds.computed(combined(*(deep(it, a) for a in (*args, *kwargs.values()))))
    for base in inst.bases():
        loss = api.LOSS_CLASSES.get(base.rpartition(".")[2]) if base.startswith("torch.nn.") else None
        if loss is not None:
            return kinds.loss(inputs, loss_settings(loss, inst.args, inst.kwargs)[0])
        if base.startswith("torch.nn.") and isinstance(node, cst.Call):
            inputs = pairs.function(node, base.rpartition(".")[2], args, inputs)
    for child in (v for v in inst.attrs.values()):
        for part in child.insts():
            if isinstance(part.cls, Class) and role(part) == "module":
                func = find_method(it, part, "forward")
                if func is not None:
                    it.enter(func, [inputs], {}, None)
    return inputs


def loss_settings(loss: str, args: list[Val], kwargs: dict[str, Val]) -> tuple[object, bool]:
    """Reduction of a loss, and whether its mean is weighted by something that varies between batches."""
    reduction: object = "mean"
    if "reduction" in kwargs and kwargs["reduction"].consts():
        reduction = kwargs["reduction"].consts()[0]
    if "size_average" in kwargs and False in kwargs["size_average"].consts():
        reduction = "sum"
    if "reduce" in kwargs and False in kwargs["reduce"].consts():
        reduction = "none"
    weight = kwargs.get("weight")
    weighted = loss in api.LOSSES_WEIGHTED and (
        (weight is not None and weight.consts() != [None]) or "ignore_index" in kwargs
    )
    return reduction, weighted


def deep(it: Interpreter, value: Val, depth: int = 4) -> Val:
    """Tags of a value and of what its containers hold, ``depth`` levels down."""
    parts = [value]
    if depth:
        for obj in value.objs:
            members: list[Val | None] = []
            if isinstance(obj, Seq):
                members = [*obj.items, obj.rest]
            elif isinstance(obj, Map):
                members = [*obj.items.values(), obj.rest]
            elif isinstance(obj, Inst) and obj.qualified in _PASS_THROUGH | _PAIRING:
                members = [*obj.args]
            parts += [deep(it, m, depth - 1) for m in members if m]
    return combined(*parts)


def _call_method(it: Interpreter, node: cst.Call, bound: Bound, args: list[Val], kwargs: dict[str, Val]) -> Val:
    owner = bound.owner or NOTHING
    from scaffold.roles.methods import container_method, instance_method

    for obj in owner.objs:
        if isinstance(obj, (Seq, Map)) and bound.name in api.CONTAINER_METHODS:
            return container_method(it, node, obj, owner, bound.name, args, kwargs)
        if isinstance(obj, Inst):
            return instance_method(it, node, obj, owner, bound.name, args, kwargs)
    if bound.name == "split" and not owner.objs:
        cut = _batches(it, node, [owner, *args], kwargs)
        if cut is not None:
            return cut
    dim, has_dim = _dim(args, kwargs, 0)
    result = kinds.tensor_method(bound.name, owner, dim, has_dim)
    if bound.name == "size" and dim == 0 and not owner.locals():
        result = Val((), result.tags | {Tag("length", None, node)})
    extra = combined(*(deep(it, a) for a in (*args, *kwargs.values())))
    if bound.name in {"mul", "mul_", "div", "div_", "add", "add_", "sub", "sub_", "pow"} and args:
        operator = {"mul": "Multiply", "div": "Divide", "add": "Add", "sub": "Subtract", "pow": "Power"}[bound.name.rstrip("_")]
        result = it.combine(operator, it.arithmetic(operator, owner, args[0]), (node.func, owner), (node.args[0].value, args[0]))
    elif bound.name in {"eq", "ne", "gt", "lt", "ge", "le", "eq_", "view_as", "format", "join", "matmul", "gather", "masked_fill", "masked_select"}:
        result = Val((), result.tags | extra.tags)
    else:
        result = as_columns(it, node, bound.name, args, result)
    if bound.name == "copy_" and args:
        result = Val((), result.tags | args[0].tags)
        overwrite(it, node.func, args[0])
    if bound.name in api.RAGGED:
        result = kinds.ragged(result, node)
    if pairs.transposed(bound.name, args):
        result = pairs.turn(node, result)
    result = pairs.function(node, bound.name, [owner, *args], result)
    if isinstance(node.func, cst.Attribute):
        result = it.curve(result, (node.func.value, owner), *((a.value, v) for a, v in zip(node.args, args, strict=False)))
    it.event("call", node, name=f"?.{bound.name}", value=owner, args=args, kwargs=kwargs, result=result)
    return result


def _batches(it: Interpreter, node: cst.Call, args: list[Val], kwargs: dict[str, Val]) -> Val | None:
    """``x.split(size)`` of something that is no batch: a sequence of batches; None for the split of a batch or of a text."""
    if len(args) != 2 or kwargs or args[0].locals() or it.inside_module or any(not isinstance(c, int) for c in args[1].consts()):
        return None
    made = _external_instance(it, node, "torch.split", args, kwargs)
    mark_batch_size(it, args[1])
    return Val((made,), args[0].tags)


def overwrite(it: Interpreter, target: cst.CSTNode, value: Val) -> None:
    """``x.data.resize_(n).copy_(batch)`` fills the variable ``x``."""
    while isinstance(target, (cst.Attribute, cst.Call, cst.Subscript)):
        target = target.func if isinstance(target, cst.Call) else target.value
    scope: Scope | None = it.frame.scope
    while isinstance(target, cst.Name) and scope is not None:
        if target.value in scope.vars:
            known = scope.vars[target.value]
            scope.vars[target.value] = Val(known.objs, known.tags | value.tags)
            return
        scope = scope.parent


def as_columns(it: Interpreter, node: cst.Call, name: str, args: list[Val], result: Val) -> Val:
    """``x.view(n, -1)`` of something that is not a batch lays it out as ``n`` parallel streams."""
    if name in {"view", "reshape"} and len(args) == 2 and args[1].consts() == [-1] and not result.locals():
        return Val((), result.tags | {Tag("columns", it.frame.call, node)})
    return result


def _dim(args: list[Val], kwargs: dict[str, Val], position: int) -> tuple[object, bool]:
    value = kwargs.get("dim", kwargs.get("axis", args[position] if len(args) > position else None))
    if value is None:
        return None, False
    consts = value.consts()
    many = [c for o in value.objs if isinstance(o, Seq) for i in o.items for c in i.consts()]
    if 0 in many:
        return 0, True
    if any(isinstance(c, int) and c < -2 for c in many):
        return "unknown", True
    return (consts[0] if consts else 1), True


# ---- external names ------------------------------------------------------------------------------------------------


def _call_external(it: Interpreter, node: cst.Call, name: str, args: list[Val], kwargs: dict[str, Val]) -> Val:
    if name == "super":
        return _super(it, node)
    if name in {"getattr", "hasattr", "setattr"}:
        return _by_name(it, node, name, args)
    first = args[0] if args else NOTHING
    if name in _SAME_OBJECT and first.insts():
        it.event("call", node, name=name, value=first, args=args, kwargs=kwargs, result=first)
        return Val(tuple(first.insts()), first.tags)
    result = _external_result(it, node, name, args, kwargs)
    if name.startswith(("torch.", "einops.")):
        short = name.rpartition(".")[2]
        if short in api.RAGGED:
            result = kinds.ragged(result, node)
        result = pairs.turn(node, result) if pairs.transposed(short, args[1:]) else pairs.function(node, short, args, result)
        result = it.curve(result, *((a.value, v) for a, v in zip(node.args, args, strict=False)))
    it.event("call", node, name=name, args=args, kwargs=kwargs, result=result)
    for value in (*args, *kwargs.values()):
        for obj in value.objs:
            if isinstance(obj, Func) and name not in {"property", "print"} and obj.node not in it.trace.entered:
                it.enter(obj, [], {}, node)
    return result


def _external_result(it: Interpreter, node: cst.Call, name: str, args: list[Val], kwargs: dict[str, Val]) -> Val:
    short = name.rpartition(".")[2]
    first = args[0] if args else NOTHING
    inputs = kinds.computed(combined(*(deep(it, a) for a in (*args, *kwargs.values()))))
    if name in api.FILLED:
        return kinds.without_local(inputs)
    if name in _COPIES and any(role(i) == "module" for i in first.insts()):
        return Val((_copy(it, node, first.insts()[0]),))
    if name in _COPIES or name in {"torch.autograd.variable.Variable"}:
        return first
    if name == "collections.defaultdict":
        made_map = it.at_site(node, "dict", lambda: Map(node))
        assert isinstance(made_map, Map)
        if any(isinstance(o, Ext) and o.name == "list" for o in first.objs):
            made_map.rest = Val((it.at_site(node, "default", lambda: Seq(node)),))
        elif any(isinstance(o, (Class, Func)) for o in first.objs):
            made_map.rest = join(*(_call_one(it, node, o, [], {}) for o in first.objs))
        return Val((made_map,))
    if name == "functools.partial" and len(args) == 1:
        return Val(tuple(it.at_site(node, o, partial(Partial, node, o, kwargs)) for o in first.objs))
    if name in {"dict", "collections.OrderedDict"}:
        return _mapping_call(it, node, args, kwargs)
    if name in _PASS_THROUGH or name in _PAIRING:
        return _sequence_call(it, node, name, args, kwargs)
    if name == "next":
        return iterate(it, first, node)
    if name == "len":
        return _length(it, node, first)
    if name == "sum" or name in {"numpy.mean", "numpy.sum", "statistics.mean", "numpy.average", "torch.mean", "torch.sum", "numpy.nanmean", "fmean"}:
        return _total(it, name, args, kwargs)
    if name in {"print", "isinstance", "hasattr", "callable", "type", "issubclass"}:
        return NOTHING
    if name == "int" and first.tagged("config"):
        return first
    if name in _VALUE_CALLS:
        return kinds.without_grad(Val((), inputs.tags))
    if short in api.LOSSES and (name.startswith("torch.nn.functional.") or name.startswith("torch.functional")):
        return kinds.loss(inputs, loss_settings(short, args, kwargs)[0])
    if name in api.CLOCKS:
        return Val((), frozenset({Tag("clock", None, node)}))
    if name in {"os.listdir", "glob.glob", "glob.iglob", "os.scandir", "os.walk", "hash", "id"}:
        return Val((), frozenset({Tag("entropy", name, node)}))
    if name in api.GENERATORS:
        unseeded = frozenset() if args or kwargs else frozenset({Tag("entropy", name, node)})
        return Val((_external_instance(it, node, name, args, kwargs),), unseeded)
    if name == "torch.split" and (cut := _batches(it, node, args, kwargs)) is not None:
        return cut
    if short in api.NOT_DRAWS and name.startswith(("numpy.random.", "random.")):
        return NOTHING
    if short.endswith("Tensor") and name.startswith("torch.") and not all(a.consts() for a in args):
        return kinds.without_grad(Val((), inputs.tags))
    if name in api.DRAWS_TORCH or name in api.INDEX_DRAWS or name in api.PERMUTATIONS or name.startswith(("numpy.random.", "random.")):
        return draw(it, node, name, args, kwargs)
    if short[:1].isupper() or short == "*" or name in _CLASS_LIKE_CALLS or module_name(name) or _is_factory(name):
        return Val((_external_instance(it, node, name, args, kwargs),), _carried(name, inputs))
    if short in api.NONLINEAR and name.startswith(("torch.", "numpy.", "math.")):
        return kinds.curved(inputs)
    if name.startswith(("torch.", "numpy.")):
        dim, has_dim = _dim(args, kwargs, 1)
        if short in api.TENSOR_SUMS | api.TENSOR_MEANS | api.TENSOR_EXTREMES | api.TENSOR_SPREADS:
            return kinds.tensor_method(short, deep(it, first), dim, has_dim)
        if short in {"mul", "div", "add", "sub"} and len(args) > 1:
            operator = {"mul": "Multiply", "div": "Divide", "add": "Add", "sub": "Subtract"}[short]
            return it.combine(operator, it.arithmetic(operator, args[0], args[1]), (node.args[0].value, args[0]), (node.args[1].value, args[1]))
    if not name.startswith(_KNOWN) and it.loops and inputs.tagged("offset"):
        return Val((), frozenset(Tag("rows", t.of, t.at) if t.kind == "offset" else t for t in inputs.tags))
    if name.startswith(("sklearn.", "torchmetrics.", "scipy.", "math.")) or name in {"min", "max"}:
        return kinds.retag(inputs, "mixed") if inputs.locals() else inputs
    return inputs


def _mapping_call(it: Interpreter, node: cst.Call, args: list[Val], kwargs: dict[str, Val]) -> Val:
    """``dict(other, key=value)`` and ``OrderedDict([(key, value)])``."""
    made = it.at_site(node, "dict", lambda: Map(node))
    assert isinstance(made, Map)
    for obj in (o for a in args for o in a.objs):
        if isinstance(obj, Map):
            made.items.update(obj.items)
            made.rest = join(made.rest, obj.rest)
        elif isinstance(obj, Seq):
            pairs_ = [o.items for v in obj.items for o in v.objs if isinstance(o, Seq) and len(o.items) == 2]
            made.items.update({k: value for key, value in pairs_ for k in key.consts()[:1] if isinstance(k, str)})
    made.items.update(kwargs)
    return Val((made,), combined(*made.items.values(), made.rest).tags)


def _is_factory(name: str) -> bool:
    parts = name.split(".")
    return any(p[:1].isupper() for p in parts[:-1]) or name.startswith(("torchtext.", "datasets.", "tensorboard"))


def _carried(name: str, inputs: Val) -> frozenset[Tag]:
    return frozenset(t for t in inputs.tags if t.kind in {"rows", "param", "clock", "entropy", "config"}) if not name.startswith("torch.optim") else frozenset()


def _external_instance(it: Interpreter, node: cst.Call, name: str, args: list[Val], kwargs: dict[str, Val]) -> Inst:
    made = it.at_site(node, name, lambda: Inst(node, name, {}, args, kwargs, node, it.frame.source, len(it.trace.events)))
    assert isinstance(made, Inst)
    made.args, made.kwargs = args, kwargs
    _note_batch_size(it, made)
    if name in api.CONTAINERS:
        _adopt_all(it, made, args)
    if name in {"types.SimpleNamespace", "argparse.Namespace", "easydict.EasyDict"}:
        made.attrs.update(kwargs)
    return made


def _note_batch_size(it: Interpreter, inst: Inst) -> None:
    if role(inst) != "loader":
        return
    size = inst.kwargs.get("batch_size", inst.args[1] if len(inst.args) > 1 else None)
    mark_batch_size(it, size)


def mark_batch_size(it: Interpreter, size: Val | None) -> None:
    """Remember that a value sets the size of a batch."""
    if size is None:
        return
    it.trace.batch_sizes.update(o for o in size.objs if isinstance(o, Const) and isinstance(o.value, int) and o.value > 1)
    it.trace.batch_sizes.update(t for t in size.tags if t.kind == "config")


def _adopt_all(it: Interpreter, parent: Inst, args: list[Val]) -> None:
    members: list[tuple[str, Val]] = []
    for value in args:
        inside = [o for o in value.objs if isinstance(o, (Seq, Map))]
        if not inside:
            members.append((str(len(members)), value))
        for obj in inside:
            if isinstance(obj, Seq):
                members += [(str(len(members) + i), item) for i, item in enumerate((*obj.items, obj.rest or NOTHING))]
            else:
                members += [(str(key), item) for key, item in obj.items.items()]
    for name, member in members:
        for inst in member.insts():
            if role(inst) == "module":
                it.adopt(parent, inst, name)
                parent.attrs["[]"] = join(parent.attrs.get("[]"), Val((inst,)))


def _copy(it: Interpreter, node: cst.Call, original: Inst) -> Inst:
    made = it.at_site(node, "copy", lambda: Inst(node, original.cls, {}, original.args, original.kwargs, node, it.frame.source))
    assert isinstance(made, Inst)
    made.attrs = {k: v for k, v in original.attrs.items() if not any(role(i) == "module" for i in v.insts())}
    return made


def _super(it: Interpreter, node: cst.Call) -> Val:
    frame: Frame | None = it.frame
    while frame is not None and frame.owner is None:
        frame = frame.caller
    if frame is None or frame.owner is None:
        return NOTHING
    made = Inst(node, "super", {"self": Val((frame.owner,))})
    if frame.cls is not None:
        made.attrs["class"] = Val((frame.cls,))
    return Val((made,))


def _by_name(it: Interpreter, node: cst.Call, name: str, args: list[Val]) -> Val:
    if len(args) < 2:
        return NOTHING
    consts = args[1].consts()
    if name == "getattr":
        default = args[2] if len(args) > 2 else None
        if consts and isinstance(consts[0], str):
            return join(attribute(it, args[0], consts[0], node), default)
        for inst in args[0].insts():
            it.trace.read.update((inst, attr) for attr in inst.attrs)
            default = join(default, *inst.attrs.values()) if it.inside_module else default
        found = [it.ext(f"{o.name}.*") for o in args[0].objs if isinstance(o, Ext)]
        members = [v for o in args[0].objs if isinstance(o, Mod) and o.source for v in it.load(o.source, "").vars.values()]
        return join(*found, *members, default)
    if name == "setattr" and consts and len(args) > 2:
        for obj in args[0].objs:
            if isinstance(obj, Inst):
                obj.attrs[str(consts[0])] = join(obj.attrs.get(str(consts[0])), args[2])
    return NOTHING


def _sequence_call(it: Interpreter, node: cst.Call, name: str, args: list[Val], kwargs: dict[str, Val]) -> Val:
    if name in _PAIRING or (args and any(isinstance(o, Inst) for o in args[0].objs)) or name in api.BARS:
        members = args or [kwargs.get("iterable", NOTHING)]
        made = it.at_site(node, name, lambda: Inst(node, name, {}, members, kwargs, node, it.frame.source))
        assert isinstance(made, Inst)
        made.args = members
        return Val((made,), combined(*members).tags)
    if not args:
        return Val((it.at_site(node, name, lambda: Seq(node, [], None, name)),))
    if name == "itertools.chain":
        return join(*args)
    seqs = [o for o in args[0].objs if isinstance(o, Seq)]
    if seqs and name in {"list", "tuple"}:
        return args[0]
    if name == "set":
        element = iterate(it, args[0], node)
        made_set = it.at_site(node, name, lambda: Seq(node, [], element, "set"))
        return Val((made_set,), args[0].tags | {Tag("entropy", "set", node)})
    if name == "sorted":
        return Val(args[0].objs, frozenset(t for t in args[0].tags if t.kind != "entropy"))
    return args[0]


def _length(it: Interpreter, node: cst.Call, value: Val) -> Val:
    tags: set[Tag] = set()
    for inst in value.insts():
        kind = role(inst)
        if inst.qualified in _PASS_THROUGH | _PAIRING and inst.args:
            return _length(it, node, inst.args[0])
        if kind == "loader":
            tags.add(Tag("batches", inst, node))
        elif kind in {"dataset", "sampler"} or find_method(it, inst, "__getitem__") is not None:
            tags.add(Tag("samples", inst, node))
    tags |= {Tag("listing", t.of, node) for t in value.tags if t.kind == "entropy" and t.of != "set"}
    if not tags and not any(isinstance(o, (Seq, Map)) for o in value.objs):
        tags |= kinds.retag(value, "count").tags if value.tagged("rows") else set()
    if not value.locals() and not any(t.kind == "batches" for t in tags):
        tags.add(Tag("length", None, node))
    return Val((), frozenset(tags))


def _total(it: Interpreter, name: str, args: list[Val], kwargs: dict[str, Val]) -> Val:
    value = args[0] if args else NOTHING
    inner = iterate(it, value, cst.Name("_")) if any(isinstance(o, Seq) for o in value.objs) else value
    kind = kinds.only(inner)
    if kind == "rows":
        dim, has_dim = _dim(args, kwargs, 1)
        return kinds.tensor_method("mean" if "mean" in name or "average" in name else "sum", Val((), inner.tags), dim, has_dim)
    return Val((), inner.tags)


def _makes_rows(name: str, args: list[Val], kwargs: dict[str, Val]) -> bool:
    """Whether a draw gives many numbers at once: a batch, not one choice and not an order."""
    short = name.rpartition(".")[2]
    if name in api.PERMUTATIONS:
        return False
    if name.startswith("numpy.random."):
        positional = {"rand": 1, "randn": 1, "randint": 3, "choice": 2, "normal": 3, "uniform": 3, "beta": 3, "random": 1, "binomial": 3}
        return "size" in kwargs or len(args) >= positional.get(short, 3)
    return name.startswith("torch.") or name in {"random.sample", "random.choices"}


def draw(it: Interpreter, node: cst.Call, name: str, args: list[Val], kwargs: dict[str, Val]) -> Val:
    """What a random draw gives."""
    tags = {Tag("draw", name, node)}
    if it.repeats() and node not in it.made_before and _makes_rows(name, args, kwargs):
        tags.add(Tag("rows", node, node))
        size = kwargs.get("size", args[-1] if len(args) > 1 else None)
        if name in api.INDEX_DRAWS and size is not None:
            for obj in size.objs:
                mark_batch_size(it, obj.items[0] if isinstance(obj, Seq) and obj.items else Val((obj,)))
            mark_batch_size(it, Val((), size.tags))
    inputs = combined(*(deep(it, a) for a in (*args, *kwargs.values())))
    return Val((), frozenset(tags) | frozenset(t for t in inputs.tags if t.kind in {"rows", "entropy"}))


# ---- attributes and iteration --------------------------------------------------------------------------------------


def attribute(it: Interpreter, owner: Val, name: str, node: cst.CSTNode) -> Val:
    """``owner.name``."""
    found: list[Val] = []
    for obj in owner.objs:
        if isinstance(obj, Ext):
            found.append(it.ext(f"{obj.name}.{name}"))
        elif isinstance(obj, Mod) and obj.source is not None:
            value = it.load(obj.source, "").vars.get(name)
            module = it.project.module(_module_path(it, obj) + name)
            found.append(value if value is not None else it.import_module(_module_path(it, obj) + name) if module else NOTHING)
        elif isinstance(obj, Inst):
            found.append(_instance_attribute(it, obj, owner, name, node))
        elif isinstance(obj, Class):
            found.append(_class_attribute(it, obj, name))
        elif isinstance(obj, (Seq, Map)):
            found.append(Val((it.at_site(node, (name, obj), lambda o=obj: Bound(node, Val((o,), owner.tags), name)),)))  # type: ignore[misc]
        elif isinstance(obj, Bound):
            inner = obj.owner or NOTHING
            deeper = it.at_site(node, (name, obj), lambda o=obj: Bound(node, Val((o,), owner.tags), name))  # type: ignore[misc]
            found.append(Val((deeper,), owner.tags | frozenset(Tag("param", it.trace.root(i)) for i in inner.insts() if role(i) == "module")))
    if not found:
        made = it.at_site(node, (name, owner.tags), lambda: Bound(node, Val((), owner.tags), name))
        assert isinstance(made, Bound)
        tags = kinds.tensor_method("size", owner, None, False).tags if name == "shape" else owner.tags
        called = isinstance(parent := it.frame.source.parents.get(node), cst.Call) and parent.func is node
        if (name in api.COUNTS or name == "size" and not called) and owner.tagged("rows"):
            return kinds.retag(kinds.without_grad(owner), "count")
        if name in api.SAME_EVERYWHERE:
            tags = kinds.without_local(owner).tags
        if name == "data":
            tags = kinds.without_grad(Val((), tags)).tags
        value = Val((made,), tags)
        return pairs.turn(node, value) if name == "T" else value
    return join(*found)


def _module_path(it: Interpreter, mod: Mod) -> str:
    for name, source in it.project.modules.items():
        if source is mod.source:
            return name + "."
    return ""


def _class_attribute(it: Interpreter, cls: Class, name: str) -> Val:
    for base in cls.mro():
        if isinstance(base, Class) and base.scope is not None and name in base.scope.vars:
            value = base.scope.vars[name]
            decorated = [
                _bind(it, o, cls) if isinstance(o, Func) and "classmethod" in [dotted(d.decorator) for d in getattr(o.node, "decorators", ())] else o
                for o in value.objs
            ]
            return Val(tuple(decorated), value.tags)
        if isinstance(base, Ext):
            return it.ext(f"{base.name}.{name}")
    return NOTHING


def _instance_attribute(it: Interpreter, inst: Inst, owner: Val, name: str, node: cst.CSTNode) -> Val:
    if inst.qualified == "super":
        target = inst.attrs["self"].insts()[0]
        after = next((o for o in inst.attrs.get("class", NOTHING).objs if isinstance(o, Class)), None)
        method = find_method(it, target, name, after)
        return Val((method,)) if method is not None else NOTHING
    if name in inst.attrs:
        if it.inside_module:
            it.trace.read.add((inst, name))
        return inst.attrs[name]
    method = find_method(it, inst, name)
    if method is not None:
        if any(dotted(d.decorator) in {"property", "functools.cached_property", "cached_property"} for d in getattr(method.node, "decorators", ())):
            return it.enter(method, [], {}, node)
        return Val((method,))
    if isinstance(inst.cls, Class):
        value = _class_attribute(it, inst.cls, name)
        if any(not isinstance(o, Ext) for o in value.objs):
            return value
    kind = role(inst)
    if kind == "module" and name == "module":
        return Val((inst,))
    if kind == "loader" and name == "dataset":
        return inst.kwargs.get("dataset", inst.args[0] if inst.args else NOTHING)
    if kind == "loader" and name == "batch_size":
        return inst.kwargs.get("batch_size", inst.args[1] if len(inst.args) > 1 else NOTHING)
    tags = owner.tags
    if kind == "config":
        tags = tags | {Tag("config", name)}
    if kind == "module":
        tags = tags | {Tag("param", it.trace.root(inst))}
    made = it.at_site(node, (name, inst), lambda: Bound(node, Val((inst,), owner.tags), name))
    return Val((made,), tags)


def iterate(it: Interpreter, value: Val, node: cst.CSTNode) -> Val:
    """What one step of iterating over ``value`` gives."""
    found: list[Val | None] = []
    for obj in value.objs:
        if isinstance(obj, Seq):
            found += [*obj.items, obj.rest]
            if obj.kind == "set":
                found.append(Val((), frozenset({Tag("entropy", "set", obj.site)})))
        elif isinstance(obj, Map):
            found += [it.const(node, k) for k in obj.items]
        elif isinstance(obj, Inst):
            found.append(_iterate_instance(it, obj, value, node))
    if not found:
        return Val((), value.tags)
    return join(*found)


def _innermost(inst: Inst) -> Inst:
    """What a chain of ``enumerate(tqdm(loader))`` runs over."""
    while inst.qualified in _PASS_THROUGH | _PAIRING and inst.args and inst.args[0].insts():
        inst = inst.args[0].insts()[0]
    return inst


def _iterate_instance(it: Interpreter, inst: Inst, value: Val, node: cst.CSTNode) -> Val:
    name = inst.qualified
    if name == "enumerate":
        pair = it.at_site(node, ("pair", inst), lambda: Seq(node, [], None, "tuple"))
        assert isinstance(pair, Seq)
        pair.items = [Val((), frozenset({Tag("step", _innermost(inst), node)})), iterate(it, inst.args[0], node) if inst.args else NOTHING]
        return Val((pair,))
    if name == "zip":
        pair = it.at_site(node, ("pair", inst), lambda: Seq(node, [], None, "tuple"))
        assert isinstance(pair, Seq)
        pair.items = [iterate(it, a, node) for a in inst.args]
        return Val((pair,))
    if name == "range":
        return Val((), frozenset({Tag("offset", inst, node)}))
    if name in _PASS_THROUGH:
        return join(*(iterate(it, a, node) for a in (inst.args if name == "itertools.chain" else inst.args[:1])))
    if name == "torch.split":
        return Val((), frozenset({Tag("rows", inst, node)}))
    kind = role(inst)
    if kind == "loader":
        return Val((), frozenset({Tag("rows", inst, node)}))
    for method_name in ("__iter__", "__next__", "__getitem__"):
        method = find_method(it, inst, method_name)
        if method is not None and kind != "module":
            result = it.enter(method, [], {}, node)
            inner = iterate(it, result, node) if method_name == "__iter__" and inst not in result.objs else result
            if method_name == "__iter__" and inst in result.objs:
                continue
            return inner
    if kind == "module":
        inner_parts = inst.attrs.get("[]")
        return Val(inner_parts.objs if inner_parts else (), value.tags | {Tag("param", it.trace.root(inst))})
    if name.startswith(api.DATA_LIBRARIES):
        return Val((), value.tags | {Tag("rows", inst, node)})
    return Val((), value.tags)
