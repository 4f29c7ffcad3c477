"""The buffer pool's allocator, as LLVM IR: four functions that NumPy calls for an array's memory.

A block is a mapping of its own from the operating system: a head of 64 bytes, then the data. Its
capacity is the size that was asked for, rounded up to an eighth of a power of two. Freed blocks
wait on two rings: all of them by age, and those of one capacity (the newest is taken first).
"""

import mmap
from string import Template

# The words that a pool begins with. The rings come after them.
COUNTERS = ("lock", "limit", "in_use", "idle", "peak", "allocations", "reuses", "releases")
PLACE = {name: place for place, name in enumerate(COUNTERS)}

HEAD = 64  # bytes before the data, which is aligned to as many
PAGE_SHIFT = 12
LARGEST = 1 << 47
# Large blocks have huge pages, where the system lets a program ask for them: the first touch of new
# memory takes half the time.
HUGE_PAGE = 2 << 20
HUGE_ADVICE = getattr(mmap, "MADV_HUGEPAGE", 0)
HUGE_FROM = HUGE_PAGE if HUGE_ADVICE else LARGEST + 1
# A capacity is 1 to 16 steps. A step is a power of two: at least a page, and a page only, for
# sizes up to 16 pages.
CAPACITIES = 16 * (LARGEST.bit_length() - 4 - PAGE_SHIFT)
TOTAL_WORDS = len(COUNTERS) + 2 * (1 + CAPACITIES)

BLOCKS = Template("""
%link = type { ptr, ptr }
%block = type { i64, i64, %link, %link, ptr, i64 }
; capacity, whether it was used before, ring by age, ring by capacity, mapping, its length

declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare i32 @sched_yield()
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.ctlz.i64(i64, i1)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i64 @step(i64 %size) {
  %last = sub i64 %size, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %last, i1 false)
  %eighth = call i64 @llvm.umin.i64(i64 %zeros, i64 $least_zeros)
  %shift = sub i64 60, %eighth
  ret i64 %shift
}

define internal i64 @capacity(i64 %size) {
  %some = call i64 @llvm.umax.i64(i64 %size, i64 1)
  %shift = call i64 @step(i64 %some)
  %step = shl i64 1, %shift
  %more = add i64 %some, %step
  %last = sub i64 %more, 1
  %mask = sub i64 0, %step
  %result = and i64 %last, %mask
  ret i64 %result
}

define internal ptr @ring(ptr %pool, i64 %capacity) {
  %shift = call i64 @step(i64 %capacity)
  %row = sub i64 %shift, $page_shift
  %first = mul i64 %row, 16
  %steps = lshr i64 %capacity, %shift
  %place = add i64 %first, %steps
  %rings = getelementptr i64, ptr %pool, i64 $words
  %result = getelementptr %link, ptr %rings, i64 %place
  ret ptr %result
}

define internal ptr @map(i64 %length) {
  %base = call ptr @mmap(ptr null, i64 %length, i32 $protection, i32 $flags, i32 -1, i64 0)
  %failed = icmp eq ptr %base, inttoptr (i64 -1 to ptr)
  %result = select i1 %failed, ptr null, ptr %base
  ret ptr %result
}

define internal ptr @create(ptr %pool, i64 %capacity) {
start:
  %huge = icmp uge i64 %capacity, $huge_from
  %need = add i64 %capacity, $head
  %margin = select i1 %huge, i64 $huge_page, i64 0
  %length = add i64 %need, %margin
  %first = call ptr @map(i64 %length)
  %refused = icmp eq ptr %first, null
  br i1 %refused, label %empty, label %mapped
empty:
  call i64 @pool_trim(ptr %pool, i64 0)
  %second = call ptr @map(i64 %length)
  %failed = icmp eq ptr %second, null
  br i1 %failed, label %none, label %mapped
none:
  ret ptr null
mapped:
  %base = phi ptr [ %first, %start ], [ %second, %empty ]
  %address = ptrtoint ptr %base to i64
  %behind = sub i64 0, %address
  %remainder = and i64 %behind, $huge_last
  %skip = select i1 %huge, i64 %remainder, i64 0
  %block = getelementptr i8, ptr %base, i64 %skip
  br i1 %huge, label %advise, label %ready
advise:
  call i32 @madvise(ptr %block, i64 %need, i32 $huge_advice)
  br label %ready
ready:
  store i64 %capacity, ptr %block
  %used = getelementptr %block, ptr %block, i32 0, i32 1
  store i64 0, ptr %used
  %mapping = getelementptr %block, ptr %block, i32 0, i32 4
  store ptr %base, ptr %mapping
  %length_place = getelementptr %block, ptr %block, i32 0, i32 5
  store i64 %length, ptr %length_place
  ret ptr %block
}

define internal void @destroy(ptr %block) {
  %mapping = getelementptr %block, ptr %block, i32 0, i32 4
  %base = load ptr, ptr %mapping
  %length_place = getelementptr %block, ptr %block, i32 0, i32 5
  %length = load i64, ptr %length_place
  call i32 @munmap(ptr %base, i64 %length)
  ret void
}
""")

