"""Module: what it finds among its attributes, its state, hooks, errors, and how it shows itself."""

import copy
import gc
import pickle
import threading
import weakref
from typing import Any, cast

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F
from tests.support.helpers import close


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, 2 * width)
        self.second = nn.Linear(2 * width, width)
        self.scale = nn.Parameter(ad.ones(()))
        self.register_buffer("count", ad.zeros((), dtype=ad.int64))
        self.register_buffer("scratch", ad.zeros(2), persistent=False)

    def forward(self, x: Any) -> Any:
        return x + self.scale * self.second(F.relu(self.first(x)))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(4) for _ in range(2)])
        self.head = nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


BLOCK = ["scale", "count", "first.weight", "first.bias", "second.weight", "second.bias"]
STATE = [
    *(f"blocks.{k}.{name}" for k in range(2) for name in BLOCK),
    "head.weight",
    "head.bias",
]


def values(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: x.numpy().copy() for name, x in module.state_dict().items()}


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return list(one) == list(other) and all(np.array_equal(one[k], other[k]) for k in one)


# Parameters


def test_a_parameter_is_a_leaf_with_its_own_values() -> None:
    x = ad.ones(2)
    p = nn.Parameter(x)
    x[0] = 5.0
    assert isinstance(p, ad.Tensor) and p.is_leaf and p.requires_grad
    assert p.tolist() == [1, 1]
    assert nn.Parameter([1.0, 2.0], requires_grad=False).requires_grad is False


def test_ops_on_parameters_give_plain_tensors() -> None:
    p = nn.Parameter(ad.ones(2))
    for out in (p * 2, p + p, ad.sin(p), p.detach(), p[0], p.reshape((1, 2)), ad.exp(p).sum()):
        assert type(out) is ad.Tensor


def test_integers_cannot_be_trained() -> None:
    with pytest.raises(TypeError, match="only float tensors"):
        nn.Parameter(ad.asarray([1, 2]))
    assert nn.Parameter(ad.asarray([1, 2]), requires_grad=False).dtype == ad.int64


COPIES = [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]


@pytest.mark.parametrize("copied", COPIES)
def test_copies_of_parameters_are_parameters(copied: Any) -> None:
    for requires_grad in (True, False):
        p = nn.Parameter(ad.asarray([1.0, 2.0]), requires_grad)
        other = copied(p)
        assert type(other) is nn.Parameter and other.requires_grad == requires_grad
        with ad.no_grad():
            other[0] = 9.0
        assert p.tolist() == [1, 2] and other.tolist() == [9, 2]


# What a module is made of


def test_names_are_those_of_pytorch_in_its_order() -> None:
    model = Network()
    assert list(model.state_dict()) == STATE
    names = [name for name, _ in model.named_parameters()]
    assert names == [name for name in STATE if not name.endswith("count")]
    assert [name for name, _ in model.named_buffers()] == [
        f"blocks.{k}.{name}" for k in range(2) for name in ("count", "scratch")
    ]
    assert [name for name, _ in model.named_modules()][:4] == [
        "",
        "blocks",
        "blocks.0",
        "blocks.0.first",
    ]
    assert [name for name, _ in model.named_children()] == ["blocks", "head"]
    assert [name for name, _ in model.named_parameters(recurse=False)] == []
    assert next(model.named_parameters(prefix="net"))[0] == "net.blocks.0.scale"


