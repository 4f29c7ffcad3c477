"""On which processors workers run, as LLVM IR text: a part of the module of `fork_join`."""

import sys


def text() -> str:
    return LINUX if sys.platform == "linux" else ELSEWHERE


# Linux tends to wake a worker on the processor of the thread that wakes it, where it has to wait
# until that one is done: in virtual machines always, as the other processors seem to be taken while
# they idle. So a worker that finds itself there says that it may run on all others.
LINUX = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal i64 @processor() {
  %number = call i32 @sched_getcpu()
  %wide = sext i32 %number to i64
  ret i64 %wide
}

; The processors that this thread may run on, as 1024 bits; none if that can't be had.
define internal void @remember(ptr %allowed) {
  store [128 x i8] zeroinitializer, ptr %allowed, align 8
  call i32 @sched_getaffinity(i32 0, i64 128, ptr %allowed)
  ret void
}

define internal void @avoid(ptr %home, ptr %allowed) noinline {
  %here = call i64 @processor()
  %there = load atomic i64, ptr %home monotonic, align 8
  %together = icmp eq i64 %here, %there
  %known = icmp ult i64 %here, 1024
  %move = and i1 %together, %known
  br i1 %move, label %change, label %done
change:
  %word = lshr i64 %here, 6
  %shift = and i64 %here, 63
  %bit = shl i64 1, %shift
  %others = xor i64 %bit, -1
  %word.at = getelementptr i64, ptr %allowed, i64 %word
  %all = load i64, ptr %word.at
  %rest = and i64 %all, %others
  store i64 %rest, ptr %word.at
  ; An error (this was the only one) changes nothing.
  call i32 @sched_setaffinity(i32 0, i64 128, ptr %allowed)
  store i64 %all, ptr %word.at
  br label %done
done:
  ret void
}
"""

ELSEWHERE = """
define internal i64 @processor() {
  ret i64 0
}
define internal void @remember(ptr %allowed) {
  ret void
}
define internal void @avoid(ptr %home, ptr %allowed) {
  ret void
}
"""
