"""Names that people look for because others have them, and what they are called here."""

from typing import Any

FUNCTIONS = {
    "absolute": "ad.abs",
    "amax": "ad.max",
    "amin": "ad.min",
    "arccos": "ad.acos",
    "arcsin": "ad.asin",
    "arctan": "ad.atan",
    "arctan2": "ad.atan2",
    "array": "ad.tensor",
    "cat": "ad.concat",
    "clamp": "ad.clip",
    "concatenate": "ad.concat",
    "cumprod": "ad.cumulative_prod",
    "cumsum": "ad.cumulative_sum",
    "diag": "ad.diagonal, or ad.diagflat",
    "expand": "ad.broadcast_to",
    "from_numpy": "ad.asarray",
    "grad_and_value": "ad.value_and_grad",
    "jacrev": "ad.jacobian",
    "linearize": "ad.vjp, or ad.jvp",
    "manual_seed": "ad.random.seed",
    "mod": "ad.remainder",
    "mul": "ad.multiply",
    "permute": "ad.permute_dims",
    "power": "ad.pow",
    "rand": "ad.random.uniform",
    "randint": "ad.random.integers",
    "randn": "ad.random.normal",
    "randperm": "ad.random.permutation",
    "repeat_interleave": "ad.repeat",
    "sub": "ad.subtract",
    "unique": "ad.unique_values",
    "unsqueeze": "ad.expand_dims",
    "view": "ad.reshape",
}
IDIOMS = {
    "backward": "the method y.backward()",
    "func": "ad itself: ad.grad, ad.vmap, ad.vjp ...",
    "jacfwd": 'ad.jacobian(f, mode="forward")',
    "jit": "ad.trace, which records a function once and replays it",
    "remat": "ad.checkpoint(f, x), which calls f at once",
    "stop_gradient": "the method x.detach()",
    "utils": "ad itself: ad.checkpoint, ad.checkpoint_sequential",
}
METHODS = {
    "clone": "x.detach(), or x * 1 with its graph: tensors are values, and need no copies",
    "contiguous": "nothing: tensors are values, and their layout doesn't matter",
    "copy": "copy.copy(x): but tensors are values, and need no copies",
    "cpu": 'x.to("cpu")',
    "double": "x.to(ad.float64)",
    "flatten": "x.reshape(-1)",
    "float": "x.to(ad.float32)",
    "half": "x.to(ad.float16)",
    "int": "x.to(ad.int32)",
    "long": "x.to(ad.int64)",
    "masked_fill": "ad.where(mask, value, x)",
    "ravel": "x.reshape(-1)",
    "type": "x.dtype, or x.astype",
}


def missing(owner: str, name: str, hints: dict[str, str]) -> AttributeError:
    """The error for a name that isn't there, with what it is called here."""
    hint = f"; here it is {hints[name]}" if name in hints else ""
    return AttributeError(f"{owner} has no attribute {name!r}{hint}", name=name)


def missing_from_tensor(x: Any, name: str) -> Any:
    raise missing("a tensor", name, FUNCTIONS | METHODS)