def test_names_and_order_agree_with_torch() -> None:
    torch = pytest.importorskip("torch")

    class Theirs(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.second = torch.nn.Linear(2, 3)
            self.p = torch.nn.Parameter(torch.ones(2))
            self.register_buffer("b", torch.ones(1))
            self.first = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
            self.again = self.second

    class Ours(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.second = nn.Linear(2, 3)
            self.p = nn.Parameter(ad.ones(2))
            self.register_buffer("b", ad.ones(1))
            self.first = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
            self.again = self.second

    ours, theirs = Ours(), Theirs()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for method in ("named_parameters", "named_modules", "named_children", "named_buffers"):
        listed = [[name for name, _ in getattr(m, method)()] for m in (ours, theirs)]
        assert listed[0] == listed[1], method


def test_a_shared_parameter_is_found_once_but_saved_in_each_place() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias", "1.bias"]
    doubled = model.named_parameters(remove_duplicate=False)
    assert [name for name, _ in doubled] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    model(ad.ones((1, 3))).sum().backward()
    assert model[0].weight.grad is model[1].weight.grad is not None


def test_a_module_may_do_without_calling_init() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(2, 2)

    assert len(list(Plain().parameters())) == 2 and Plain().training


class Mixin:
    def __init__(self, factor: int = 2) -> None:
        super().__init__()
        self.factor = factor


class Cooperative:
    """A mixin that takes its own arguments, and hands on the others."""

    def __init__(self, *args: Any, factor: int = 2, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.factor = factor


def by_name(self: Any) -> None:
    nn.Linear.__init__(self, 2, 3)
    Mixin.__init__(self, 5)


def by_name_before(self: Any) -> None:
    Mixin.__init__(self, 5)
    nn.Linear.__init__(self, 2, 3)


def of_module(self: Any) -> None:
    nn.Module.__init__(self)
    Mixin.__init__(self, 5)
    nn.Module.__init__(self)
    self.weight = nn.Parameter(ad.ones((3, 2)))


@pytest.mark.parametrize(
    ("bases", "initialize"),
    [
        ((nn.Linear, Mixin), by_name),
        ((nn.Linear, Mixin), by_name_before),
        ((nn.Module, Mixin), of_module),
        ((Mixin, nn.Module), of_module),
        ((Cooperative, nn.Linear), lambda self: Cooperative.__init__(self, 2, 3, factor=5)),
    ],
)
def test_mixins_come_before_or_after_a_module(bases: tuple, initialize: Any) -> None:
    layer = cast(Any, type("Layer", bases, {"__init__": initialize}))()
    assert layer.factor == 5 and layer.weight.shape == (3, 2) and layer.training


def test_init_hands_on_arguments_only_if_asked() -> None:
    class Asking(nn.Module, Mixin):
        call_super_init = True

        def __init__(self) -> None:
            super().__init__(factor=5)

    assert Asking().factor == 5
    for call, given in (
        (lambda: nn.Module(3), "Module: .* got 3;"),
        (lambda: type("Layer", (nn.Module, Mixin), {})(factor=5), "Layer: .* got factor=5;"),
    ):
        with pytest.raises(TypeError, match=given):
            call()
    assert not hasattr(type("Layer", (nn.Module, Mixin), {})(), "factor")


def test_attributes_may_be_set_before_init() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.layer, self.count = nn.Linear(2, 2), 3
            self.register_buffer("mean", ad.zeros(2))
            self.eval()
            super().__init__()

    early = Early()
    assert list(early.state_dict()) == ["mean", "layer.weight", "layer.bias"]
    assert early.count == 3 and not early.training


def test_attributes_that_are_deleted_are_gone() -> None:
    block = Block(2)
    del block.count, block.first
    assert "count" not in block.state_dict() and "first.weight" not in block.state_dict()
    block.count = "now anything"
    block.second = None
    assert list(block.state_dict()) == ["scale"]


def test_a_parameter_or_buffer_stays_one() -> None:
    block = Block(2)
    with pytest.raises(TypeError, match=r"Block.scale is a parameter.*nn.Parameter.*no_grad"):
        block.scale = ad.ones(())
    with pytest.raises(TypeError, match=r"Block.count is a buffer, and can't become a str"):
        block.count = "three"
    block.count = ad.ones((), dtype=ad.int64)
    assert block.state_dict()["count"].item() == 1
    block.scale = None
    assert "scale" not in block.state_dict()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.register_parameter("a.b", None), "a name without dots"),
        (lambda m: m.register_buffer("", None), "a name without dots"),
        (lambda m: m.register_module("forward", nn.Linear(1, 1)), "attribute 'forward' already"),
        (lambda m: m.register_parameter("p", ad.ones(1)), r"must be a Parameter, got float32\[1\]"),
        (lambda m: m.register_buffer("b", 3), "must be a tensor, got a int"),
        (lambda m: m.register_buffer("b", nn.Parameter(ad.ones(1))), "is a parameter"),
        (lambda m: m.register_module("m", 3), "must be a Module, got a int"),
        (lambda m: m.get_submodule("first.nope"), "Linear has no module 'nope', its modules.*none"),
        (lambda m: m.get_submodule("nope"), "its modules are: first, second"),
        (lambda m: m.get_parameter("first.w"), "the parameters there are: weight, bias"),
        (lambda m: m.train(1), "True or False"),
        (lambda m: m.to(ad.int32), "parameters are floats"),
        (lambda m: m.to("nowhere"), "nowhere"),
    ],
)
def test_wrong_arguments_are_explained(call: Any, message: str) -> None:
    with pytest.raises(ad.AdjointError, match=message):
        call(Block(2))


def test_paths_lead_to_modules_and_parameters() -> None:
    model = Network()
    assert model.get_submodule("blocks.1.first") is model.blocks[1].first
    assert model.get_submodule("") is model
    assert model.get_parameter("blocks.1.first.weight") is model.blocks[1].first.weight


def test_a_module_that_contains_itself_is_an_error_and_not_endless() -> None:
    model = nn.Sequential(nn.Linear(1, 1))
    model[0].parent = model
    assert len(list(model.modules())) == 2
    for call in (model.state_dict, model.train, model.eval, lambda: model.apply(id)):
        with pytest.raises(ValueError, match=r"'0\.parent' contains itself"):
            call()


