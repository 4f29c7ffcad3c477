"""ad.graph and ad.memory: texts word by word, pictures by their structure."""

import gc
import random
import re
import weakref
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import adjoint as ad
from adjoint._foundation.formatting import show_bytes
from adjoint._inspect.kept import arrays_in
from adjoint._inspect.layout import Box, Layout, apart, ports
from adjoint._inspect.svg import LONGEST_LINE
from adjoint.primitives.reductions import moments


def leaf(*shape: int) -> ad.Tensor:
    return ad.ones(shape, requires_grad=True)


def chain(length: int) -> ad.Tensor:
    y = leaf(2)
    for _ in range(length):
        y = ad.sin(y)
    return y


def text(expected: str) -> str:
    return "\n".join(line.strip() for line in expected.strip().splitlines())


# Small graphs: what to compute, and exactly what is printed


def dense() -> tuple[Any, dict]:
    x, w, b = ad.ones((2, 3)), leaf(3, 4), leaf(4)
    h = ad.tanh(x @ w + b)
    return (h * h).sum(), {"w": w, "h": h}


def diamond() -> tuple[Any, dict]:
    x = leaf(3)
    return [ad.exp(x) * ad.sin(x), {"again": ad.exp(x)}], {"x": x}


def constants() -> tuple[Any, dict]:
    x = leaf(2, 3)
    shifted = 1 - (x * 0.5 + ad.ones(3)) / ad.ones((2, 1))
    return ad.where(ad.asarray([True, False, True]), shifted, 0.0), {}


def several_outputs() -> tuple[Any, dict]:
    x = leaf(2, 3)
    mean, var = moments(x, axis=(0,))
    return mean * var, {"v": var}


def marked() -> tuple[Any, dict]:
    x = leaf(2)
    x.register_post_accumulate_grad_hook(lambda x: None)
    mean, var = moments(ad.exp(x), axis=(0,))
    y = mean + var
    y.retain_grad()
    MARKED[:] = [x, mean, y]  # a gradient is retained while its tensor lives
    for tensor in (x, y, y):
        tensor.register_hook(lambda g: None)
    mean.retain_grad()
    return y, {}


MARKED: list[ad.Tensor] = []


def checkpointed() -> tuple[Any, dict]:
    x, w = leaf(2), leaf(2)
    y = ad.checkpoint(lambda x: ad.tanh(w * x), x)
    a, b = ad.checkpoint(lambda y: (ad.exp(y), y * 2.0), y)
    return a + b, {"x": x, "b": b}


def released() -> tuple[Any, dict]:
    x = leaf(2)
    y = ad.exp(x)
    z = (y * 2.0).sum()
    z.backward()
    return (z, ad.sin(x)), {"x": x}


def all_released() -> tuple[Any, dict]:
    y = ad.exp(leaf())
    y.backward()
    return y, {}


def gradient() -> tuple[Any, dict]:
    x = leaf(2)
    (g,) = ad.autograd.grad(ad.exp(x).sum(), x, create_graph=True)
    return g, {"x": x, "g": g}


def single_leaf() -> tuple[Any, dict]:
    return leaf(2, 3), {}


def with_options() -> tuple[Any, dict]:
    x = leaf(2, 3)
    values, indices = ad.topk(x, 2)
    return (ad.softmax(values, axis=1).astype(ad.float64), indices), {}


