"""Conversions between float16 and float32, as LLVM IR: what a processor without them has to call.

LLVM expects the two functions in a library of its own, which no process is sure to have: x86
processors without the F16C instructions (those from before 2012, and virtual machines that hide
them) couldn't run any kernel on float16.
"""

# Halves widen by moving their bits into place, and a multiplication that mends the exponent, which
# is exact also where it was the least. Infinities and NaNs have the largest exponent in both.
#
# Numbers that will have the least exponent are rounded by adding one half, whose last digit is that
# of theirs; larger ones by adding almost one half of their last digit, and the rest if it is odd.
TEXT = """
define float @__extendhfsf2(half %x) {
  %bits = bitcast half %x to i16
  %word = zext i16 %bits to i32
  %sign = and i32 %word, 32768
  %high.sign = shl i32 %sign, 16
  %size = and i32 %word, 32767
  %moved = shl i32 %size, 13
  %small = bitcast i32 %moved to float
  %number = fmul float %small, 0x46F0000000000000
  %number.bits = bitcast float %number to i32
  %special.bits = or i32 %moved, 2139095040
  %is.special = icmp uge i32 %size, 31744
  %out.size = select i1 %is.special, i32 %special.bits, i32 %number.bits
  %out.bits = or i32 %out.size, %high.sign
  %out = bitcast i32 %out.bits to float
  ret float %out
}

define half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %sign = lshr i32 %bits, 31
  %high.sign = shl i32 %sign, 15
  %size = and i32 %bits, 2147483647
  %number = bitcast i32 %size to float
  %lifted = fadd float %number, 5.0e-01
  %lifted.bits = bitcast float %lifted to i32
  %least = sub i32 %lifted.bits, 1056964608
  %last = lshr i32 %size, 13
  %odd = and i32 %last, 1
  %biased = add i32 %size, 3355447295
  %rounded = add i32 %biased, %odd
  %usual = lshr i32 %rounded, 13
  %is.least = icmp ult i32 %size, 947912704
  %finite = select i1 %is.least, i32 %least, i32 %usual
  %is.nan = icmp ugt i32 %size, 2139095040
  %special = select i1 %is.nan, i32 32256, i32 31744
  %is.special = icmp uge i32 %size, 1199570944
  %out.size = select i1 %is.special, i32 %special, i32 %finite
  %out.bits = or i32 %out.size, %high.sign
  %short = trunc i32 %out.bits to i16
  %out = bitcast i16 %short to half
  ret half %out
}
"""