# State


def test_a_state_is_not_changed_by_what_comes_later() -> None:
    model = Network()
    state = model.state_dict()
    before = {name: x.numpy().copy() for name, x in state.items()}
    optimizer = ad.optim.SGD(list(model.parameters()), lr=0.5)
    model(ad.ones((2, 4))).sum().backward()
    optimizer.step()
    assert same({name: x.numpy() for name, x in state.items()}, before)
    assert not same(values(model), before)
    model.load_state_dict(state)
    assert same(values(model), before)


def test_loading_keeps_the_objects() -> None:
    model, other = Network(), Network()
    parameters = list(model.parameters())
    assert model.load_state_dict(other.state_dict()) == ([], [])
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    x = ad.ones((2, 4))
    assert np.array_equal(model(x).detach().numpy(), other(x).detach().numpy())
    assert all(p.requires_grad and p.is_leaf for p in parameters)


def test_errors_of_loading_list_everything_and_change_nothing() -> None:
    model = Network()
    before = values(model)
    state: dict[str, Any] = Network().state_dict()
    del state["head.bias"], state["blocks.0.scale"]
    state["extra.weight"] = ad.ones(1)
    state["head.weight"] = ad.ones((3, 5))
    state["blocks.1.scale"] = "one"
    state["blocks.1.first.bias"] = ad.ones(8, dtype=ad.float64)
    with pytest.raises(ValueError) as caught:
        model.load_state_dict(state)
    message = str(caught.value)
    for part in (
        "Network.load_state_dict",
        "missing from the state: blocks.0.scale, head.bias",
        "unexpected in the state: extra.weight",
        "head.weight: the model has float32[3, 4], the state float32[3, 5]",
        "blocks.1.scale: a tensor is needed, got a str",
        "blocks.1.first.bias: the model has float32[8], the state float64[8]: cast one of them",
    ):
        assert part in message, message
    assert same(values(model), before)
    with pytest.raises(ValueError, match="mismatched"):
        model.load_state_dict(state, strict=False)
    with pytest.raises(TypeError, match="a dict of tensors is needed, got a list"):
        model.load_state_dict([])  # type: ignore[arg-type]


def saved_and_loaded(nn: Any, ones: Any, zeros: Any) -> tuple[list[str], list[float]]:
    """Names that children of their own kind save, and what they load: of either library."""

    class Quiet(nn.Module):  # saves less
        def __init__(self) -> None:
            super().__init__()
            self.p = nn.Parameter(ones(1))

        def state_dict(self, *args: Any, **kwargs: Any) -> Any:
            out = super().state_dict(*args, **kwargs)
            out.pop(kwargs["prefix"] + "p")
            return out

    class Renamed(nn.Linear):  # has had another name for its weight
        def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
            if prefix + "kernel" in state_dict:
                state_dict[prefix + "weight"] = 2 * state_dict.pop(prefix + "kernel")
            super()._load_from_state_dict(state_dict, prefix, *args)

        def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "kernel"] = destination.pop(prefix + "weight")

    model = nn.Sequential(nn.ModuleDict({"a": Renamed(1, 1)}), Quiet(), Renamed(1, 1, bias=False))
    names = list(model.state_dict())
    state = {"0.a.kernel": ones(1, 1), "0.a.bias": zeros(1), "2.weight": ones(1, 1) * 5}
    loaded = model.load_state_dict(state, strict=False)
    assert loaded.missing_keys == ["1.p"] and not loaded.unexpected_keys
    assert list(state) == ["0.a.kernel", "0.a.bias", "2.weight"]
    return names, [model[0]["a"].weight.item(), model[2].weight.item()]


def test_modules_below_may_save_and_load_in_their_own_way() -> None:
    found = saved_and_loaded(nn, lambda *shape: ad.ones(shape), lambda *shape: ad.zeros(shape))
    assert found == (["0.a.bias", "0.a.kernel", "2.kernel"], [2.0, 5.0])


def test_modules_below_save_and_load_as_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    ours = saved_and_loaded(nn, lambda *shape: ad.ones(shape), lambda *shape: ad.zeros(shape))
    assert ours == saved_and_loaded(torch.nn, torch.ones, torch.zeros)


def test_loading_that_is_not_strict_says_what_was_left() -> None:
    model = nn.Linear(2, 1)
    bias = model.bias.tolist()
    found = model.load_state_dict({"weight": ad.ones((1, 2)), "more": ad.ones(1)}, strict=False)
    assert found.missing_keys == ["bias"] and found.unexpected_keys == ["more"]
    assert model.weight.tolist() == [[1, 1]] and model.bias.tolist() == bias


