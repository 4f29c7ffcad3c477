"""Tables in Markdown files, between comments that name what was measured."""

from pathlib import Path


def put_into(document: Path, name: str, table: str) -> None:
    """Replace what stands between `<!-- name -->` and `<!-- end of name -->`."""
    text = document.read_text()
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    if text.count(start) != 1 or text.count(end) != 1:
        raise SystemExit(f"{document} must have one line {start.strip()}, and one {end} below")
    before, _, rest = text.partition(start)
    _, _, after = rest.partition(end)
    document.write_text(f"{before}{start}\n{table}\n{end}{after}")