# A new link comes directly before the ring's fixed one, so the oldest is directly after it.
RINGS = Template("""
define internal void @insert(ptr %ring, ptr %link) {
  %before = getelementptr %link, ptr %ring, i32 0, i32 1
  %newest = load ptr, ptr %before
  store ptr %ring, ptr %link
  %previous = getelementptr %link, ptr %link, i32 0, i32 1
  store ptr %newest, ptr %previous
  store ptr %link, ptr %newest
  store ptr %link, ptr %before
  ret void
}

define internal void @remove(ptr %link) {
  %next = load ptr, ptr %link
  %place = getelementptr %link, ptr %link, i32 0, i32 1
  %previous = load ptr, ptr %place
  store ptr %next, ptr %previous
  %back = getelementptr %link, ptr %next, i32 0, i32 1
  store ptr %previous, ptr %back
  ret void
}

define internal i64 @add(ptr %pool, i64 %field, i64 %amount) {
  %place = getelementptr i64, ptr %pool, i64 %field
  %before = load i64, ptr %place
  %after = add i64 %before, %amount
  store i64 %after, ptr %place
  ret i64 %after
}

define internal void @lock(ptr %pool) {
start:
  br label %try
try:
  %was = atomicrmw xchg ptr %pool, i64 1 acquire
  %free = icmp eq i64 %was, 0
  br i1 %free, label %held, label %wait
wait:
  call i32 @sched_yield()
  br label %try
held:
  ret void
}

define internal void @unlock(ptr %pool) {
  store atomic i64 0, ptr %pool release, align 8
  ret void
}

; An idle block becomes nobody's. The lock is held.
define internal i64 @withdraw(ptr %pool, ptr %block) {
  %age = getelementptr %block, ptr %block, i32 0, i32 2
  call void @remove(ptr %age)
  %alike = getelementptr %block, ptr %block, i32 0, i32 3
  call void @remove(ptr %alike)
  %capacity = load i64, ptr %block
  %less = sub i64 0, %capacity
  call i64 @add(ptr %pool, i64 $idle, i64 %less)
  ret i64 %capacity
}

; A block is handed out. The lock is held.
define internal void @count(ptr %pool, i64 %capacity) {
  call i64 @add(ptr %pool, i64 $allocations, i64 1)
  %now = call i64 @add(ptr %pool, i64 $in_use, i64 %capacity)
  %peak_place = getelementptr i64, ptr %pool, i64 $peak
  %before = load i64, ptr %peak_place
  %peak = call i64 @llvm.umax.i64(i64 %before, i64 %now)
  store i64 %peak, ptr %peak_place
  ret void
}

; The oldest idle blocks go back to the system until no more than so many bytes are idle.
define i64 @pool_trim(ptr %pool, i64 %limit) {
start:
  %idle_place = getelementptr i64, ptr %pool, i64 $idle
  %ages = getelementptr i64, ptr %pool, i64 $words
  br label %next
next:
  %sum = phi i64 [ 0, %start ], [ %more, %release ]
  call void @lock(ptr %pool)
  %idle = load i64, ptr %idle_place
  %over = icmp ugt i64 %idle, %limit
  br i1 %over, label %release, label %done
release:
  %oldest = load ptr, ptr %ages
  %block = getelementptr i8, ptr %oldest, i64 -16
  %capacity = call i64 @withdraw(ptr %pool, ptr %block)
  call i64 @add(ptr %pool, i64 $releases, i64 1)
  call void @unlock(ptr %pool)
  call void @destroy(ptr %block)
  %more = add i64 %sum, %capacity
  br label %next
done:
  call void @unlock(ptr %pool)
  ret i64 %sum
}
""")