def test_a_narrower_dtype_is_loaded_exactly() -> None:
    model = nn.Linear(2, 1, bias=False)
    model.load_state_dict({"weight": ad.asarray([[0.1, 0.2]], dtype=ad.float16)})
    assert model.weight.dtype == ad.float32
    assert model.weight.tolist() == np.array([[0.1, 0.2]], np.float16).tolist()


@pytest.mark.parametrize("copied", COPIES[1:])
def test_copies_of_modules_share_nothing(copied: Any) -> None:
    model = Network()
    other = copied(model)
    assert same(values(model), values(other)) and list(other.state_dict()) == STATE
    x = ad.ones((1, 4))
    assert np.array_equal(model(x).detach().numpy(), other(x).detach().numpy())
    with ad.no_grad():
        other.head.bias[...] = 7.0
    assert 7.0 not in model.head.bias.tolist()


def test_a_copy_keeps_shared_parameters_shared() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    other = copy.deepcopy(model)
    assert other[0].weight is other[1].weight is not model[0].weight


# Modes, devices, dtypes


def test_train_and_eval_reach_all_modules() -> None:
    model = Network()
    assert all(m.training for m in model.modules())
    assert model.eval() is model and not any(m.training for m in model.modules())
    assert model.train() is model and all(m.training for m in model.modules())


