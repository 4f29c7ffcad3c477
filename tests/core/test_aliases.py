"""`x.data` is another name of a leaf; in-place methods change tensors, and through it the leaf."""

import copy
import gc
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.functions.aliases import Alias
from tests.support.helpers import DEVICES, as_tuple, needs_kernels
from tests.support.records import ADJOINT, TABLE, Record

VALUES = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def parameter(device: str = "cpu") -> ad.Tensor:
    return ad.tensor(VALUES, requires_grad=True, device=device)


# What writes through: each case changes `x` in NumPy, and p through p.data.


def write_rows(data: Any) -> None:
    for row in data:
        row *= 2


def augmented_part(data: Any) -> None:
    data[1] += 3


def augmented_part_of_part(data: Any) -> None:
    data[1][:2] *= 3


WRITES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "element": (lambda d: d.__setitem__((0, 1), 9), lambda x: x.__setitem__((0, 1), 9)),
    "row": (lambda d: d.__setitem__(0, 9), lambda x: x.__setitem__(0, 9)),
    "mask": (lambda d: d.__setitem__(d > 2, 0), lambda x: x.__setitem__(x > 2, 0)),
    "indices": (lambda d: d.__setitem__([1], -1), lambda x: x.__setitem__([1], -1)),
    "all": (lambda d: d.__setitem__(..., 5), lambda x: x.__setitem__(..., 5)),
    "part of a part": (
        lambda d: d[0].__setitem__(1, 9),
        lambda x: x[0].__setitem__(1, 9),
    ),
    "add_ alpha": (lambda d: d.add_(d * 2, alpha=-0.5), lambda x: np.subtract(x, x, x)),
    "chain": (lambda d: d.mul_(2).add_(1), lambda x: np.copyto(x, x * 2 + 1)),
    "sub_": (lambda d: d.sub_(1), lambda x: np.subtract(x, 1, x)),
    "sub_ alpha": (lambda d: d.sub_(d * 1, alpha=2), lambda x: np.negative(x, x)),
    "mul_": (lambda d: d.mul_(d * 1), lambda x: np.multiply(x, x, x)),
    "mul_ itself": (lambda d: d.mul_(d), lambda x: np.multiply(x, x, x)),
    "div_": (lambda d: d.div_(2), lambda x: np.divide(x, 2, x)),
    "zero_": (lambda d: d.zero_(), lambda x: x.fill(0)),
    "fill_": (lambda d: d.fill_(7), lambda x: x.fill(7)),
    "copy_": (lambda d: d.copy_(d[0] * 1), lambda x: np.copyto(x, x[0])),
    "clamp_": (lambda d: d.clamp_(2, 4), lambda x: np.clip(x, 2, 4, out=x)),
    "part fill_": (lambda d: d[0].fill_(0), lambda x: x[0].fill(0)),
    "part of part zero_": (lambda d: d[:, 1:][0].zero_(), lambda x: x[:, 1:][0].fill(0)),
    "reversed": (lambda d: d[::-1, -1].mul_(3), lambda x: x[::-1, -1].__imul__(3)),
    "new axis": (lambda d: d[None, 1].clamp_(max=5), lambda x: np.minimum(x[1], 5, out=x[1])),
    "a row to itself": (lambda d: d.__setitem__(0, d[1]), lambda x: x.__setitem__(0, x[1])),
    "rows": (write_rows, write_rows),
    "part +=": (augmented_part, augmented_part),
    "part of part *=": (augmented_part_of_part, augmented_part_of_part),
    "operator": (lambda d: d.__itruediv__(2), lambda x: x.__itruediv__(2)),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_to_data_is_written_to_the_tensor(name: str, device: str) -> None:
    ours, theirs = WRITES[name]
    p, x = parameter(device), np.array(VALUES, np.float32)
    before, saved = p.detach(), p * p
    ours(p.data)
    theirs(x)
    np.testing.assert_array_equal(p.detach().numpy(), x)
    assert p.requires_grad and p.is_leaf
    assert before.tolist() == VALUES  # values stay what they were
    saved.sum().backward()  # and so does what was saved for backward
    assert p.grad.tolist() == (2 * np.array(VALUES)).tolist()


