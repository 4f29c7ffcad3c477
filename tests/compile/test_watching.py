"""Python state that a function reads is watched; what it changes is an error, and undone."""

import copy

import pytest

import adjoint as ad
from adjoint._compile.recording import record
from adjoint._foundation.changes import Changes
from adjoint._foundation.errors import TraceError
from tests.support.helpers import needs_kernels

X = ad.asarray([[0.5, -1.0], [2.0, 0.25]])
schedulers = ad.optim.lr_scheduler


class Net(ad.nn.Module):
    scale = 2.0

    def __init__(self):
        super().__init__()
        self.body = ad.nn.Sequential(ad.nn.Linear(2, 2), ad.nn.Dropout(0.5))
        self.shift = ad.nn.Parameter(ad.zeros(2))
        self.depth, self.names, self.count = 2, ["a", "b"], 0
        self.activation = ad.tanh

    def forward(self, x):
        for _ in range(self.depth):
            x = self.activation(self.body(x)) * self.scale
        return x + self.shift + len(self.names)


def replaced_layer(net):
    net.body[0] = ad.nn.Linear(2, 2)


def replaced_parameter(net):
    net.shift = ad.nn.Parameter(ad.ones(2))


def hooked(net):
    net.body.register_forward_hook(lambda *_: None)


def tensor_hooked(net):
    net.shift.register_hook(lambda g: g)


def attribute(name, value):
    def change(net):
        setattr(net, name, value)

    return change


def shorter(net):
    net.names = ["a"]


CHANGES = [
    (lambda net: net.eval(), r"training is False, was True"),
    (replaced_layer, "module 0 of Sequential was replaced"),
    (replaced_parameter, "parameter shift of Net was replaced"),
    (hooked, "hooks of Sequential"),
    (tensor_hooked, "hooks of a tensor"),
    (attribute("depth", 3), "Net.depth is 3, was 2"),
    (attribute("depth", 2.0), "Net.depth is 2.0, was 2"),
    (attribute("scale", 3.0), "Net.scale is 3.0, was 2.0"),
    (attribute("activation", ad.sin), "Net.activation"),
    (shorter, "Net.names"),
    (lambda net: net.body.append(ad.nn.ReLU()), "Sequential"),
]


@pytest.mark.parametrize(("change", "what"), CHANGES)
def test_a_change_of_what_was_read_is_seen(change, what):
    net = Net()
    recorded = record(lambda x: net(x), (X,), {})
    before = Changes.latest
    assert recorded.watched.changed() is None
    net.count = 7  # which the function didn't read
    assert recorded.watched.changed() is None
    change(net)
    assert Changes.latest != before
    assert what in (recorded.watched.changed() or "")


def test_what_is_changed_back_is_as_it_was():
    net = Net()
    recorded = record(lambda x: net(x), (X,), {})
    net.eval()
    net.train()
    handle = net.register_forward_hook(lambda *_: None)
    assert recorded.watched.changed() == "hooks of Net"
    handle.remove()
    net(X)
    assert recorded.watched.changed() is None


def test_all_parts_count_where_all_were_asked_for():
    net = Net()
    recorded = record(lambda x: sum(p.sum() for p in net.parameters()), (X,), {})
    net.count = 3
    assert recorded.watched.changed() is None
    net.more = ad.nn.Linear(1, 1)
    assert "Net" in (recorded.watched.changed() or "")


def test_defaults_and_groups_are_watched():
    weight, other = (ad.tensor([1.0], requires_grad=True) for _ in range(2))
    optimizer = ad.optim.SGD([weight], lr=0.1)

    def step(x):
        (x * weight).sum().backward()
        optimizer.step()

    recorded = record(step, (X,), {})
    before = Changes.latest
    ad.set_default_dtype(ad.float64)
    assert recorded.watched.changed() == "the default dtype is float64, was float32"
    ad.set_default_dtype(ad.float32)
    assert recorded.watched.changed() is None and Changes.latest != before
    optimizer.add_param_group({"params": [other]})
    assert recorded.watched.changed() == "params in SGD.param_groups"


# What the function changes.


def counts(net, x):
    net.count += 1
    return net(x)


def stores(net, x):
    net.last = net(x)
    return net.last


def grows(net, x):
    net.names.append("c")
    return net(x)


FORBIDDEN = [
    (counts, r"Net.count is set .*`net.count \+= 1`"),
    (stores, r"Net.last is set .*register_buffer\('last'"),
    (grows, "Net.names, a list, is changed"),
    (lambda net, x: net.eval()(x), r"training is set .*train\(\) and eval\(\) outside"),
    (lambda net, x: net.requires_grad_(False)(x), r"requires_grad_\(\) outside"),
    (lambda net, x: delattr(net, "count"), "Net.count"),
    (lambda net, x: net.register_buffer("b", x), "Net"),
    (lambda net, x: x.requires_grad_() * 2, "requires_grad"),
]


