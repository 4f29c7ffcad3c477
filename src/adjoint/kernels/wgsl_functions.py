"""Functions in WGSL text that kernels call: what the language lacks, or leaves to drivers.

`OPAQUE` is declared first: others call it, or read its `nothing`, which is the word that is 0.
"""

# A float, unchanged, which no compiler can know: so it is computed by itself, and rounded.
OPAQUE = """
var<private> nothing: u32;
fn opaque(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ nothing); }"""
EXACT_FMA = """
fn upper_half(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u); }
fn exact_fma(x: f32, y: f32, z: f32) -> f32 {
    let product = opaque(x * y);
    if ((bitcast<u32>(product) & 0x7f800000u) == 0x7f800000u) { return product + z; }
    let x1 = upper_half(x);
    let x2 = x - x1;
    let y1 = upper_half(y);
    let y2 = y - y1;
    let lost = ((opaque(x1 * y1 - product) + x1 * y2) + x2 * y1) + x2 * y2;
    let sum = opaque(product + z);
    let part = opaque(sum - product);
    return sum + (lost + (opaque(product - opaque(sum - part)) + (z - part)));
}"""
FMOD = """
fn float_modulo(x: f32, y: f32) -> f32 {
    let a = bitcast<u32>(x) & 0x7fffffffu;
    let b = bitcast<u32>(y) & 0x7fffffffu;
    if (a < b || b == 0u) { return x; }
    let exponent = max(b >> 23u, 1u);
    let divisor = (b & 0x7fffffu) | (min(b >> 23u, 1u) << 23u);
    var rest = ((a & 0x7fffffu) | (min(a >> 23u, 1u) << 23u)) % divisor;
    var shifts = max(a >> 23u, 1u) - exponent;
    while (shifts > 0u && rest > 0u) {
        let some = min(shifts, 8u);
        rest = (rest << some) % divisor;
        shifts -= some;
    }
    let up = min(countLeadingZeros(rest | 1u) - 8u, exponent - 1u);
    let digits = rest << up;
    let whole = select(digits, digits - 0x800000u + ((exponent - up) << 23u), digits >= 0x800000u);
    return bitcast<f32>(whole | (bitcast<u32>(x) & 0x80000000u));
}"""
# Sines far from 0: x / (pi / 2), modulo 4, from the bits of 2 / pi that matter for the exponent.
FAR = """
fn two_over_pi(k: u32) -> u32 {
    switch k {
        case 1u: { return 0xa2f9836eu; }
        case 2u: { return 0x4e441529u; }
        case 3u: { return 0xfc2757d1u; }
        case 4u: { return 0xf534ddc0u; }
        case 5u: { return 0xdb629599u; }
        case 6u: { return 0x3c439041u; }
        case 7u: { return 0xfe5163abu; }
        default: { return 0u; }
    }
}
fn window(start: u32) -> u32 {
    let shift = start & 31u;
    let first = two_over_pi(start / 32u);
    if (shift == 0u) { return first; }
    return (first << shift) | (two_over_pi(start / 32u + 1u) >> (32u - shift));
}
fn upper_word(x: u32, y: u32) -> u32 {
    let middle = (x & 0xffffu) * (y >> 16u) + (((x & 0xffffu) * (y & 0xffffu)) >> 16u);
    let other = (x >> 16u) * (y & 0xffffu) + (middle & 0xffffu);
    return (x >> 16u) * (y >> 16u) + (middle >> 16u) + (other >> 16u);
}
fn sin_of_quarters(x: f32, more: u32) -> f32 {
    let bits = bitcast<u32>(x);
    let exponent = (bits >> 23u) & 255u;
    if (exponent == 255u) { return bitcast<f32>(0x7fc00000u ^ nothing); }
    let digits = (bits & 0x7fffffu) | 0x800000u;
    let start = exponent - 120u;
    let last = window(start + 64u);
    let middle = window(start + 32u);
    let lower = digits * middle + upper_word(digits, last);
    let carry = u32(lower < digits * middle);
    let upper = digits * window(start) + upper_word(digits, middle) + carry;
    let part = bitcast<i32>((upper << 2u) | (lower >> 30u));
    let rest = (lower << 2u) | ((digits * last) >> 30u);
    let quarter = (upper >> 30u) + u32(part < 0) + more;
    let r = (f32(part) * 0x1p-32 + f32(rest) * 0x1p-64) * 1.5707964;
    let square = r * r;
    let sine = r + r * square * (-0.16666654 + square * (0.008332095 - square * 0.00019505531));
    let cosine = 1.0 - square * (0.5 - square * (0.04166664 - square * (0.001388713
        - square * 2.4412064e-05)));
    let out = select(sine, cosine, (quarter & 1u) != 0u);
    return select(out, -out, (quarter & 2u) != 0u);
}
fn far_cos(x: f32) -> f32 { return sin_of_quarters(x, 1u); }
fn far_sin(x: f32) -> f32 { return sin_of_quarters(x, 0u) * sign(x); }
fn far_tan(x: f32) -> f32 { return far_sin(x) / far_cos(x); }"""