GRAPHS = {
    dense: """
        %w : float32[3, 4] leaf
        %1 : float32[4] leaf
        %2 : float32[2, 4] = matmul(float32[2, 3], %w)  keeps 24 B
        %3 : float32[2, 4] = add(%2, %1)
        %h : float32[2, 4] = tanh(%3)  keeps 32 B
        %5 : float32[2, 4] = multiply(%h, %h)  shares 32 B
        %6 : float32[] = sum(%5, axis=(0, 1))
        return %6
        7 nodes, 2 leaves, 56 B kept for backward
    """,
    diamond: """
        %x : float32[3] leaf
        %1 : float32[3] = exp(%x)  keeps 12 B
        %2 : float32[3] = sin(%x)  keeps 12 B
        %3 : float32[3] = multiply(%1, %2)  keeps 12 B, shares 12 B
        %4 : float32[3] = exp(%x)  keeps 12 B
        return %3, %4
        5 nodes, 1 leaf, 48 B kept for backward, of which parameters 12 B
    """,
    constants: """
        %0 : float32[2, 3] leaf
        %1 : float32[2, 3] = multiply(%0, 0.5)  keeps 4 B
        %2 : float32[2, 3] = add(%1, _)
        %3 : float32[2, 3] = divide(%2, float32[2, 1])  keeps 8 B
        %4 : float32[2, 3] = subtract(_, %3)
        %5 : float32[2, 3] = where(bool[3], %4, _)  keeps 3 B
        return %5
        6 nodes, 1 leaf, 15 B kept for backward
    """,
    several_outputs: """
        %0 : float32[2, 3] leaf
        %1.mean : float32[1, 3], %v : float32[1, 3] = moments(%0, axis=(0,))  keeps 36 B
        %2 : float32[1, 3] = multiply(%1.mean, %v)  keeps 12 B, shares 12 B
        return %2
        3 nodes, 1 leaf, 48 B kept for backward
    """,
    marked: """
        %0 : float32[2] leaf  1 hook, 1 post-accumulate hook
        %1 : float32[2] = exp(%0)  keeps 8 B
        %2.mean : float32[1], %2.var : float32[1] = moments(%1, axis=(0,))  \
keeps 4 B, shares 8 B, retains grad of mean
        %3 : float32[1] = add(%2.mean, %2.var)  2 hooks, retains grad
        return %3
        4 nodes, 1 leaf, 12 B kept for backward
    """,
    checkpointed: """
        %x : float32[2] leaf
        %1 : float32[2] leaf
        %2 : float32[2] = checkpoint(%1, %x)  keeps 8 B, runs again in backward
        %3.0 : float32[2], %b : float32[2] = checkpoint(%2)  keeps 8 B, runs again in backward
        %4 : float32[2] = add(%3.0, %b)
        return %4
        5 nodes, 2 leaves, 16 B kept for backward, of which parameters 8 B
    """,
    released: """
        %x : float32[2] leaf
        %1 : float32[2] = exp(%x)  released
        %2 : float32[2] = multiply(%1, _)  released
        %3 : float32[] = sum(%2)  released
        %4 : float32[2] = sin(%x)  keeps 8 B
        return %3, %4
        5 nodes, 1 leaf, 8 B kept for backward, of which parameters 8 B; 3 nodes released
    """,
    all_released: """
        %0 : float32[] leaf
        %1 : float32[] = exp(%0)  released
        return %1
        2 nodes, 1 leaf, nothing kept: backward has released it
    """,
    gradient: """
        %x : float32[2] leaf
        %1 : float32[2] = exp(%x)  keeps 8 B
        %g : float32[2] = multiply(float32[2], %1)  keeps 8 B
        return %g
        3 nodes, 1 leaf, 16 B kept for backward
    """,
    single_leaf: """
        %0 : float32[2, 3] leaf
        return %0
        1 node, 1 leaf, 0 B kept for backward
    """,
    with_options: """
        %0 : float32[2, 3] leaf
        %1 : float32[2, 2] = topk(%0, axis=1)  keeps 32 B
        %2 : float32[2, 2] = softmax(%1, axis=1)  keeps 16 B
        %3 : float64[2, 2] = cast(%2)
        return %3
        4 nodes, 1 leaf, 48 B kept for backward
    """,
}


@pytest.mark.parametrize("make", GRAPHS, ids=lambda make: make.__name__)
def test_text_of_a_graph(make):
    tensors, names = make()
    assert repr(ad.graph(tensors, names=names)) == text(GRAPHS[make])


def test_entries_are_plain_data():
    loss, names = dense()
    graph = ad.graph(loss, names=names)
    product = graph.nodes[5]
    assert (product.name, product.op, product.inputs) == ("5", "multiply", ("h", "h"))
    assert (product.shape, product.dtype) == ((2, 4), ad.float32)
    assert (product.bytes, product.shared, product.is_leaf) == (0, 32, False)
    assert [node.is_leaf for node in graph.nodes] == [True, True] + [False] * 5
    assert graph.roots == ["6"] and len(graph) == 7
    assert sum(node.bytes for node in graph.nodes) == graph.bytes == 56
    assert graph.parameter_bytes == 0