HANDLER = Template("""
define ptr @pool_malloc(ptr %pool, i64 %size) {
start:
  %too_large = icmp ugt i64 %size, $largest
  br i1 %too_large, label %none, label %search
none:
  ret ptr null
search:
  %capacity = call i64 @capacity(i64 %size)
  %ring = call ptr @ring(ptr %pool, i64 %capacity)
  %newest_place = getelementptr %link, ptr %ring, i32 0, i32 1
  call void @lock(ptr %pool)
  %newest = load ptr, ptr %newest_place
  %empty = icmp eq ptr %newest, %ring
  br i1 %empty, label %make, label %reuse
reuse:
  %idle = getelementptr i8, ptr %newest, i64 -32
  call i64 @withdraw(ptr %pool, ptr %idle)
  call i64 @add(ptr %pool, i64 $reuses, i64 1)
  call void @count(ptr %pool, i64 %capacity)
  call void @unlock(ptr %pool)
  %old = getelementptr %block, ptr %idle, i64 1
  ret ptr %old
make:
  call void @unlock(ptr %pool)
  %fresh = call ptr @create(ptr %pool, i64 %capacity)
  %failed = icmp eq ptr %fresh, null
  br i1 %failed, label %none, label %made
made:
  call void @lock(ptr %pool)
  call void @count(ptr %pool, i64 %capacity)
  call void @unlock(ptr %pool)
  %new = getelementptr %block, ptr %fresh, i64 1
  ret ptr %new
}

; A block that comes from the system is zero already.
define ptr @pool_calloc(ptr %pool, i64 %count, i64 %each) {
start:
  %product = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %count, i64 %each)
  %wraps = extractvalue { i64, i1 } %product, 1
  br i1 %wraps, label %none, label %get
get:
  %size = extractvalue { i64, i1 } %product, 0
  %data = call ptr @pool_malloc(ptr %pool, i64 %size)
  %failed = icmp eq ptr %data, null
  br i1 %failed, label %none, label %got
none:
  ret ptr null
got:
  %used_place = getelementptr %block, ptr %data, i64 -1, i32 1
  %used = load i64, ptr %used_place
  %zero = icmp eq i64 %used, 0
  br i1 %zero, label %done, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %data, i8 0, i64 %size, i1 false)
  br label %done
done:
  ret ptr %data
}

define void @pool_free(ptr %pool, ptr %data, i64 %size) {
start:
  %nothing = icmp eq ptr %data, null
  br i1 %nothing, label %done, label %give
give:
  %block = getelementptr %block, ptr %data, i64 -1
  %capacity = load i64, ptr %block
  %less = sub i64 0, %capacity
  %limit_place = getelementptr i64, ptr %pool, i64 $limit
  call void @lock(ptr %pool)
  call i64 @add(ptr %pool, i64 $in_use, i64 %less)
  %limit = load i64, ptr %limit_place
  %fits = icmp ule i64 %capacity, %limit
  br i1 %fits, label %keep, label %release
keep:
  %used = getelementptr %block, ptr %block, i32 0, i32 1
  store i64 1, ptr %used
  %ages = getelementptr i64, ptr %pool, i64 $words
  %age = getelementptr %block, ptr %block, i32 0, i32 2
  call void @insert(ptr %ages, ptr %age)
  %ring = call ptr @ring(ptr %pool, i64 %capacity)
  %alike = getelementptr %block, ptr %block, i32 0, i32 3
  call void @insert(ptr %ring, ptr %alike)
  call i64 @add(ptr %pool, i64 $idle, i64 %capacity)
  call void @unlock(ptr %pool)
  call i64 @pool_trim(ptr %pool, i64 %limit)
  br label %done
release:
  call i64 @add(ptr %pool, i64 $releases, i64 1)
  call void @unlock(ptr %pool)
  call void @destroy(ptr %block)
  br label %done
done:
  ret void
}

define ptr @pool_realloc(ptr %pool, ptr %data, i64 %size) {
start:
  %nothing = icmp eq ptr %data, null
  br i1 %nothing, label %new, label %look
new:
  %first = call ptr @pool_malloc(ptr %pool, i64 %size)
  ret ptr %first
look:
  %block = getelementptr %block, ptr %data, i64 -1
  %has = load i64, ptr %block
  %wants = call i64 @capacity(i64 %size)
  %same = icmp eq i64 %has, %wants
  br i1 %same, label %stay, label %move
stay:
  ret ptr %data
move:
  %other = call ptr @pool_malloc(ptr %pool, i64 %size)
  %failed = icmp eq ptr %other, null
  br i1 %failed, label %none, label %copy
none:
  ret ptr null
copy:
  %both = call i64 @llvm.umin.i64(i64 %has, i64 %size)
  call void @llvm.memcpy.p0.p0.i64(ptr %other, ptr %data, i64 %both, i1 false)
  call void @pool_free(ptr %pool, ptr %data, i64 %has)
  ret ptr %other
}
""")


def text() -> str:
    values = {
        "protection": mmap.PROT_READ | mmap.PROT_WRITE,
        "flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
        "huge_from": HUGE_FROM,
        "huge_advice": HUGE_ADVICE,
        "huge_page": HUGE_PAGE,
        "huge_last": HUGE_PAGE - 1,
        "words": len(COUNTERS),
        "head": HEAD,
        "page_shift": PAGE_SHIFT,
        "least_zeros": 60 - PAGE_SHIFT,
        "largest": LARGEST,
    }
    return "".join(part.substitute(PLACE, **values) for part in (BLOCKS, RINGS, HANDLER))
