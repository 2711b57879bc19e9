"""Methods of containers and of external objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from scaffold.roles import api, calls
from scaffold.roles.values import NOTHING, Class, Func, Inst, Map, Seq, Tag, Val, combined, join

if TYPE_CHECKING:
    from scaffold.roles.follow import Interpreter


def container_method(
    it: Interpreter, node: cst.Call, obj: Seq | Map, owner: Val, name: str, args: list[Val], kwargs: dict[str, Val]
) -> Val:
    """``list.append``, ``dict.items`` and the like."""
    if isinstance(obj, Seq):
        return _sequence_method(it, node, obj, owner, name, args)
    return _mapping_method(it, node, obj, name, args, kwargs)


def _sequence_method(it: Interpreter, node: cst.Call, obj: Seq, owner: Val, name: str, args: list[Val]) -> Val:
    if name in {"append", "add", "insert", "appendleft"} and args:
        obj.rest = join(obj.rest, args[-1])
    elif name in {"extend", "update"} and args:
        obj.rest = join(obj.rest, calls.iterate(it, args[0], node))
    elif name in {"pop", "popleft"}:
        return calls.iterate(it, Val((obj,)), node)
    elif name in {"copy", "union"}:
        return Val((obj,), owner.tags)
    elif name == "join":
        return combined(*args)
    it.event("call", node, name=f"list.{name}", value=owner, args=args)
    return NOTHING


def _mapping_method(it: Interpreter, node: cst.Call, obj: Map, name: str, args: list[Val], kwargs: dict[str, Val]) -> Val:
    if name in {"get", "pop", "setdefault"} and args:
        keys = [k for k in args[0].consts() if isinstance(k, (str, int, float, bool))]
        if name == "setdefault" and keys and len(args) > 1:
            obj.items[keys[0]] = join(obj.items.get(keys[0]), args[1])
        known = [obj.items.get(k) for k in keys] if keys else list(obj.items.values())
        return join(*known, obj.rest, *args[1:2])
    if name == "update":
        for other in args:
            for source in other.objs:
                if isinstance(source, Map):
                    for key, value in source.items.items():
                        obj.items[key] = join(obj.items.get(key), value)
                    obj.rest = join(obj.rest, source.rest)
        for key_name, value in kwargs.items():
            obj.items[key_name] = join(obj.items.get(key_name), value)
        return NOTHING
    if name == "items":
        made = it.at_site(node, "items", lambda: Seq(node))
        assert isinstance(made, Seq)
        pairs = []
        for key, value in obj.items.items():
            pair = it.at_site(node, ("item", key), lambda: Seq(node, [], None, "tuple"))
            assert isinstance(pair, Seq)
            pair.items = [it.const(None, key), value]
            pairs.append(Val((pair,)))
        made.items = pairs
        if obj.rest is not None:
            other_pair = it.at_site(node, ("item", None), lambda: Seq(node, [], None, "tuple"))
            assert isinstance(other_pair, Seq)
            other_pair.items = [NOTHING, obj.rest]
            made.rest = Val((other_pair,))
        return Val((made,))
    if name == "values":
        values = it.at_site(node, "values", lambda: Seq(node))
        assert isinstance(values, Seq)
        values.items, values.rest = list(obj.items.values()), obj.rest
        return Val((values,))
    if name == "copy":
        return Val((Map(node, dict(obj.items), obj.rest),))
    return NOTHING


def instance_method(
    it: Interpreter, node: cst.Call, inst: Inst, owner: Val, name: str, args: list[Val], kwargs: dict[str, Val]
) -> Val:
    """A method of an external object, by the role of its class."""
    kind = calls.role(inst)
    label = kind or inst.qualified
    if name in {"parse_args", "parse_known_args"}:
        made = it.at_site(node, "ns", lambda: Inst(node, "argparse.Namespace", {}, args, kwargs, node, it.frame.source))
        result = Val((made,))
    elif kind == "module":
        result = _module_method(it, node, inst, name, args, kwargs)
    elif kind == "scaler" and name == "scale" and args:
        result = args[0]
    elif kind == "optimizer" and name == "state_dict":
        result = Val((it.at_site(node, "state", lambda: Inst(node, "optimizer.state_dict", {}, [Val((inst,))])),))
    elif kind in {"scheduler", "scaler"} and name == "state_dict":
        result = Val((it.at_site(node, "state", lambda: Inst(node, f"{kind}.state_dict", {}, [Val((inst,))])),))
    elif kind == "optimizer" and name == "step":
        result = NOTHING
        for value in (*args, *kwargs.values()):
            for obj in value.objs:
                if isinstance(obj, Func):
                    it.event("call", node, name="optimizer.closure", value=Val((inst,)), args=args, kwargs=kwargs)
                    result = it.enter(obj, [], {}, node)
    elif kind == "config" and name == "get" and args and args[0].consts():
        result = Val((), frozenset({Tag("config", args[0].consts()[0])}))
    elif inst.qualified in api.GENERATORS and name in api.GENERATOR_METHODS:
        canonical = f"{'random' if inst.qualified == 'random.Random' else 'numpy.random'}.{api.GENERATOR_METHODS[name]}"
        result = calls.draw(it, node, canonical, args, kwargs)
        it.event("call", node, name=canonical, value=Val((inst,)), args=args, kwargs=kwargs, result=result)
        return result
    elif kind in {"writer", "logger"}:
        result = NOTHING
    elif kind == "dataset" and name in {"map", "filter", "shuffle", "select", "with_format", "with_transform"}:
        result = Val((inst,), owner.tags)
    else:
        extra = combined(owner, *(calls.deep(it, a) for a in (*args, *kwargs.values())))
        result = Val((), frozenset(t for t in extra.tags if t.kind not in {"samples", "batches"}))
        result = calls.as_columns(it, node, name, args, result)
        if name == "copy_" and args:
            calls.overwrite(it, node.func, args[0])
        if inst.qualified[:1].isupper() or "." in inst.qualified:
            if name[:1].isupper() or name.startswith("from_"):
                result = Val((inst,), result.tags)
    it.event("call", node, name=f"{label}.{name}", value=Val((inst,)), args=args, kwargs=kwargs, result=result)
    return result


def _module_method(it: Interpreter, node: cst.Call, inst: Inst, name: str, args: list[Val], kwargs: dict[str, Val]) -> Val:
    root = it.trace.root(inst)
    if name in api.MODULE_SELF_METHODS or name == "compile":
        for value in args:
            for obj in value.objs:
                if isinstance(obj, Func):
                    it.enter(obj, [Val((), frozenset({Tag("param", root)}))], {}, node)
        return Val((inst,))
    if name in api.PARAMETER_METHODS:
        tags = {Tag("param", root), Tag("param_of", inst)}
        return Val((), frozenset(tags))
    if name == "state_dict":
        return Val((it.at_site(node, "state", lambda: Inst(node, "module.state_dict", {}, [Val((inst,))])),))
    if name == "load_state_dict":
        return NOTHING
    if name in {"__init__", "zero_grad", "register_buffer", "register_parameter", "add_module", "append"}:
        if name == "register_buffer" and len(args) > 1 and args[0].consts():
            inst.attrs[str(args[0].consts()[0])] = args[1]
        if name in {"add_module", "append", "register_module"} and args:
            for child in args[-1].insts():
                if calls.role(child) == "module":
                    it.adopt(inst, child, "[]")
                    inst.attrs["[]"] = join(inst.attrs.get("[]"), Val((child,)))
        return Val((inst,)) if name == "append" else NOTHING
    if name in {"size", "dim", "item"}:
        return NOTHING
    inputs = combined(*(calls.deep(it, a) for a in (*args, *kwargs.values())))
    tags = set(inputs.tags)
    if isinstance(inst.cls, Class) and all(b.startswith("torch.nn.") for b in inst.bases()):
        return NOTHING  # no such method: another object takes this call
    if not it.inside_module:
        it.event("method", node, name=name, value=Val((inst,)), args=args, kwargs=kwargs)
        if not it.no_grad and inputs.tags:
            tags.add(Tag("grad", root, node))
    return Val((), frozenset(tags))