def test_assigning_what_was_changed_in_place_is_no_second_change(device: str) -> None:
    p = parameter(device)
    name = p.data
    p.data *= 2
    p.data[0] -= 1
    assert p.tolist() == name.tolist() == [[1, 3, 5], [8, 10, 12]]
    assert p.data is name


def test_gradients_are_scaled_through_data(device: str) -> None:
    p = parameter(device)
    (p * 3).sum().backward()
    p.grad.data.mul_(10)
    assert p.grad.tolist() == [[30] * 3] * 2
    p.grad.data.zero_()
    assert p.grad.tolist() == [[0] * 3] * 2


def test_init_fills_through_data(device: str) -> None:
    p = parameter(device)
    nn.init.constant_(p.data, 2.0)
    assert p.tolist() == [[2] * 3] * 2
    nn.init.normal_(p.data)
    nn.init.zeros_(p.data[0])
    assert p.tolist()[0] == [0] * 3 and p.tolist()[1] != [2] * 3
    ad.random.seed(3)
    p.data.uniform_(5, 6)
    ad.random.seed(3)
    assert p.tolist() == ad.random.uniform((2, 3), 5, 6, device=device).tolist()


def test_values_that_require_grad_are_written_without_their_graph() -> None:
    p, w = parameter(), ad.ones((2, 3), requires_grad=True)
    p.data.add_(w)
    p.data[0] = w[0]
    assert p.is_leaf and p.requires_grad
    assert p.tolist() == [[1, 1, 1], [5, 6, 7]]


def test_an_alias_shows_what_happens_to_the_tensor() -> None:
    p = nn.Parameter(ad.ones(3))
    name, part = p.data, p.data[1:]
    (p * 2).sum().backward()
    ad.optim.SGD([p], lr=0.5).step()
    assert name.tolist() == [0, 0, 0] and part.tolist() == [0, 0]
    with ad.no_grad():
        p[...] = 4
    assert name.tolist() == [4, 4, 4] and part.tolist() == [4, 4]


def test_an_alias_does_not_make_the_tensors_memory_shared() -> None:
    p = ad.tensor(np.ones(50_000, "f4"), requires_grad=True)
    name, part = p.data, p.data[10:]
    address = p.raw.ctypes.data
    name.mul_(ad.full((50_000,), 2.0))
    name.add_(ad.ones(50_000), alpha=0.5)
    name[0] = 7
    part[3] = 8
    name.fill_(4)
    assert p.raw.ctypes.data == address
    assert p.tolist() == [4] * 50_000


@needs_kernels
def test_optimizers_overwrite_a_tensor_that_has_an_alias() -> None:
    p = ad.tensor(np.ones(50_000, "f4"), requires_grad=True)
    name, part = p.data, p.data[10:]
    address = p.raw.ctypes.data
    (p * 1).sum().backward()
    ad.optim.SGD([p], lr=0.5).step()
    assert p.raw.ctypes.data == address
    assert name.tolist() == [0.5] * 50_000 and part.tolist() == name.tolist()[10:]


# Assigning to data.


def test_assigning_data_ends_aliases_which_keep_the_values(device: str) -> None:
    p, shadow = parameter(device), ad.zeros((2, 3), device=device)
    kept = p.data
    row = kept[0]
    p.data = shadow
    assert p.tolist() == [[0] * 3] * 2 and kept.tolist() == VALUES and row.tolist() == VALUES[0]
    p.data.fill_(1)
    assert kept.tolist() == VALUES and shadow.tolist() == [[0] * 3] * 2
    p.data = kept
    assert p.tolist() == VALUES
    kept[0] = 0  # it isn't a name of p any more
    assert row.tolist() == [0] * 3 and p.tolist() == VALUES


def test_data_of_a_tensor_that_needs_no_gradient_is_an_alias_too() -> None:
    x = ad.tensor(VALUES)
    x.data[0] = 0
    assert x.tolist()[0] == [0] * 3
    assert not x.requires_grad


def test_data_of_data_is_data() -> None:
    p = parameter()
    assert p.data.data is p.data
    p.data.data.mul_(2)
    p.data.data *= 2
    assert p.tolist() == (4 * np.array(VALUES)).tolist()
    with pytest.raises(ad.GradientError, match=r"\.data of a tensor already"):
        p.data.data = ad.zeros((2, 3))


# What is a value.