@pytest.mark.parametrize(("function", "what"), FORBIDDEN)
def test_a_change_of_a_module_is_an_error_and_undone(function, what):
    net = Net()
    before = [dict(vars(m)) | {"names": list(net.names)} for m in net.modules()]
    with pytest.raises(TraceError, match=what):
        record(lambda x: function(net, x), (X,), {})
    assert [dict(vars(m)) | {"names": list(net.names)} for m in net.modules()] == before
    assert all(p.requires_grad for p in net.parameters())


def test_changes_that_are_taken_back_and_modules_of_the_functions_own_are_fine():
    net = Net()

    def function(x):
        net.eval()
        net.requires_grad_(False)
        out = net(x)
        net.requires_grad_(True)
        net.train()
        own = ad.nn.Sequential(ad.nn.Flatten(), Net())
        own.count = 3
        return out, own[1].eval()(x).shape

    record(function, (X,), {})
    assert net.training and net.shift.requires_grad


def test_what_is_so_for_a_while_only_isnt_watched():
    net = Net()
    others = {name: p.detach() + 1 for name, p in net.named_parameters()}

    def function(x):
        copied = copy.deepcopy(net.body)
        return ad.nn.functional_call(net, others, (x,)) + copied(x)

    recorded = record(function, (X,), {})
    assert recorded.watched.changed() is None and recorded.settings.read() is not None
    ad.random.seed(0)
    out = recorded.graph(X)
    ad.random.seed(0)
    assert out.tolist() == function(X).tolist()
    net.shift = ad.nn.Parameter(ad.ones(2))
    assert recorded.watched.changed() == "parameter shift of Net was replaced or converted"


def test_buffers_and_data_of_parameters_change_as_in_eager():
    norm = ad.nn.BatchNorm1d(2)

    def function(x):
        with ad.no_grad():
            norm.weight[...] = norm.weight * 2
        return norm(x)

    recorded = record(function, (X,), {})
    recorded.graph(X)
    assert norm.num_batches_tracked.item() == 1 and norm.weight.tolist() == [2.0, 2.0]


# Optimizers and schedulers.


def trained(make=lambda p: ad.optim.SGD(p, lr=0.1)):
    weight = ad.tensor([1.0, 2.0], requires_grad=True)
    return weight, make([weight])


class Velocity(ad.optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})
        self.t = 0

    @ad.no_grad()
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            state["velocity"] = 0.9 * state.get("velocity", 0.0) + p.grad
            p[...] = p - self.param_groups[0]["lr"] * state["velocity"]


class Counting(Velocity):
    def step(self, closure=None):
        self.t += 1


@pytest.mark.parametrize("started", [False, True])
def test_a_state_that_is_replaced_is_an_error(started):
    weight, optimizer = trained(Velocity)
    if started:
        weight.grad = ad.ones(2)
        optimizer.step()
    before = {name: dict(entry) for name, entry in optimizer.state.items()}

    def step(x):
        (x * weight).sum().backward()
        optimizer.step()

    with pytest.raises(TraceError, match=r"Velocity.state\[...\]\['velocity'\].*\.\.\.\] = value"):
        record(step, (X,), {})
    assert {name: dict(entry) for name, entry in optimizer.state.items()} == before


def test_attributes_and_settings_of_optimizers_are_left_alone():
    _, optimizer = trained(Counting)
    with pytest.raises(TraceError, match=r"Counting.t is set .*`self.t \+= 1`"):
        record(lambda x: optimizer.step(), (X,), {})
    assert optimizer.t == 0
    groups = optimizer.param_groups

    def lower(x):
        optimizer.param_groups[0]["lr"] *= 0.5

    def by_another_name(x):
        len(optimizer.param_groups)
        groups[0]["lr"] = 0.5

    def grow(x):
        optimizer.add_param_group({"params": [ad.tensor([1.0])]})

    with pytest.raises(TraceError, match=r"\['lr'\] \(.*\*= 0.5`\) is changed .*scheduler"):
        record(lower, (X,), {})
    for function in (by_another_name, grow):
        with pytest.raises(TraceError, match=r"param_groups.* changed"):
            record(function, (X,), {})
    assert len(groups) == 1 and groups[0]["lr"] == 0.1


class Halves(schedulers.LRScheduler):
    def get_lr(self):
        return [lr / 2**self.last_epoch for lr in self.base_lrs]


@pytest.mark.parametrize("make", [Halves, lambda o: schedulers.ExponentialLR(o, 0.5)])
def test_a_schedulers_step_is_put_off(make):
    weight, optimizer = trained()
    scheduler = make(optimizer)

    def step(x):
        weight.grad = None
        (x * weight).sum().backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()

    recorded = record(step, (X,), {})
    assert scheduler.last_epoch == 0
    for expected in (0.1, 0.05, 0.025):
        assert recorded.settings.read() == (expected,)
        recorded.graph(X)
        for function, args, kwargs in recorded.actions:
            function(*args, **kwargs)
    assert scheduler.last_epoch == 3 and len(recorded.actions) == 1