def test_entries_of_several_outputs_name_each():
    tensors, names = several_outputs()
    entry = ad.graph(tensors, names=names).nodes[1]
    assert entry.outputs == ("1.mean", "v")
    assert entry.shape == ((1, 3), (1, 3)) and entry.dtype == (ad.float32, ad.float32)


def test_long_graphs_are_cut_in_the_middle():
    graph = ad.graph(chain(20_000))
    lines = repr(graph).splitlines()
    assert len(lines) == 100 + 1 + 2
    assert lines[0] == "%0 : float32[2] leaf"
    assert lines[49].startswith("%49 : ") and lines[51].startswith("%19951 : ")
    assert lines[50] == "... 19901 more, which keep 155.5 KiB ..."
    assert lines[-1].startswith("20001 nodes, 1 leaf, 156.2 KiB kept")
    assert len(graph.text(limit=None).splitlines()) == 20_001 + 2
    assert len(graph.text(limit=3).splitlines()) == 3 + 1 + 2


def test_a_long_graph_has_text_and_flowchart_but_no_picture():
    graph = ad.graph(chain(1001))
    assert graph._repr_svg_() is None
    assert graph.mermaid().count("\n") == 2 * 1001 + 3
    with pytest.raises(ad.ArgumentError, match="1002 nodes can't be read, 1000 is the limit"):
        graph.svg()


@pytest.mark.parametrize(("nodes", "shown"), [(200, True), (201, False)])
def test_notebooks_draw_up_to_200_nodes(nodes, shown):
    graph = ad.graph(chain(nodes - 1))
    assert (graph._repr_svg_() is not None) == shown
    assert not hasattr(graph, "_repr_markdown_") and not hasattr(graph, "_repr_html_")


# What is asked for wrongly


@pytest.mark.parametrize("function", [ad.graph, ad.memory])
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (ad.ones(2), ad.GradientError, r"for this tensor \(float32\[2\]\).*requires_grad_\(\)"),
        ([ad.ones(2), ad.ones(3)], ad.GradientError, "for any of the tensors"),
        (leaf(2).detach(), ad.GradientError, "or detached"),
        (3.0, ad.DTypeError, "got float"),
        ({"loss": None}, ad.DTypeError, "got NoneType"),
        ([], ad.ArgumentError, r"no tensor in \[\]"),
    ],
)
def test_without_a_graph(function, given, error, message):
    with pytest.raises(error, match=f"^{function.__name__}: .*{message}"):
        function(given)


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ({"w": 1.0}, ad.DTypeError, "'w' must be a tensor, got float"),
        ({"3": leaf(2)}, ad.ArgumentError, "'3' can't name a tensor"),
        ({"": leaf(2)}, ad.ArgumentError, "'' can't name a tensor"),
        ({"a\nb": leaf(2)}, ad.ArgumentError, "can't name a tensor: printable text"),
        ({1: leaf(2)}, ad.ArgumentError, "1 can't name a tensor"),
    ],
)
def test_names_that_can_not_be(names, error, message):
    with pytest.raises(error, match=message):
        ad.graph(leaf(2), names=names)


def test_a_name_can_not_be_that_of_an_output():
    x = leaf(2, 3)
    with pytest.raises(ad.ArgumentError, match=r"'1\.var' is the name of an output of moments"):
        ad.graph(moments(x, axis=(0,)), names={"1.var": x})


def test_names_of_other_tensors_are_left_out():
    x = leaf(2)
    assert "other" not in repr(ad.graph(ad.exp(x), names={"other": leaf(2), "data": ad.ones(2)}))


# Memory


def test_table_of_memory():
    loss, names = dense()
    assert repr(ad.memory(loss, names=names)) == (
        "bytes  node  op        result         keeps\n"
        " 32 B  %h    tanh      float32[2, 4]  out\n"
        " 24 B  %2    matmul    float32[2, 4]  x\n"
        "  0 B  %5    multiply  float32[2, 4]  y (shared), x (shared with y)\n"
        "total 56 B; nodes that keep nothing: 4"
    )