def switched(nn: Any) -> list[tuple[str, str, bool]]:
    """Which `train` and `eval` a model's switches call, in order: of either library."""
    calls: list[tuple[str, str, bool]] = []

    class Noting(nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name, self.shared = name, None

        def train(self, mode: bool = True) -> Any:
            calls.append((self.name, "train", mode))
            return super().train(mode)

    class NotingEval(nn.Module):
        def eval(self) -> Any:
            calls.append(("", "eval", False))
            return super().eval()

    class Frozen(nn.Module):
        def train(self, mode: bool = True) -> Any:
            return super().train(False)

    shared, outer = Noting("shared"), Noting("outer")
    outer.inner, outer.shared = Noting("inner"), shared
    model = nn.Sequential(
        nn.ModuleList([Noting("list"), shared, shared]),
        nn.ModuleDict({"a": Noting("dict"), "b": NotingEval()}),
        outer,
        Frozen(),
    )
    for switch in (model.eval, model.train, lambda: model.train(False), lambda: model.train(True)):
        assert switch() is model
        calls += [(type(part).__name__, "training", part.training) for part in model.modules()]
    return calls


def test_train_and_eval_call_those_of_the_modules_below() -> None:
    calls = switched(nn)
    names = ["list", "shared", "dict", "outer", "inner", "shared"]
    assert [call for call in calls if call[1] != "training"] == [
        (name, "train", mode) for mode in (False, True, False, True) for name in names
    ]
    frozen = {call[2] for call in calls if call[0] == "Frozen"}
    assert frozen == {False}


def test_train_and_eval_call_what_those_of_torch_call() -> None:
    torch = pytest.importorskip("torch")
    assert switched(nn) == switched(torch.nn)


def test_weights_that_are_merged_for_evaluation_are_merged() -> None:
    class LoRALayer:  # as in loralib
        def __init__(self, r: int, alpha: float) -> None:
            self.r, self.scaling, self.merged = r, alpha / r, False

    class LoRALinear(nn.Linear, LoRALayer):
        def __init__(self, inputs: int, outputs: int, r: int, alpha: float = 1.0) -> None:
            nn.Linear.__init__(self, inputs, outputs)
            LoRALayer.__init__(self, r, alpha)
            self.lora_A = nn.Parameter(ad.random.normal((r, inputs)))
            self.lora_B = nn.Parameter(ad.random.normal((outputs, r)))
            self.weight.requires_grad = False

        def train(self, mode: bool = True) -> Any:
            nn.Linear.train(self, mode)
            if self.merged is mode:
                with ad.no_grad():
                    change = self.lora_B @ self.lora_A * self.scaling
                    self.weight[...] = self.weight - change if mode else self.weight + change
                self.merged = not mode
            return self

        def forward(self, x: Any) -> Any:
            out = F.linear(x, self.weight, self.bias)
            return out if self.merged else out + x @ self.lora_A.T @ self.lora_B.T * self.scaling

    ad.random.seed(0)
    model, x = nn.Sequential(LoRALinear(4, 3, r=2), nn.ReLU()), ad.random.normal((5, 4))
    weight, out = model[0].weight.numpy().copy(), model(x)
    model.summary(x)  # which evaluates, and leaves all as it was
    assert not model[0].merged and model[0].training
    model.eval()
    assert model[0].merged and not np.allclose(model[0].weight.numpy(), weight)
    close(model(x), out.detach().numpy(), 1e-5)
    model.train()
    assert not model[0].merged
    close(model[0].weight, weight, 1e-6)


def test_changing_the_dtype_keeps_objects_gradients_and_integers() -> None:
    model = Network()
    parameters = list(model.parameters())
    model(ad.ones((2, 4))).sum().backward()
    former = model.head.weight.grad.numpy().copy()
    assert model.double() is model
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    assert {p.dtype for p in model.parameters()} == {ad.float64}
    assert model.blocks[0].count.dtype == ad.int64
    close(model.head.weight.grad, former)
    model(ad.ones((2, 4), dtype=ad.float64)).sum().backward()
    assert model.head.weight.grad.dtype == ad.float64
    close(model.head.weight.grad, 2 * former, 1e-6)
    assert model.float().head.weight.dtype == ad.float32
    assert model.half().head.weight.dtype == ad.float16


def test_an_optimizer_goes_on_after_a_change_of_dtype_before_its_first_step() -> None:
    model = nn.Linear(2, 1)
    optimizer = ad.optim.SGD(list(model.parameters()), lr=0.1)
    model.double()
    weight = model.weight.detach().numpy().copy()
    model(ad.ones((1, 2), dtype=ad.float64)).sum().backward()
    optimizer.step()
    close(model.weight, weight - 0.1, 1e-12)


def test_freezing_stops_gradients() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    model(ad.ones((1, 2))).sum().backward()
    assert model[0].weight.grad is None and model[1].weight.grad is not None
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_apply_calls_from_below() -> None:
    model = Network()
    seen: list[nn.Module] = []
    assert model.apply(seen.append) is model
    assert seen[-1] is model and len(seen) == len(list(model.modules()))
    assert seen.index(model.blocks[0].first) < seen.index(model.blocks[0])


@pytest.mark.webgpu
def test_a_module_moves_to_a_gpu_and_back() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    expected = model(ad.ones((2, 3))).detach().numpy()
    before = values(model)
    parameters = list(model.parameters())
    model.to("webgpu")
    assert all(p.device == "webgpu" for p in parameters)
    out = model(ad.ones((2, 3), device="webgpu"))
    out.sum().backward()
    assert parameters[0].grad.device == "webgpu"
    close(out.detach().to("cpu"), expected, 1e-5)
    model.load_state_dict({name: ad.asarray(x) for name, x in before.items()})
    assert parameters[0].device == "webgpu"
    assert model.cpu().state_dict()["0.weight"].device == "cpu" and same(values(model), before)
    assert parameters[0].grad.device == "cpu"


# Calls


def test_hooks_run_in_order_and_may_replace() -> None:
    layer = nn.Identity()
    order = []

    def note(name: str, result: Any = None) -> Any:
        def hook(module: Any, args: Any, *out: Any) -> Any:
            assert module is layer
            order.append((name, args[0].item(), *(x.item() for x in out)))
            return result

        return hook

    handles = [
        layer.register_forward_pre_hook(note("before", ad.asarray(2.0))),
        layer.register_forward_pre_hook(note("again")),
        layer.register_forward_hook(note("after", ad.asarray(5.0))),
        layer.register_forward_hook(note("last")),
    ]
    assert layer(ad.asarray(1.0)).item() == 5
    assert order == [("before", 1), ("again", 2), ("after", 2, 2), ("last", 2, 5)]
    for handle in handles:
        handle.remove()
    assert layer(ad.asarray(1.0)).item() == 1 and len(order) == 4


def test_a_hook_may_remove_itself() -> None:
    layer, calls = nn.Identity(), []
    handle = layer.register_forward_hook(lambda *given: (calls.append(1), handle.remove())[0])
    for _ in range(2):
        layer(1)
    assert len(calls) == 1


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match="ModuleList has no method forward"):
        nn.ModuleList()(1)


@pytest.mark.parametrize(
    ("width", "where"),
    [(5, r"^in layer blocks.0.first \(Linear\): linear: x of shape \(2, 5\)")],
)
def test_an_error_names_the_path_of_its_layer(width: int, where: str) -> None:
    with pytest.raises(ValueError, match=where) as caught:
        Network()(ad.ones((2, width)))
    assert str(caught.value).count("in layer") == 1


def test_the_path_is_that_from_the_module_which_was_called() -> None:
    model = Network()
    for module, where in (
        (model, r"in layer blocks.1.second \("),
        (model.blocks[1], r"in layer second \("),
        (model.blocks[1].second, r"in Linear: "),
    ):
        model.blocks[1].second = nn.Linear(9, 4)
        module = model.blocks[1].second if "Linear:" in where else module
        with pytest.raises(ValueError, match=where):
            module(ad.ones((2, 4)))