def test_a_scheduler_comes_last_and_reads_no_values():
    weight, optimizer = trained()
    scheduler = schedulers.ExponentialLR(optimizer, 0.5)
    plateau = schedulers.ReduceLROnPlateau(optimizer)

    def early(x):
        (x * weight).sum().backward()
        scheduler.step()
        optimizer.step()

    with pytest.raises(TraceError, match=r"call scheduler.step\(\) last"):
        record(early, (X,), {})
    with pytest.raises(TraceError, match=r"ReduceLROnPlateau.step reads a value.*outside"):
        record(lambda x: plateau.step(x.sum()), (X,), {})
    with pytest.raises(TraceError, match="'_last_lr' of ExponentialLR"):
        record(lambda x: x * scheduler.get_last_lr()[0], (X,), {})
    assert (
        scheduler.last_epoch == plateau.last_epoch == 0 and optimizer.param_groups[0]["lr"] == 0.1
    )


# Groups that are changed by hand.


def removed(groups: list) -> None:
    groups[0]["params"].pop()


def replaced(groups: list) -> None:
    groups[0]["params"] = groups[0]["params"][:1]


def in_another_order(groups: list) -> None:
    groups.reverse()


def moved_over(groups: list) -> None:
    groups[1]["params"].append(groups[0]["params"].pop())


def emptied(groups: list) -> None:
    del groups[0]["params"][:]


def merged(groups: list) -> None:
    groups[0] |= {"params": groups[0]["params"][:1]}


def taken_out(groups: list) -> None:
    params = groups[0].pop("params")
    groups[0].setdefault("params", params[1:])


CHANGES = [removed, replaced, in_another_order, moved_over, emptied, merged, taken_out]


@needs_kernels
@pytest.mark.parametrize("change", CHANGES)
def test_groups_of_the_users_own_that_are_changed_are_seen(change):
    def run(wrap):
        w, u, v = (ad.tensor([float(k)], requires_grad=True) for k in (1, 2, 3))
        optimizer = ad.optim.SGD([w, u, v], lr=0.1)
        first, second = ({**optimizer.param_groups[0], "params": x} for x in ([w, u], [v]))
        optimizer.param_groups = [first, {**second, "lr": 1.0}]
        step = wrap(lambda: (optimizer.zero_grad(), (w * u * v).sum().backward(), optimizer.step()))
        step()
        change(optimizer.param_groups)
        step()
        return w.tolist(), u.tolist(), v.tolist()

    assert run(ad.compile) == run(lambda f: f)


@needs_kernels
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("copied", [False, True])
def test_groups_that_are_changed_by_hand_are_seen(change, copied):
    def run(wrap):
        w, u, v = (ad.tensor([float(k)], requires_grad=True) for k in (1, 2, 3))
        optimizer = ad.optim.SGD([{"params": [w, u]}, {"params": [v], "lr": 1.0}], lr=0.1)
        if copied:
            optimizer = copy.deepcopy(optimizer)
            w, u, v = optimizer._all_params
        step = wrap(lambda: (optimizer.zero_grad(), (w * u * v).sum().backward(), optimizer.step()))
        step()
        change(optimizer.param_groups)
        step()
        return w.tolist(), u.tolist(), v.tolist()

    assert run(ad.compile) == run(lambda f: f)


class InPlace(Velocity):
    @ad.no_grad()
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            velocity = self.state[p]["velocity"]
            velocity[...] = 0.9 * velocity + p.grad
            p[...] = p - self.param_groups[0]["lr"] * velocity


@needs_kernels
def test_a_state_that_is_replaced_between_steps_is_seen():
    def run(wrap):
        w = ad.tensor([1.0], requires_grad=True)
        optimizer = InPlace([w])
        optimizer.state[w]["velocity"] = former = ad.zeros(1)
        step = wrap(lambda: ((w * w).sum().backward(), optimizer.step()))
        step()
        optimizer.state[w]["velocity"] = ad.ones(1)
        step()
        return w.tolist(), former.tolist(), optimizer.state[w]["velocity"].tolist()

    assert run(ad.compile) == run(lambda f: f)


@needs_kernels
def test_dtypes_and_requires_grad_of_parameters_that_are_only_asked_for_are_watched():
    model = ad.nn.Linear(3, 2)
    model.weight.requires_grad_(False)
    dtype = ad.compile(lambda: ad.zeros(2, dtype=model.weight.dtype))
    total = ad.compile(
        lambda: sum((p * 0.0 + 1.0).sum() for p in model.parameters() if p.requires_grad)
    )
    with ad.no_grad():
        assert (dtype().dtype, total().item()) == (ad.float32, 2.0)
        model.double()
        model.weight.requires_grad_(True)
        assert (dtype().dtype, total().item()) == (ad.float64, 8.0)
