"""Logarithms to the last bits, in WGSL: its own may be wrong by 2 ** -21 where they are small."""

# log((1 + s) / (1 - s)) / 2 is s + s ** 3 / 3 + s ** 5 / 5 + ..., which ends soon for |s| < 0.18.
LOGARITHMS = """
fn log_ratio(s: f32) -> f32 {
    let z = s * s;
    return 2.0 * s * fma(z, fma(z, fma(z, fma(z, 1.0 / 9.0, 1.0 / 7.0), 0.2), 1.0 / 3.0), 1.0);
}

// The logarithm of a positive number that is neither subnormal nor infinite, times 2 ** exponent.
fn log_scaled(x: f32, exponent: i32) -> f32 {
    let bits = bitcast<u32>(x) - 0x3f3504f3u;  // of the root of 1/2
    let e = exponent + (bitcast<i32>(bits) >> 23u);
    let m = bitcast<f32>((bits & 0x7fffffu) + 0x3f3504f3u);
    return fma(f32(e), 0.693359375, fma(f32(e), -2.12194440e-4, log_ratio((m - 1.0) / (m + 1.0))));
}

fn log_of(x: f32) -> f32 { return log_scaled(x, 0); }

// log(1 + x) for x > -1.
fn log_1_plus(x: f32) -> f32 {
    if (abs(x) < 0.25) { return log_ratio(x / (2.0 + x)); }
    return log_of(1.0 + x);
}
"""