def test_errors_of_others_get_a_note() -> None:
    class Broken(nn.Module):
        def forward(self, x: Any) -> Any:
            raise KeyError("nothing of ours")

    with pytest.raises(KeyError) as caught:
        nn.Sequential(nn.Identity(), nn.Sequential(Broken()))(1)
    assert caught.value.__notes__ == ["in layer 1.0 (Broken)"]
    assert caught.value.args == ("nothing of ours",)


def test_one_error_raised_twice_is_located_once() -> None:
    error = ad.ShapeError("wrong")

    class Broken(nn.Module):
        def forward(self, x: Any) -> Any:
            raise error

    model = nn.Sequential(Broken())
    for _ in range(2):
        with pytest.raises(ad.ShapeError, match=r"^in layer 0 \(Broken\): wrong$"):
            model(1)


def test_modules_work_in_several_threads() -> None:
    model = Network()
    x = ad.ones((2, 4))
    expected = model(x).detach().numpy()
    found: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: found.append(model(x).detach().numpy())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(np.array_equal(out, expected) for out in found)


def test_a_module_is_freed_at_once() -> None:
    gc.disable()
    try:
        model = Network()
        model(ad.ones((2, 4))).sum().backward()
        gone = weakref.ref(model)
        del model
        assert gone() is None
    finally:
        gc.enable()


# Containers


def test_sequential_is_a_list_that_is_called() -> None:
    layers = [nn.Linear(2, 3), nn.Identity(), nn.Linear(3, 1)]
    model = nn.Sequential(*layers)
    assert len(model) == 3 and list(model) == layers and model[-1] is layers[2]
    assert isinstance(model[:2], nn.Sequential) and list(model[:2]) == layers[:2]
    assert layers[1] in model and nn.Identity() not in model
    del model[1]
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    model.insert(0, layers[1]).append(nn.Identity()).extend([nn.Identity()])
    assert [type(m).__name__ for m in model] == [
        "Identity",
        "Linear",
        "Linear",
        "Identity",
        "Identity",
    ]
    model[0] = nn.Linear(2, 2)
    assert next(iter(model.state_dict())) == "0.weight"
    assert model(ad.ones((4, 2))).shape == (4, 1)


def test_one_module_may_be_in_a_container_twice() -> None:
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, layer)
    assert len(model) == 2 and len(list(model.parameters())) == 2
    close(model(ad.ones((1, 2))), layer(layer(ad.ones((1, 2)))).detach().numpy())


def test_a_sequential_of_names() -> None:
    model = nn.Sequential({"a": nn.Linear(2, 2), "b": nn.Identity()})
    assert list(model.state_dict()) == ["a.weight", "a.bias"] and model.b is model[1]


def test_a_dict_of_modules() -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 2)})
    model["b"] = nn.Identity()
    assert list(model) == ["a", "b"] and "a" in model and len(model) == 2
    assert dict(model.items())["b"] is model["b"]
    del model["a"]
    assert model.keys() == ["b"] and not list(model.parameters())
    with pytest.raises(ValueError, match="'keys' already"):
        model["keys"] = nn.Identity()
    with pytest.raises(KeyError):
        model["zzz"]


def test_a_list_of_parameters() -> None:
    own = nn.Parameter(ad.ones(2))
    found = nn.ParameterList([own, ad.zeros(3)]).append(ad.ones(1))
    model = nn.Sequential({"factors": found})
    assert list(model.state_dict()) == ["factors.0", "factors.1", "factors.2"]
    assert found[0] is own and own in found and ad.ones(2) not in found
    assert [p.shape for p in found] == [(2,), (3,), (1,)] and all(p.requires_grad for p in found)
    assert [p.shape for p in found[1:]] == [(3,), (1,)] and found[-3:][0] is own
    found[-1] = ad.ones(5)
    found += [ad.ones(7)]
    assert [p.shape for p in found] == [(2,), (3,), (5,), (7,)] and len(found) == 4
    assert repr(found[:2]) == "ParameterList((0): float32[2], (1): float32[3])"
    (found[0].sum() * 3).backward()
    assert own.grad is not None and own.grad.tolist() == [3, 3]
    assert list(copy.deepcopy(found).state_dict()) == ["0", "1", "2", "3"]