def test_other_views_and_selections_are_values() -> None:
    p = parameter()
    for value in (p.data.T, p.data.reshape(-1), p.data[[0]], p.data[p.data > 2], p.data.detach()):
        assert not isinstance(value, Alias)
        value[0] = 99
    assert p.tolist() == VALUES


FUNCTIONS = [record for record in TABLE if record.name != "x[i]"]


@pytest.mark.parametrize("record", FUNCTIONS, ids=lambda r: f"{r.name}-{r.case}")
def test_functions_of_an_alias_give_values(record: Record) -> None:
    arrays = [ad.asarray(a) for a in record.arrays]
    expected = as_tuple(record.call(ADJOINT, *arrays))
    for out, other in zip(
        as_tuple(record.call(ADJOINT, *(x.data for x in arrays))), expected, strict=True
    ):
        assert not isinstance(out, Alias)
        np.testing.assert_array_equal(out.numpy(), other.numpy())


def test_copies_of_an_alias_are_values() -> None:
    p = parameter()
    copies = [
        ad.asarray(p.data),
        ad.tensor(p.data),
        p.data.to("cpu"),
        p.data.to(ad.float32),
        p.data.astype(ad.float32, copy=False),
        +p.data,
        copy.copy(p.data),
        copy.deepcopy(p.data),
        pickle.loads(pickle.dumps(p.data)),
        p.data.detach(),
        copy.copy(p.data[:]),
        nn.Parameter(p.data).detach(),
    ]
    for value in copies:
        assert not isinstance(value, Alias) and not value.requires_grad
    p.data.zero_()
    assert all(value.tolist() == VALUES for value in copies)
    assert nn.Parameter(p.data).requires_grad


def test_a_state_dict_has_values() -> None:
    layer = nn.Linear(2, 2)
    state, before = layer.state_dict(), layer.weight.tolist()
    layer.weight.data.zero_()
    assert state["weight"].tolist() == before
    state["weight"].add_(1)
    assert layer.weight.tolist() == [[0, 0], [0, 0]]
    layer.register_buffer("mean", layer.weight.data)
    layer.weight.data.fill_(5)
    assert layer.state_dict()["mean"].tolist() == [[5, 5], [5, 5]]  # as PyTorch's


def test_an_alias_never_requires_grad() -> None:
    p = parameter()
    (p.data * p).sum().backward()
    assert p.grad.tolist() == VALUES
    assert p.data.grad is None and not p.data.requires_grad and p.data.is_leaf
    assert p.data.requires_grad_(False) is p.data
    with pytest.raises(ad.GradientError, match=r"x\.detach\(\)\.requires_grad_\(\)"):
        p.data.requires_grad_()
    with pytest.raises(ad.GradientError, match=r"x\.detach\(\)\.requires_grad_\(\)"):
        p.data.requires_grad = True
    with pytest.raises(ad.GradientError, match=r"set x\.grad"):
        p.data.grad = p
    assert repr(p.data) == repr(p.detach())


def test_data_of_what_was_computed_is_a_value_without_a_graph() -> None:
    p = parameter()
    y = p * 2
    value = y.data
    y += 1
    assert value.tolist() == (2 * np.array(VALUES)).tolist()
    assert (value * 2).node is None and not isinstance(value.sum(), Alias)
    node = y.node
    assert not any(found is node for found in gc.get_referents(value))


@pytest.mark.parametrize(
    "write",
    [
        lambda d: d.__setitem__(0, 1),
        lambda d: d.add_(1),
        lambda d: d[0].fill_(1),
        lambda d: d.__imul__(2),
        lambda d: d.uniform_(),
    ],
)
def test_data_of_what_was_computed_refuses_to_be_written_to(write: Callable) -> None:
    y = parameter() * 2
    with pytest.raises(ad.GradientError, match=r"computed by multiply.*x\.detach\(\)"):
        write(y.data)
    assert y.tolist() == (2 * np.array(VALUES)).tolist()


def test_an_alias_whose_tensor_is_computed_later_refuses_to_be_written_to() -> None:
    x, w = ad.tensor([1.0, 2.0]), ad.tensor(3.0, requires_grad=True)
    name = x.data
    x[0] = w
    assert name.tolist() == [3, 2]
    with pytest.raises(ad.GradientError, match=r"x\.detach\(\)"):
        name[1] = 5


