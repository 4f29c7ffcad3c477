"""Packing and correlation of one image after the other, while it is in the cache of its core.

Each core packs into a slot that is free, and takes its next image to the same one.
"""

from collections.abc import Sequence

from . import correlation, packing
from .writer import Tile, Writer

# A slot is a word: 1 while somebody uses it. The step is in bytes, in the source.
WORDS = "slots_at slots scratch_at slot_bytes image_step groups".split()
# The words of the two kernels follow, but for addresses that each image has of its own.
PACK, CORRELATE = packing.PACK_WORDS, correlation.WORDS
OWN = ("pack_out_at", "correlate_x_at")
NAMES = (*WORDS, *(f"pack_{name}" for name in PACK), *(f"correlate_{name}" for name in CORRELATE))


def correlate_images(mover: Tile, tile: Tile) -> Writer:
    """A chunk is an image. The kernels get copies of their words, with its addresses in them."""
    kernels = packing.pack(mover), correlation.correlate(tile)
    names = [word for word in NAMES if word not in OWN]
    write = Writer("correlate_images", names, *kernels)
    slot = free_slot(write)
    scratch = write.moved(write["scratch_at"], (slot, "slot_bytes"))
    move = write.product("%chunk", write["image_step"])
    source = write.offset(write["pack_source_at"], move)
    known = {"pack_source_at": source, "pack_out_at": scratch, "correlate_x_at": scratch}
    pack = block_of(write, "pack_", PACK, known)
    correlate = block_of(write, "correlate_", CORRELATE, known)
    write.line(f"call void @pack(ptr {pack}, i64 0)")
    first = write.product("%chunk", write["groups"])
    with write.loop(first, write.add(first, write["groups"])) as chunk:
        write.line(f"call void @correlate(ptr {correlate}, i64 {chunk})")
    place = write.at(write["slots_at"], "i64", slot)
    write.line(f"store atomic i64 0, ptr {place} release, align 8")
    return write


def block_of(write: Writer, prefix: str, names: Sequence[str], known: dict[str, str]) -> str:
    """The words of a kernel, in memory of this one."""
    block = write.alloca(f"[{len(names)} x i64]")
    for place, each in enumerate(names):
        type = "ptr" if each.endswith("_at") else "i64"
        word = known.get(prefix + each) or write[prefix + each]
        write.line(f"store {type} {word}, ptr {write.at(block, 'i64', place)}, align 8")
    return block


def free_slot(write: Writer) -> str:
    """The number of a slot that now is ours: there are as many as cores, so one is free soon."""
    before, number = write.block, write.name()
    look, found = write.label("look"), write.label("found")
    write.jump(look)
    write.start(look)
    place = len(write.lines)
    at = write.at(write["slots_at"], "i64", number)
    used = write.new(f"atomicrmw xchg ptr {at}, i64 1 acquire")
    following = write.new(f"srem i64 {write.add(number, 1)}, {write['slots']}")
    write.branch(write.compare("eq", used, 0), found, look)
    phi = f"{number} = phi i64 [0, %{before}], [{following}, %{look}]"
    write.lines.insert(place, phi)
    write.start(found)
    return number