def test_rows_of_memory_are_plain_data():
    x, w = leaf(2, 3), leaf(3, 4)
    memory = ad.memory(ad.exp(x) @ w)
    assert (memory.total, memory.parameters, memory.released) == (72, 48, 0)
    product, exponential = memory.rows
    assert (product.op, product.name, product.bytes) == ("matmul", "3", 48)
    kept = {x.name: (x.shape, x.dtype, x.bytes, x.note) for x in product.keeps}
    assert kept["x"] == ((2, 3), ad.float32, 24, "shared")
    assert kept["y"] == ((3, 4), ad.float32, 48, "parameter")
    assert [str(x) for x in exponential.keeps] == ["out"]


def test_released_memory_is_said_to_be():
    loss = (ad.exp(leaf(2)) * 2.0).sum()
    loss.backward()
    memory = ad.memory(loss)
    assert (memory.total, memory.rows, memory.released) == (0, [], 3)
    assert repr(memory) == (
        "total 0 B; nodes that keep nothing: 1\nnodes that a backward has released: 3"
    )


def test_views_of_one_array_count_once_and_as_the_whole():
    x, data = leaf(10), ad.ones((100, 10))
    memory = ad.memory(x * data[3] + x * data[7])
    first, second = memory.rows
    assert memory.total == first.bytes == 4000
    assert second.bytes == 0 and [k.note for k in second.keeps] == ["shared"]


def test_memory_of_other_libraries_counts_once():
    x = leaf(4)
    buffer = bytes(16)
    one, other = (ad.asarray(np.frombuffer(buffer, np.float32)) for _ in range(2))
    assert ad.memory(x * one + x * other).total == 16


def test_values_that_a_parameter_has_no_more_are_memory_of_the_graph():
    w, x = leaf(5), leaf(5)
    out = w * x
    assert ad.memory(out).parameters == 40
    with ad.no_grad():
        w += 1.0
    assert (ad.memory(out).total, ad.memory(out).parameters) == (40, 20)
    del x
    assert (ad.memory(out).total, ad.memory(out).parameters) == (40, 0)


def test_a_view_of_a_parameter_is_memory_of_the_parameter():
    w = leaf(3, 4)
    memory = ad.memory(ad.ones((2, 4)) @ w.T + leaf(2, 4) @ w.T)
    assert (memory.total, memory.parameters) == (32 + 32 + 48, 48)


def test_traced_arrays_are_counted_by_shape_and_dtype():
    w = leaf(3, 4)
    seen = []

    def function(x):
        out = ad.tanh(x @ w)
        seen.append((ad.memory(out), ad.graph(out)))
        return out

    ad.trace(function, leaf(2, 3))
    memory, graph = seen[0]
    assert (memory.total, memory.parameters) == (24 + 48 + 32, 24 + 48)
    assert "= matmul(%1, %0)  keeps 72 B" in repr(graph)


def test_many_rows_are_cut_at_the_end():
    lines = repr(ad.memory(chain(100))).splitlines()
    assert len(lines) == 1 + 40 + 2
    assert lines[-2] == "... 60 more, which keep 480 B ..."


def test_many_arrays_of_one_node():
    parts = [leaf(2) for _ in range(40)]
    memory = ad.memory(ad.checkpoint(lambda parts: ad.concat(parts), parts))
    assert memory.rows[0].keeps[39].name == "arguments[39]"
    assert (
        repr(memory)
        .splitlines()[1]
        .endswith("  arguments[0] (parameter), arguments[1] (parameter), argum...")
    )


def test_arrays_in_what_nodes_save():
    class Holder:
        kept = (np.ones(1), [np.ones(2)])

    saved = (np.ones(3), (2, 3), None, np.dtype("int8"), [Holder(), "text"], ad.ones(4))
    assert [x.size for x in arrays_in(saved)] == [3, 1, 2, 4]


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1 << 20, "1.0 MiB"),
        (5 << 29, "2.5 GiB"),
        (1 << 60, "1048576.0 TiB"),
    ],
)
def test_bytes_are_shown_short(count, shown):
    assert show_bytes(count) == shown