def test_a_failed_write_changes_nothing() -> None:
    p = parameter()
    with pytest.raises(ValueError, match="shape"):
        p.data.add_(ad.ones(5))
    with pytest.raises(ValueError, match="doesn't fit"):
        p.data[0] = ad.ones(5)
    with pytest.raises(IndexError):
        p.data[0][7] = 1
    assert p.tolist() == VALUES


# With traces, transforms and threads.


def test_a_trace_writes_through_at_replay() -> None:
    p = parameter()

    def step(x: ad.Tensor) -> ad.Tensor:
        p.data.add_(x)
        p.data[0][1:] *= 2
        kept = p.data
        p.data = kept * 10
        return kept.sum() + p.data.sum()

    graph = ad.trace(step, ad.ones((2, 3)))
    assert p.tolist() == VALUES
    expected = parameter()
    p, other = expected, p
    total = step(ad.ones((2, 3)))
    p = other
    assert graph(ad.ones((2, 3))).item() == total.item()
    assert p.tolist() == expected.tolist()


def test_a_trace_reads_an_alias_from_outside_anew() -> None:
    p = parameter()
    name, part = p.data, p.data[1]
    graph = ad.trace(lambda x: name.sum() + part.sum() + x, ad.tensor(0.0))
    p.data.fill_(1)
    assert graph(ad.tensor(0.0)).item() == 9
    assert len(graph.captures) == 1


def test_a_trace_does_not_end_an_alias_from_outside() -> None:
    p = parameter()
    name = p.data

    def step() -> None:
        p.data = p.data * 2

    with pytest.raises(ad.TraceError, match="before the function was traced"):
        ad.trace(step)
    name.fill_(3)
    assert p.tolist() == [[3] * 3] * 2


def test_a_graph_writes_through_an_argument() -> None:
    p = parameter()

    def step(name: ad.Tensor) -> ad.Tensor:
        name.add_(1)
        return name.sum()

    for argument, total, first in ((p.data, 27, 2), (p.data[0], 12, 3)):
        assert ad.trace(step, argument)(argument).item() == total
        assert p.tolist()[0] == [first, first + 1, first + 2]
    w = ad.ones((2, 3), requires_grad=True)
    ad.trace(lambda x, y: x.add_(y).sum(), ad.ones((2, 3)), w)(p.data, w)
    assert p.is_leaf and not p.data.requires_grad and p.tolist()[0] == [4, 5, 6]


def test_a_trace_refuses_two_names_of_one_tensor() -> None:
    p = parameter()
    for arguments in ((p.data, p), (p, p.data), (p.data[0], p.data[1])):
        with pytest.raises(ad.TraceError, match="one of the two ways"):
            ad.trace(lambda x, y: x.sum() + y.sum(), *arguments)
    with pytest.raises(ad.TraceError, match="one of the two ways"):
        ad.trace(lambda x: x.add_(1).sum() + p.sum(), p.data)
    graph = ad.trace(lambda x, y: x.add_(1).sum() + y.sum(), ad.ones((2, 3)), ad.ones((2, 3)))
    with pytest.raises(ad.TraceError, match="are one tensor now"):
        graph(p.data, p)


def test_transforms_take_aliases_as_values() -> None:
    p = parameter()
    (g,) = [ad.grad(lambda x: (x * x).sum())(p.data)]
    assert g.tolist() == (2 * np.array(VALUES)).tolist()
    assert ad.vmap(lambda row: row.sum())(p.data).tolist() == [6, 15]
    assert ad.checkpoint(lambda x: x * p, p.data).requires_grad


def test_each_tensor_has_one_alias_in_all_threads() -> None:
    p, found = parameter(), []
    barrier = threading.Barrier(8)

    def look() -> None:
        barrier.wait()
        found.append(p.data)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(x) for x in found}) == 1


def test_an_alias_is_forgotten() -> None:
    from adjoint.functions import aliases

    before = len(aliases._aliases)
    for _ in range(100):
        ad.ones(2).data.add_(1)
    assert len(aliases._aliases) == before


# In-place methods of tensors.

