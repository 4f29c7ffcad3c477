"""Packing and correlation of one image after the other, while it is in the cache of its core.

Each core packs into a slot that is free, and takes its next image to the same one.
"""

from . import correlation, packing
from .writer import Tile, Writer

WORDS = (
    "pack_at",  # the words of the two kernels
    "correlate_at",
    "slots_at",  # a word each: 1 while somebody uses it
    "slots",
    "scratch_at",
    "slot_bytes",
    "image_step",  # bytes, in the source
    "groups",
)


def name(mover: Tile, tile: Tile) -> str:
    return f"fused_{packing.pack_name(mover)}_{correlation.name(tile)}"


def text(mover: Tile, tile: Tile) -> str:
    """A chunk is an image. The kernels get copies of their words, with its addresses in them."""
    write = Writer(name(mover, tile), WORDS)
    pack = write.alloca(f"[{len(packing.PACK_WORDS)} x i64]")
    correlate = write.alloca(f"[{len(correlation.WORDS)} x i64]")
    copy_words(write, write["pack_at"], pack, len(packing.PACK_WORDS))
    copy_words(write, write["correlate_at"], correlate, len(correlation.WORDS))
    slot = free_slot(write)
    scratch = write.offset(write["scratch_at"], write.product(slot, write["slot_bytes"]))
    source = write.load("ptr", pack, 8)
    source = write.offset(source, write.product("%chunk", write["image_step"]))
    write.store("ptr", source, pack, 8)
    write.store("ptr", scratch, write.offset(pack, "8"), 8)
    write.store("ptr", scratch, correlate, 8)
    write.line(f"call void @{packing.pack_name(mover)}(ptr {pack}, i64 0)")
    first = write.product("%chunk", write["groups"])
    with write.loop(first, write.add(first, write["groups"])) as chunk:
        write.line(f"call void @{correlation.name(tile)}(ptr {correlate}, i64 {chunk})")
    place = write.offset(write["slots_at"], write.product(slot, 8))
    write.line(f"store atomic i64 0, ptr {place} release, align 8")
    return "\n".join([str(write), packing.pack_text(mover), correlation.text(tile)])


def copy_words(write: Writer, source: str, out: str, count: int) -> None:
    for place in range(count):
        word = write.load("i64", write.offset(source, str(8 * place)), 8)
        write.store("i64", word, write.offset(out, str(8 * place)), 8)


def free_slot(write: Writer) -> str:
    """The number of a slot that now is ours: there are as many as cores, so one is free soon."""
    before, number = write.block, write.name()
    look, found = write.label("look"), write.label("found")
    write.jump(look)
    write.start(look)
    place = len(write.lines)
    at = write.offset(write["slots_at"], write.product(number, 8))
    used = write.new(f"atomicrmw xchg ptr {at}, i64 1 acquire")
    following = write.new(f"srem i64 {write.add(number, '1')}, {write['slots']}")
    write.branch(write.new(f"icmp eq i64 {used}, 0"), found, look)
    phi = f"{number} = phi i64 [0, %{before}], [{following}, %{look}]"
    write.lines.insert(place, phi)
    write.start(found)
    return number