def test_descriptions_keep_nothing_alive():
    x = leaf(2)
    y = ad.exp(x)
    array = weakref.ref(y.raw)
    graph, memory = ad.graph(y), ad.memory(y)
    del y
    gc.collect()
    assert array() is None
    assert graph.bytes == memory.total == 8


# Pictures

MADE = [dense, diamond, several_outputs, marked, checkpointed, released, single_leaf]


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_flowchart_has_every_node_and_edge(make):
    tensors, names = make()
    graph = ad.graph(tensors, names=names)
    first, *lines = graph.mermaid().splitlines()
    assert first == "flowchart TD"
    boxes = [re.fullmatch(r'  n(\d+)(\(\["|\[")([^"]+)("\]\)|"\])', line) for line in lines]
    boxes = [box for box in boxes if box]
    assert [int(box[1]) for box in boxes] == list(range(len(graph)))
    assert [box[2] == '(["' for box in boxes] == [node.is_leaf for node in graph.nodes]
    arrow = r'  n\d+ -->(\|"[^"]+"\|)? n\d+'
    edges = [line for line in lines if re.fullmatch(arrow, line)]
    assert len(edges) == sum(len(node.inputs) for node in graph.nodes)
    assert len(lines) == len(boxes) + len(edges) + 2
    assert re.fullmatch(r"  class n\d+(,n\d+)* root", lines[-1])


def test_flowchart_names_outputs_on_edges():
    tensors, names = several_outputs()
    lines = ad.graph(tensors, names=names).mermaid().splitlines()
    assert lines[2] == ('  n1["moments<br/>mean float32[1, 3]<br/>v float32[1, 3]<br/>keeps 36 B"]')
    assert lines[5:7] == ['  n1 -->|"mean"| n2', '  n1 -->|"v"| n2']


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ('say "w"', "say #34;w#34;"),
        ("a;b#c", "a#59;b#35;c"),
        ("<b>`|%%", "#60;b#62;#96;#124;#37;#37;"),
        ("layers.0.weight", "layers.0.weight"),
    ],
)
def test_flowchart_escapes_names(name, shown):
    x = leaf(2)
    assert f'n0(["{shown}<br/>float32[2]"])' in ad.graph(x, names={name: x}).mermaid()


def drawn(graph: Any) -> ElementTree.Element:
    return ElementTree.fromstring(graph.svg())


def tags(root: ElementTree.Element, tag: str) -> list[ElementTree.Element]:
    return root.findall(f".//{{http://www.w3.org/2000/svg}}{tag}")


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_picture_has_every_node_and_edge(make):
    tensors, names = make()
    graph = ad.graph(tensors, names=names)
    root = drawn(graph)
    classes = [rect.get("class", "").split() for rect in tags(root, "rect")]
    assert ["leaf" in c for c in classes] == [node.is_leaf for node in graph.nodes]
    assert sum("root" in c for c in classes) == len(graph.roots)
    arrows = [path for path in tags(root, "path") if path.get("class") == "arrow"]
    assert len(arrows) == sum(len(node.inputs) for node in graph.nodes)
    assert [title.text for title in tags(root, "title")] == [str(node) for node in graph.nodes]


def test_picture_shows_op_type_bytes_and_names():
    loss, names = dense()
    texts = [text.text for text in tags(drawn(ad.graph(loss, names=names)), "text")]
    assert texts[:2] == ["w", "float32[3, 4]"]
    assert [*texts][5:9] == ["%2", "matmul", "float32[2, 4]", "keeps 24 B"]
    assert "h = tanh" in texts


def test_picture_survives_any_name():
    x = leaf(2)
    name = "<&\"'> " + "long " * 40
    first = next(text for text in tags(drawn(ad.graph(x, names={name: x})), "text"))
    assert first.text is not None
    assert first.text.startswith("<&\"'> long") and len(first.text) == LONGEST_LINE


def test_styles_of_a_picture_stay_in_it():
    (style,) = tags(drawn(ad.graph(leaf(2))), "style")
    rules = re.findall(r"([^{}]+)\{", style.text or "")
    assert rules and all(rule.startswith(".adjoint-graph ") for rule in rules)


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_text_lies_in_its_box(make):
    tensors, names = make()
    root = drawn(ad.graph(tensors, names=names))
    for group in tags(root, "g"):
        (rect,) = tags(group, "rect")
        left, top, width, height = (float(rect.get(k, "")) for k in ("x", "y", "width", "height"))
        for text in tags(group, "text"):
            x, y = float(text.get("x", "")), float(text.get("y", ""))
            assert left < x < left + width and top + 8 < y < top + height - 3


