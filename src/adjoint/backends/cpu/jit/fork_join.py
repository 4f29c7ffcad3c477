"""The native half of the thread pool, as LLVM IR text. See `threads` for what it does.

All that several threads touch is sequentially consistent: on the processors that matter this costs
nothing beside the cache misses, and the reasoning stays short.
"""

import platform
import sys

from . import processors

SPIN = 1_000_000  # nanoseconds that a worker looks for work before it sleeps
PATIENCE = 20_000  # nanoseconds of looking before each further look lets other threads run first
CLOCK = 6 if sys.platform == "darwin" else 1  # CLOCK_MONOTONIC

# What tells the processor that a loop waits: declaration and call.
PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
PAUSES["arm64"] = PAUSES["aarch64"]

# The pool: a field each 128 bytes, so that no two of them share a cache line, and POSIX's opaque
# structures fit.
FIELDS = (
    "owned",  # whether somebody's work is in the pool
    "turn",  # odd while work is open; counts openings and closings
    "active",  # workers that may be inside the work
    "next",  # the first chunk that nobody has taken
    "work",  # function, arguments, chunks
    "sleepers",  # workers that wait for the condition
    "employed",  # workers with a smaller index stay, others leave
    "mutex",
    "awaken",  # the condition
    "home",  # the processor that the work was opened on
)
STRIDE = 128


def text() -> str:
    """The module: `create`, `run`, `serve` and `employ`."""
    declaration, pause = PAUSES.get(platform.machine(), ("", ""))
    pointers = "\n  ".join(
        f"%{field} = getelementptr i8, ptr %pool, i64 {STRIDE * place}"
        for place, field in enumerate(FIELDS)
    )
    values = {
        "pause declaration": declaration,
        "pause": pause,
        "pointers": pointers,
        "size": len(FIELDS) * STRIDE,
        "clock": CLOCK,
        "patience": PATIENCE,
        "spin": SPIN,
    }
    module = WAITING + POOL + ALONE + processors.text()
    for name, value in values.items():
        module = module.replace(f"<{name}>", str(value))
    return module


WAITING = """
declare i32 @clock_gettime(i32, ptr)
declare i32 @sched_yield()
<pause declaration>

define internal i64 @now() noinline {
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 <clock>, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}

; Let a moment pass; how long has been waited since start. Soon it lets other threads run, too: what
; is waited for may be done by one that needs this processor.
define internal i64 @moment(i64 %start) noinline {
  <pause>
  %now = call i64 @now()
  %waited = sub i64 %now, %start
  %long = icmp ugt i64 %waited, <patience>
  br i1 %long, label %yield, label %done
yield:
  call i32 @sched_yield()
  br label %done
done:
  ret i64 %waited
}

; Until a number is at most this.
define internal void @await(ptr %number, i64 %most) {
  %first = load atomic i64, ptr %number seq_cst, align 8
  %few = icmp sle i64 %first, %most
  br i1 %few, label %done, label %wait
wait:
  %start = call i64 @now()
  br label %pause
pause:
  call i64 @moment(i64 %start)
  %again = load atomic i64, ptr %number seq_cst, align 8
  %now.few = icmp sle i64 %again, %most
  br i1 %now.few, label %done, label %pause
done:
  ret void
}
"""

# Without a pool: all chunks on the caller.
ALONE = """
define void @alone(ptr %pool, ptr %function, ptr %arguments, i64 %chunks) noinline {
entry:
  br label %loop
loop:
  %chunk = phi i64 [0, %entry], [%following, %call]
  %some = icmp slt i64 %chunk, %chunks
  br i1 %some, label %call, label %done
call:
  call void %function(ptr %arguments, i64 %chunk)
  %following = add i64 %chunk, 1
  br label %loop
done:
  ret void
}
"""