def test_a_dict_of_parameters() -> None:
    own = nn.Parameter(ad.ones(2))
    found = nn.ParameterDict({"b": own})
    found["a"] = ad.zeros(3)
    model = nn.Sequential({"scales": found})
    assert list(model.state_dict()) == ["scales.b", "scales.a"] and list(found) == ["b", "a"]
    assert found["b"] is own and "a" in found and "c" not in found and len(found) == 2
    assert found.get("b") is own and found.get("c") is None
    assert dict(found.items())["a"] is found.values()[1]
    found.update([("a", ad.ones(1)), ("c", ad.ones(4))])
    assert [p.shape for p in model.parameters()] == [(2,), (1,), (4,)]
    assert found.pop("b") is own and found.keys() == ["a", "c"]
    del found["a"]
    found.clear()
    assert not list(model.parameters())
    with pytest.raises(KeyError):
        found["b"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.ParameterList(cast(Any, [3])), TypeError, "parameters or tensors.*, got a int"),
        (lambda: nn.ParameterList()[0], IndexError, "no parameter 0, only 0"),
        (lambda: nn.ParameterDict({"keys": ad.ones(1)}), ValueError, "'keys' already"),
        (lambda: nn.ParameterDict({"a.b": ad.ones(1)}), ValueError, "without dots"),
        (lambda: nn.Sequential(ad.relu), TypeError, "modules are needed, got a function"),
        (lambda: nn.Sequential([nn.Identity()]), TypeError, "modules are needed, got a list"),
        (lambda: nn.ModuleList(cast(Any, [3])), TypeError, "ModuleList: modules.*, got a int"),
        (lambda: nn.ModuleList()[0], IndexError, "no module 0, only 0"),
    ],
)
def test_wrong_contents_are_explained(call: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


# What people see


def test_repr_shows_the_tree() -> None:
    assert repr(nn.Sequential(nn.Linear(1, 2), nn.Sequential(nn.Identity()))) == (
        "Sequential(\n"
        "  (0): Linear(in_features=1, out_features=2, bias=True)\n"
        "  (1): Sequential(\n"
        "    (0): Identity()\n"
        "  )\n"
        ")"
    )


def test_repr_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = (
        lib.Sequential(lib.Identity(), lib.Sequential(lib.Linear(2, 1, bias=False)))
        for lib in (nn, torch.nn)
    )
    assert repr(ours) == repr(theirs)


def test_a_summary_counts() -> None:
    model = Network()
    model.head.requires_grad_(False)
    found = model.summary((2, 4))
    assert found.parameters == sum(p.size for p in model.parameters()) == 169
    assert found.trainable == 169 - 15
    assert found.parameter_bytes == 4 * 169 and found.buffer_bytes == 2 * (8 + 8)
    # two blocks of Linear(4, 8) and Linear(8, 4), and the head, for two rows
    assert found.output_bytes == 4 * 2 * (2 * (8 + 4) + 3)
    rows = {row.path: row for row in found.rows}
    assert (
        rows["blocks.1.first"].output == "float32[2, 8]" and rows["blocks"].output == "not called"
    )
    assert rows["head"].parameters == 15 and rows["head"].bytes == 60
    assert "15 of them frozen" in repr(found)


def test_a_summary_leaves_everything_as_it_was() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", ad.zeros(()))

        def forward(self, x: Any) -> Any:
            assert not self.training
            self.count += 1
            return x + ad.random.normal(x.shape)

    model = nn.Sequential(Counting(), nn.Identity().eval())
    ad.random.seed(3)
    first = ad.random.normal((2,)).tolist()
    ad.random.seed(3)
    model.summary((2, 2))
    assert ad.random.normal((2,)).tolist() == first
    assert model[0].count.item() == 0 and model[0].training and not model[1].training
    assert model[0]._hooks is None or not model[0]._hooks.after


def test_a_summary_takes_tensors_too() -> None:
    rows = nn.Sequential(nn.Linear(2, 3)).summary(ad.ones((5, 2))).rows
    assert rows[0].output == "float32[5, 3]"


def test_a_profile_shows_modules_by_their_paths() -> None:
    model = Network()
    with ad.profile(quiet=True) as p:
        model(ad.ones((2, 4)))
        model.blocks[0](ad.ones((2, 4)))
    calls = {row.name: row.calls for row in p.regions}
    assert calls["Network"] == calls["head"] == calls["blocks.1.first"] == 1
    assert calls["Block"] == calls["first"] == calls["blocks.0"] == 1


def test_parts_are_in_the_order_in_which_they_came() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = None
            self.register_parameter("reserved", None)
            self.body = nn.Linear(1, 1)
            self.head = nn.Linear(1, 1)
            self.last = nn.Parameter(ad.ones(1))
            self.reserved = nn.Parameter(ad.ones(1))

    names = [name for name, _ in Late().named_parameters()]
    assert names == ["reserved", "last", "body.weight", "body.bias", "head.weight", "head.bias"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda m: m.register_buffer("first", ad.ones(1)), ValueError),
        (lambda m: m.register_module("scale", nn.Identity()), ValueError),
        (lambda m: setattr(m, "first", 3), TypeError),
        (lambda m: setattr(m, "scale", nn.Identity()), TypeError),
    ],
)
def test_parts_are_not_lost_by_mistake(change: Any, error: type) -> None:
    block = Block(2)
    before = values(block)
    with pytest.raises(error):
        change(block)
    assert same(values(block), before)