# The layout


def random_boxes(seed: int) -> list[Box]:
    choose = random.Random(seed)
    boxes: list[Box] = []
    for k in range(choose.randint(1, 60)):
        recent = range(max(0, k - choose.choice([2, 5, 60])), k)
        sources = choose.choices(recent, k=choose.choice([0, 1, 1, 2, 2, 3])) if k else []
        inputs = [(source, choose.randrange(boxes[source].outputs)) for source in sources]
        size = choose.uniform(40, 200), choose.uniform(30, 90)
        boxes.append(Box(*size, inputs, choose.choice([1, 1, 1, 2, 3])))
    return boxes


LAYOUTS = range(40)


@pytest.mark.parametrize("seed", LAYOUTS)
def test_boxes_and_edges_have_room_of_their_own(seed):
    layout = Layout(random_boxes(seed))
    for row in layout.rows:
        assert any(place.box for place in row)
        for k in range(1, len(row)):
            free = row[k].x - row[k].width / 2 - row[k - 1].x - row[k - 1].width / 2
            assert free > 13.9
        assert row[0].x - row[0].width / 2 > -1e-6
        assert row[-1].x + row[-1].width / 2 < layout.width + 1e-6
    for above, below in zip(layout.bottoms, layout.tops[1:], strict=False):
        assert below - above >= 30


@pytest.mark.parametrize("seed", LAYOUTS)
def test_edges_go_down_row_by_row_from_input_to_box(seed):
    boxes = random_boxes(seed)
    layout = Layout(boxes)
    index = {id(place): k for k, place in enumerate(layout.places)}
    for link in layout.links:
        assert link.target.row == link.source.row + 1
    for box, place in zip(boxes, layout.places, strict=True):
        found = []
        for link in place.above:
            while link.source.box is None:
                (link,) = link.source.above
            found.append((index[id(link.source)], link.output))
        assert sorted(found) == sorted(box.inputs)


@pytest.mark.parametrize("seed", LAYOUTS)
def test_edges_end_at_their_boxes_without_crossing_there(seed):
    for place in Layout(random_boxes(seed)).places:
        ends = ports(place)
        starts = sorted(place.above, key=lambda link: link.start)
        assert [ends[id(link)] for link in starts] == sorted(ends.values())
        assert len(set(ends.values())) == len(place.above)
        assert all(abs(x - place.x) < place.width / 2 for x in ends.values())


def test_crossings_are_undone():
    leaves = [Box(50, 30, []) for _ in range(6)]
    layout = Layout([*leaves, *(Box(50, 30, [(k, 0)]) for k in (5, 3, 1, 4, 2, 0))])
    assert layout.crossings() == 0
    assert all(abs(link.start - link.target.x) < 1e-6 for link in layout.links)


def test_a_chain_stays_in_line_beside_a_long_edge():
    layout = Layout([Box(50, 30, []), *(Box(40 + k, 30, [(k, 0), (0, 0)]) for k in range(20))])
    assert len({round(place.x, 6) for place in layout.places[1:]}) == 1
    passing = {round(p.x, 6) for row in layout.rows for p in row if p.box is None}
    assert len(passing) == 1


@pytest.mark.parametrize(
    ("wanted", "weights", "expected"),
    [
        ([0.0, 20.0], [1, 1], [0.0, 20.0]),
        ([0.0, 0.0], [1, 1], [-5.0, 5.0]),
        ([0.0, 0.0], [3, 1], [-2.5, 7.5]),
        ([10.0, 0.0, 50.0], [1, 1, 1], [0.0, 10.0, 50.0]),
        ([6.0, 6.0, 6.0], [1, 1, 1], [-4.0, 6.0, 16.0]),
    ],
)
def test_places_move_apart_as_little_as_they_can(wanted, weights, expected):
    gaps = [0.0] + [10.0] * (len(wanted) - 1)
    assert apart(wanted, weights, gaps) == pytest.approx(expected)