METHODS: dict[str, tuple[Callable, Callable]] = {
    "add_": (lambda x, y: x.add_(y, alpha=2), lambda x, y: x + 2 * y),
    "sub_": (lambda x, y: x.sub_(y), lambda x, y: x - y),
    "sub_ alpha": (lambda x, y: x.sub_(y, alpha=3), lambda x, y: x - 3 * y),
    "mul_": (lambda x, y: x.mul_(y), lambda x, y: x * y),
    "div_": (lambda x, y: x.div_(y), lambda x, y: x / y),
    "zero_": (lambda x, y: x.zero_(), lambda x, y: x * 0),
    "fill_": (lambda x, y: x.fill_(y[0, 0]), lambda x, y: x * 0 + y[0, 0]),
    "copy_": (lambda x, y: x.copy_(y[0]), lambda x, y: x * 0 + y[0]),
    "clamp_": (lambda x, y: x.clamp_(y - 2, 4), lambda x, y: ad.clip(x, y - 2, 4)),
}


@pytest.mark.parametrize("name", METHODS)
def test_in_place_methods_change_one_object_and_are_recorded(name: str, device: str) -> None:
    method, expected = METHODS[name]
    x, y = (ad.tensor(VALUES, device=device) for _ in range(2))
    y *= 2
    other = x.detach()
    out = method(x, y)
    close = np.testing.assert_allclose
    assert out is x and other.tolist() == VALUES
    close(x.numpy(), expected(other, y).numpy())

    if name == "zero_":
        return  # nothing is left to differentiate
    p, q = parameter(device), parameter(device)
    weights = ad.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, 1.0]], device=device)
    z = p * 1
    (method(z, q) * weights).sum().backward()
    own = p.grad, q.grad
    p.grad = q.grad = None
    (expected(p, q) * weights).sum().backward()
    zero = ad.zeros((2, 3), device=device)
    for g, e in zip(own, (p.grad, q.grad), strict=True):
        close((zero if g is None else g).numpy(), (zero if e is None else e).numpy())


@pytest.mark.parametrize("name", [*METHODS, "uniform_", "normal_"])
def test_in_place_methods_are_refused_on_leaves_that_require_grad(name: str) -> None:
    p, y = parameter(), ad.tensor(VALUES)
    method = METHODS[name][0] if name in METHODS else lambda x, _: getattr(x, name)()
    with pytest.raises(ad.GradientError, match=r"leaf that requires grad.*no_grad\(\), on x\.data"):
        method(p, y)
    assert p.tolist() == VALUES
    with ad.no_grad():
        assert method(p, y) is p
    assert p.tolist() != VALUES and p.requires_grad and p.is_leaf


def test_in_place_methods_keep_the_dtype() -> None:
    integers = ad.tensor([1, 2])
    for change in (
        lambda: integers.div_(2),
        lambda: integers.mul_(0.5),
        lambda: integers.copy_(ad.tensor([0.5, 1.5])),
        lambda: integers.uniform_(),
        lambda: integers.fill_(0.5),
    ):
        with pytest.raises(TypeError, match=r"int64|dtype"):
            change()
    assert integers.tolist() == [1, 2]
    assert integers.fill_(7).zero_().dtype is ad.int64
    assert ad.tensor([True, False]).zero_().tolist() == [False, False]
    assert ad.zeros(2).copy_(ad.tensor([1.5, 2.5], dtype=ad.float64)).dtype is ad.float32


@pytest.mark.webgpu
def test_copy_takes_values_from_another_device() -> None:
    x = ad.zeros(2, device="webgpu")
    assert x.copy_(ad.tensor([1.0, 2.0])).tolist() == [1, 2] and x.device != "cpu"
    assert ad.zeros(2).copy_(x).tolist() == [1, 2]


def test_fill_takes_one_value() -> None:
    with pytest.raises(ValueError, match="use copy_"):
        ad.zeros(2).fill_(ad.ones(2))


def test_random_methods_draw_what_the_functions_draw() -> None:
    ad.random.seed(1)
    own = ad.zeros(5).normal_(1, 2), ad.zeros(5).uniform_(-1, 1)
    ad.random.seed(1)
    expected = ad.random.normal((5,), 1, 2), ad.random.uniform((5,), -1, 1)
    assert [x.tolist() for x in own] == [x.tolist() for x in expected]
    with pytest.raises(ad.GradientError):
        parameter().normal_()
    generator = ad.random.Generator(3)
    drawn = ad.zeros(3).uniform_(generator=generator)
    assert drawn.tolist() == ad.random.Generator(3).uniform((3,)).tolist()
