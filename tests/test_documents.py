"""What the documents show is run, and what they point to exists.

`test_coverage.test_documentation` runs the examples; here is made sure that none escapes it.
"""

import doctest
import re
from pathlib import Path

import pytest

import adjoint

ROOT = Path(__file__).parent.parent
TEXTS = {text.name: text for text in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
# design.md quotes declarations from the source, which can't be made a second time.
SHOWN_BY_RUNNING = sorted(TEXTS.keys() - {"design.md"})
FENCE = re.compile(r"^(```+|~~~+)(\S*)[^\n]*\n(.*?)^\1[ ]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def blocks(text: str) -> list[str]:
    """The fenced blocks that are, or look like, Python."""
    found = FENCE.findall(text)
    return [body for _, language, body in found if language == "python" or ">>>" in body]


def not_run(block: str) -> list[str]:
    """What of a block isn't an example, or is one that is skipped."""
    parts = doctest.DocTestParser().parse(block)
    prose = [part for part in parts if isinstance(part, str) and part.strip()]
    examples = [part for part in parts if isinstance(part, doctest.Example)]
    return prose + [part.source for part in examples if part.options.get(doctest.SKIP)]


@pytest.mark.parametrize(
    ("block", "escaped"),
    [
        (">>> 1 + 1\n2\n\n", []),
        ("x = 1\n", ["x = 1\n"]),
        (">>> x = 1\n\ny = 2\n", ["y = 2\n"]),
        (">>> f()  # doctest: +SKIP\n", ["f()  # doctest: +SKIP\n"]),
    ],
)
def test_what_escapes_is_found(block: str, escaped: list[str]) -> None:
    assert blocks(f"a\n```python\n{block}```\nb\n") == [block]
    assert [part.strip() for part in not_run(block)] == [part.strip() for part in escaped]


@pytest.mark.parametrize("name", SHOWN_BY_RUNNING)
def test_every_block_is_run(name: str) -> None:
    text = TEXTS[name].read_text()
    found = blocks(text)
    assert [part for block in found for part in not_run(block)] == []
    count = len(doctest.DocTestParser().get_examples(text))
    assert count == sum(len(doctest.DocTestParser().get_examples(block)) for block in found)


def test_the_tour_is_made_of_blocks_that_run() -> None:
    text = TEXTS["how-it-works.md"].read_text()
    assert len(blocks(text)) == len(re.findall(r"^```", text, re.MULTILINE)) // 2 > 15


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_links_lead_somewhere(name: str) -> None:
    text = FENCE.sub("", TEXTS[name].read_text())
    links = [link for link in LINK.findall(text) if "://" not in link]
    assert [link for link in links if not (TEXTS[name].parent / link).exists()] == []


def test_files_that_the_tour_names_exist() -> None:
    named = re.findall(r"`([\w/]+\.py)`", TEXTS["how-it-works.md"].read_text())
    package = Path(adjoint.__file__).parent
    assert named and [name for name in named if not (package / name).exists()] == []