def test_a_parameter_in_place_of_a_buffer_is_a_parameter_only() -> None:
    block = Block(2)
    block.count = nn.Parameter(ad.ones(()))
    assert "count" in dict(block.named_parameters()) and "count" not in dict(block.named_buffers())
    assert list(block.state_dict()).count("count") == 1


def test_names_of_layers_stay_what_they_are_in_files() -> None:
    named = nn.Sequential({"first": nn.Linear(1, 1), "act": nn.Identity()})
    assert list(named.append(nn.Linear(1, 1)).state_dict())[::2] == ["first.weight", "2.weight"]
    model = nn.Sequential(*(nn.Linear(1, 1, bias=False) for _ in range(3)))
    assert list(model[1:].state_dict()) == ["1.weight", "2.weight"]
    layers = nn.ModuleList(list(model))
    assert list(layers[1:].state_dict()) == ["0.weight", "1.weight"]


def test_errors_with_attributes_of_their_own_pass_through() -> None:
    class ParseError(Exception):
        location = (3, 4)

    class Broken(nn.Module):
        def forward(self, x: Any) -> Any:
            raise ParseError("at line 3")

    with pytest.raises(ParseError) as caught:
        nn.Sequential(Broken())(1)
    assert caught.value.location == (3, 4)


def test_errors_of_layers_can_be_pickled_without_the_model() -> None:
    model = nn.Sequential(nn.Linear(100, 100))
    model[0].function = lambda: None  # which can't be pickled
    with pytest.raises(ad.ShapeError) as caught:
        model(ad.ones((1, 3)))
    text = pickle.dumps(caught.value)
    assert len(text) < 2000 and str(pickle.loads(text)) == str(caught.value)


def test_calls_after_a_summary_are_those_of_modules_without_hooks() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    handle = model[0].register_forward_hook(lambda *given: None)
    model.summary((1, 2))
    assert model._hooks is None and model[0]._hooks is not None
    handle.remove()


def test_zeroed_gradients_and_buffers_by_path() -> None:
    block = Block(2)
    block(ad.ones((1, 2))).sum().backward()
    block.zero_grad(set_to_none=False)
    assert block.first.weight.grad.tolist() == np.zeros((4, 2)).tolist()
    assert nn.Sequential(block).get_buffer("0.count") is block.count
    with pytest.raises(ValueError, match="the buffers there are: count, scratch"):
        block.get_buffer("nothing")


def test_a_step_after_a_cast_changes_nothing_and_says_why() -> None:
    model = nn.Linear(2, 1)
    optimizer = ad.optim.Adam(model.parameters())
    model(ad.ones((1, 2))).sum().backward()
    optimizer.step()
    model.double()
    before = values(model)
    model(ad.ones((1, 2), dtype=ad.float64)).sum().backward()
    with pytest.raises(TypeError, match="moved or cast after the first step"):
        optimizer.step()
    assert same(values(model), before)


def test_data_can_be_replaced() -> None:
    layer = nn.Linear(2, 1, bias=False)
    state = layer.state_dict()
    before = layer.weight.tolist()
    layer.weight.data *= 0.5
    assert state["weight"].tolist() == before
    close(layer.weight, np.array(before) * 0.5)
    layer.weight.data = ad.ones((1, 2))
    layer(ad.ones((1, 2))).sum().backward()
    assert layer.weight.tolist() == [[1, 1]] == layer.weight.grad.tolist()
    assert type(layer.weight) is nn.Parameter and layer.weight.requires_grad


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (3.0, TypeError, "a tensor is needed, got float"),
        (np.ones((1, 2)), TypeError, "a tensor is needed, got ndarray"),
        (ad.ones((2, 2)), ValueError, r"the value is float32\[2, 2\], the tensor float32\[1, 2\]"),
        (ad.ones((1, 2), dtype=ad.float64), TypeError, "their dtypes must be equal"),
    ],
)
def test_data_stays_what_it_is(value: Any, error: type, message: str) -> None:
    weight = nn.Linear(2, 1).weight
    with pytest.raises(error, match=message):
        weight.data = value


def test_data_of_what_was_computed_stays() -> None:
    y = nn.Linear(2, 1).weight * 2
    with pytest.raises(ad.GradientError, match="computed by multiply"):
        y.data = ad.ones((1, 2))


@pytest.mark.webgpu
def test_a_module_that_cannot_move_stays_where_it_is() -> None:
    model = nn.Sequential(nn.Linear(2, 2), Block(2))
    with pytest.raises(ad.AdjointError, match=r"^1\.count: .*int64"):
        model.to("webgpu")
    assert {x.device for x in (*model.parameters(), *model.buffers())} == {"cpu"}