POOL = """
declare ptr @calloc(i64, i64)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)

define ptr @create() {
  %pool = call ptr @calloc(i64 1, i64 <size>)
  <pointers>
  call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  call i32 @pthread_cond_init(ptr %awaken, ptr null)
  ret ptr %pool
}

; Do the chunks that nobody else takes.
define internal void @take(ptr %pool) noinline {
entry:
  <pointers>
  %function = load ptr, ptr %work
  %arguments.at = getelementptr i64, ptr %work, i64 1
  %arguments = load ptr, ptr %arguments.at
  %chunks.at = getelementptr i64, ptr %work, i64 2
  %chunks = load i64, ptr %chunks.at
  br label %loop
loop:
  %chunk = atomicrmw add ptr %next, i64 1 seq_cst
  %some = icmp slt i64 %chunk, %chunks
  br i1 %some, label %call, label %done
call:
  call void %function(ptr %arguments, i64 %chunk)
  br label %loop
done:
  ret void
}

; Wake as many as there are chunks for. Sleepers count themselves before they look whether work is
; open, and this looks for sleepers after the work was opened: one sees the other.
define internal void @wake(ptr %pool, i64 %chunks) noinline {
entry:
  <pointers>
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %any = icmp ne i64 %asleep, 0
  br i1 %any, label %some, label %done
some:
  ; Who holds the mutex now sees the work, or waits already. It is free before anyone wakes up.
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  %others = sub i64 %chunks, 1
  %all = icmp sge i64 %others, %asleep
  br i1 %all, label %everyone, label %one
everyone:
  call i32 @pthread_cond_broadcast(ptr %awaken)
  br label %done
one:
  %i = phi i64 [0, %some], [%following, %one]
  call i32 @pthread_cond_signal(ptr %awaken)
  %following = add i64 %i, 1
  %more = icmp slt i64 %following, %others
  br i1 %more, label %one, label %done
done:
  ret void
}

; Work that has been done when this returns. The caller owns the pool.
define internal void @share(ptr %pool, ptr %function, ptr %arguments, i64 %chunks) {
  <pointers>
  store ptr %function, ptr %work
  %arguments.at = getelementptr i64, ptr %work, i64 1
  store ptr %arguments, ptr %arguments.at
  %chunks.at = getelementptr i64, ptr %work, i64 2
  store i64 %chunks, ptr %chunks.at
  store atomic i64 0, ptr %next seq_cst, align 8
  %here = call i64 @processor()
  store atomic i64 %here, ptr %home monotonic, align 8
  atomicrmw add ptr %turn, i64 1 seq_cst
  call void @wake(ptr %pool, i64 %chunks)
  call void @take(ptr %pool)
  atomicrmw add ptr %turn, i64 1 seq_cst
  call void @await(ptr %active, i64 0)
  ret void
}

define void @run(ptr %pool, ptr %function, ptr %arguments, i64 %chunks) {
  <pointers>
  %several = icmp sgt i64 %chunks, 1
  br i1 %several, label %look, label %alone
look:
  %count = load atomic i64, ptr %employed seq_cst, align 8
  %helped = icmp sgt i64 %count, 0
  br i1 %helped, label %enter, label %alone
enter:
  %pair = cmpxchg ptr %owned, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %together, label %alone
alone:
  call void @alone(ptr %pool, ptr %function, ptr %arguments, i64 %chunks)
  ret void
together:
  call void @share(ptr %pool, ptr %function, ptr %arguments, i64 %chunks)
  store atomic i64 0, ptr %owned seq_cst, align 8
  ret void
}

; Whether work is open that this worker has not yet seen to its end.
define internal i1 @called(ptr %pool, i64 %seen) {
  <pointers>
  %now = load atomic i64, ptr %turn seq_cst, align 8
  %bit = and i64 %now, 1
  %open = icmp ne i64 %bit, 0
  %new = icmp ne i64 %now, %seen
  %both = and i1 %open, %new
  ret i1 %both
}

define internal i1 @dismissed(ptr %pool, i64 %index) {
  <pointers>
  %count = load atomic i64, ptr %employed seq_cst, align 8
  %out = icmp sge i64 %index, %count
  ret i1 %out
}

define internal void @sleep(ptr %pool, i64 %index, i64 %seen) noinline {
entry:
  <pointers>
  call i32 @pthread_mutex_lock(ptr %mutex)
  atomicrmw add ptr %sleepers, i64 1 seq_cst
  br label %look
look:
  %called = call i1 @called(ptr %pool, i64 %seen)
  %dismissed = call i1 @dismissed(ptr %pool, i64 %index)
  %up = or i1 %called, %dismissed
  br i1 %up, label %done, label %wait
wait:
  call i32 @pthread_cond_wait(ptr %awaken, ptr %mutex)
  br label %look
done:
  atomicrmw sub ptr %sleepers, i64 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

; The life of a worker.
define void @serve(ptr %pool, i64 %index) {
entry:
  <pointers>
  %allowed = alloca [128 x i8], align 8
  call void @remember(ptr %allowed)
  br label %idle
idle:
  %seen = phi i64 [0, %entry], [%seen, %tired], [%seen, %late], [%current, %inside]
  %start = call i64 @now()
  br label %look
look:
  %dismissed = call i1 @dismissed(ptr %pool, i64 %index)
  br i1 %dismissed, label %leave, label %listen
leave:
  ret void
listen:
  %called = call i1 @called(ptr %pool, i64 %seen)
  br i1 %called, label %enter, label %pause
pause:
  call void @avoid(ptr %home, ptr %allowed)
  %waited = call i64 @moment(i64 %start)
  %long = icmp ugt i64 %waited, <spin>
  br i1 %long, label %tired, label %look
tired:
  call void @sleep(ptr %pool, i64 %index, i64 %seen)
  br label %idle
enter:
  %current = load atomic i64, ptr %turn seq_cst, align 8
  atomicrmw add ptr %active, i64 1 seq_cst
  ; The owner closes first and looks for active workers then, so either it waits for this one, or
  ; this one sees that the work is over, and touches nothing.
  %again = load atomic i64, ptr %turn seq_cst, align 8
  %same = icmp eq i64 %current, %again
  %bit = and i64 %current, 1
  %open = icmp ne i64 %bit, 0
  %valid = and i1 %same, %open
  br i1 %valid, label %inside, label %late
late:
  atomicrmw sub ptr %active, i64 1 seq_cst
  br label %idle
inside:
  call void @avoid(ptr %home, ptr %allowed)
  call void @take(ptr %pool)
  atomicrmw sub ptr %active, i64 1 seq_cst
  br label %idle
}

; Workers leave unless their index is smaller.
define void @employ(ptr %pool, i64 %count) {
  <pointers>
  call i32 @pthread_mutex_lock(ptr %mutex)
  store atomic i64 %count, ptr %employed seq_cst, align 8
  call i32 @pthread_cond_broadcast(ptr %awaken)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}
"""
