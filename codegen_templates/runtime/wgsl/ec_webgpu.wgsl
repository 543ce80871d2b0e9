// The vocabulary of generated kernels in WGSL. It comes before each file of kernels: a shader module is the two together.

// The weights, and the memory: arena, inputs and outputs. Words of 32 bits each, as floats or as bits; a kernel uses one
// of the two names of each. Where its operands begin is in a uniform structure of its own.
@group(0) @binding(0) var<storage, read> weights: array<f32>;
@group(0) @binding(0) var<storage, read> weights_bits: array<u32>;
@group(0) @binding(1) var<storage, read_write> memory: array<f32>;
@group(0) @binding(1) var<storage, read_write> memory_bits: array<u32>;

// The number of a work-group: more than 65535 of them are launched in rows of equal length.
fn ec_group(place: vec3<u32>, size: vec3<u32>) -> i32 { return i32(place.x + place.y * size.x); }

// Positions.
fn ec_min_int(a: i32, b: i32) -> i32 { return min(a, b); }
fn ec_max_int(a: i32, b: i32) -> i32 { return max(a, b); }

// No constant expression may be infinite or NaN, so that their bits are variables. WGSL lets an implementation assume that
// there are no such values; those of today do not.
var<private> ec_bits_of_infinity: u32 = 0x7f800000u;
var<private> ec_bits_of_nan: u32 = 0x7fc00000u;
fn ec_infinity() -> f32 { return bitcast<f32>(ec_bits_of_infinity); }
fn ec_nan() -> f32 { return bitcast<f32>(ec_bits_of_nan); }
fn ec_isnan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
fn ec_isinf(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }
fn ec_isnan_lanes(x: vec4f) -> vec4<bool> { return (bitcast<vec4<u32>>(x) & vec4(0x7fffffffu)) > vec4(0x7f800000u); }
fn ec_isinf_lanes(x: vec4f) -> vec4<bool> { return (bitcast<vec4<u32>>(x) & vec4(0x7fffffffu)) == vec4(0x7f800000u); }

// Vectors of four floats; comparing them gives masks.
fn ec_lanes_of_weights(place: i32, step: i32) -> vec4f {
  return vec4f(weights[place], weights[place + step], weights[place + 2 * step], weights[place + 3 * step]);
}
fn ec_lanes_of_weights_bits(place: i32, step: i32) -> vec4f {
  return bitcast<vec4f>(vec4(weights_bits[place], weights_bits[place + step], weights_bits[place + 2 * step], weights_bits[place + 3 * step]));
}
fn ec_lanes_of_memory(place: i32, step: i32) -> vec4f {
  return vec4f(memory[place], memory[place + step], memory[place + 2 * step], memory[place + 3 * step]);
}
fn ec_lanes_of_memory_bits(place: i32, step: i32) -> vec4f {
  return bitcast<vec4f>(vec4(memory_bits[place], memory_bits[place + step], memory_bits[place + 2 * step], memory_bits[place + 3 * step]));
}
fn ec_integers_of_weights_bits(place: i32, step: i32) -> vec4f {
  return vec4f(bitcast<vec4<i32>>(vec4(weights_bits[place], weights_bits[place + step], weights_bits[place + 2 * step], weights_bits[place + 3 * step])));
}
fn ec_integers_of_memory_bits(place: i32, step: i32) -> vec4f {
  return vec4f(bitcast<vec4<i32>>(vec4(memory_bits[place], memory_bits[place + step], memory_bits[place + 2 * step], memory_bits[place + 3 * step])));
}
fn ec_store_lanes_memory(place: i32, a: vec4f) {
  for (var lane = 0; lane < 4; lane++) { memory[place + lane] = a[lane]; }
}
fn ec_store_lanes_memory_bits(place: i32, a: vec4f) {
  for (var lane = 0; lane < 4; lane++) { memory_bits[place + lane] = bitcast<u32>(a[lane]); }
}
fn ec_lane(a: vec4f, lane: i32) -> f32 { return a[lane]; }
fn ec_fma(a: vec4f, b: vec4f, c: vec4f) -> vec4f { return fma(a, b, c); }
fn ec_lt(a: vec4f, b: vec4f) -> vec4<bool> { return a < b; }
fn ec_le(a: vec4f, b: vec4f) -> vec4<bool> { return a <= b; }
fn ec_gt(a: vec4f, b: vec4f) -> vec4<bool> { return a > b; }
fn ec_ge(a: vec4f, b: vec4f) -> vec4<bool> { return a >= b; }
fn ec_eq(a: vec4f, b: vec4f) -> vec4<bool> { return a == b; }
fn ec_ne(a: vec4f, b: vec4f) -> vec4<bool> { return !(a == b); } // true of a NaN, unlike a != b
fn ec_and(a: vec4<bool>, b: vec4<bool>) -> vec4<bool> { return a & b; }
fn ec_or(a: vec4<bool>, b: vec4<bool>) -> vec4<bool> { return a | b; }
fn ec_xor(a: vec4<bool>, b: vec4<bool>) -> vec4<bool> { return a != b; }
fn ec_not(a: vec4<bool>) -> vec4<bool> { return !a; }
fn ec_select(mask: vec4<bool>, a: vec4f, b: vec4f) -> vec4f { return select(b, a, mask); }
fn ec_select_i(mask: vec4<bool>, a: vec4<bool>, b: vec4<bool>) -> vec4<bool> { return select(b, a, mask); }
fn ec_max(a: vec4f, b: vec4f) -> vec4f { return select(b, a, (a > b) | ec_isnan_lanes(a)); } // a NaN gives NaN
fn ec_min(a: vec4f, b: vec4f) -> vec4f { return select(b, a, (a < b) | ec_isnan_lanes(a)); }
fn ec_abs(a: vec4f) -> vec4f { return abs(a); }
fn ec_sign(a: vec4f) -> vec4f { return select(sign(a), a, ec_isnan_lanes(a)); }
fn ec_sqrt(a: vec4f) -> vec4f { return sqrt(a); }
fn ec_floor(a: vec4f) -> vec4f { return floor(a); }
fn ec_ceil(a: vec4f) -> vec4f { return ceil(a); }
fn ec_trunc(a: vec4f) -> vec4f { return trunc(a); }
fn ec_round(a: vec4f) -> vec4f { return round(a); }
fn ec_exp(a: vec4f) -> vec4f { return exp(a); }
fn ec_log(a: vec4f) -> vec4f { return select(log(a), vec4f(ec_nan()), a < vec4f(0.0f)); }
fn ec_sigmoid(a: vec4f) -> vec4f { return 1.0f / (1.0f + exp(-a)); }

// tanh and erf: odd rational functions up to where they round to 1, as on CPUs (ec_simd.h).
fn ec_tanh(a: vec4f) -> vec4f {
  let x = clamp(a, vec4f(-8.50256062f), vec4f(8.50256062f));
  let u = x * x;
  let p = (((1.33252049e-8f * u + 2.05839387e-5f) * u + 0.00349399471f) * u + 0.13379696f) * u + 1.0f;
  let q = (((7.76323077e-7f * u + 0.000328305119f) * u + 0.0258709379f) * u + 0.467130244f) * u + 1.0f;
  return select(x * p / q, a, ec_isnan_lanes(a));
}
fn ec_erf(a: vec4f) -> vec4f {
  let x = clamp(a, vec4f(-3.72717977f), vec4f(3.72717977f));
  let u = x * x;
  let p = ((((2.0416619e-6f * u + 0.000284806127f) * u + 0.00377960177f) * u + 0.0527903698f) * u + 0.190782115f) * u + 1.12837923f;
  let q = ((((3.80020792e-5f * u + 0.00116521283f) * u + 0.0149974851f) * u + 0.114256889f) * u + 0.502409279f) * u + 1.0f;
  return select(x * p / q, a, ec_isnan_lanes(a));
}

// sin(x + quarters * pi/2): those of WGSL have 11 bits. Beyond 6400 the argument loses its own.
fn ec_sin_of_quarters(a: vec4f, quarters: i32) -> vec4f {
  let turns = round(a * 0.636619772f);
  let x = (((a - turns * 1.57080078f) - turns * -4.45358455e-6f) - turns * -8.70613803e-10f) - turns * 6.22337197e-14f;
  let u = x * x;
  let sine = ((-0.000195178975f * u + 0.00833218731f) * u - 0.166666552f) * (u * x) + x;
  let cosine = (((2.44323273e-5f * u - 0.00138873095f) * u + 0.0416664556f) * u - 0.5f) * u + 1.0f;
  let n = vec4<i32>(turns) + quarters;
  let y = select(sine, cosine, (n & vec4(1)) != vec4(0));
  return select(y, -y, (n & vec4(2)) != vec4(0));
}
fn ec_sin(a: vec4f) -> vec4f { return select(ec_sin_of_quarters(a, 0), sin(a), !(abs(a) <= vec4f(6400.0f))); }
fn ec_cos(a: vec4f) -> vec4f { return select(ec_sin_of_quarters(a, 1), cos(a), !(abs(a) <= vec4f(6400.0f))); }
fn ec_tan(a: vec4f) -> vec4f { return ec_sin(a) / ec_cos(a); }
// atan, by a polynomial up to tan(pi/8), and what follows from it: those of WGSL have 12 bits.
fn ec_atan(a: vec4f) -> vec4f {
  let size = abs(a);
  let is_large = size > vec4f(1.0f);
  let t = select(size, 1.0f / size, is_large);
  let is_middle = t > vec4f(0.414213562f);
  let x = select(t, (t - 1.0f) / (t + 1.0f), is_middle);
  let u = x * x;
  let near = (((0.08057876f * u - 0.13879152f) * u + 0.19977868f) * u - 0.33332953f) * (u * x) + x;
  let below = select(near, near + 0.785398163f, is_middle);
  return sign(a) * select(below, 1.57079633f - below, is_large);
}
fn ec_asin(a: vec4f) -> vec4f { return 2.0f * ec_atan(a / (1.0f + sqrt(1.0f - a * a))); }
fn ec_acos(a: vec4f) -> vec4f { return 1.57079633f - ec_asin(a); }

// e^x - 1: near 0, where the difference would cancel, a polynomial.
fn ec_expm1(x: vec4f) -> vec4f {
  let p = (((0.00138208661f * x + 0.00836867839f) * x + 0.0416682698f) * x + 0.16666521f) * x + 0.49999994f;
  return select(exp(x) - 1.0f, p * (x * x) + x, abs(x) < vec4f(0.34f));
}
// log(1 + x), likewise.
fn ec_log1p(x: vec4f) -> vec4f {
  let low = ((0.037609919906f * x - 0.091068014503f) * x + 0.116969920695f) * x - 0.127283751965f;
  let cubic = ((((low * x + 0.142768025398f) * x - 0.166553169489f) * x + 0.199995785952f) * x - 0.250001639128f) * x + 0.333333402872f;
  let square = x * x;
  let near = (x > vec4f(-0.25f)) & (x < vec4f(0.5f));
  return select(ec_log(1.0f + x), x + (cubic * (square * x) - 0.5f * square), near);
}
// With the special cases of C.
fn ec_pow(a: vec4f, b: vec4f) -> vec4f {
  let whole = b == floor(b);
  let odd = whole & (abs(b - 2.0f * floor(b * 0.5f)) == vec4f(1.0f));
  let size = select(pow(abs(a), b), select(vec4f(ec_infinity()), vec4f(0.0f), b > vec4f(0.0f)), a == vec4f(0.0f));
  let negative = select(select(vec4f(ec_nan()), size, whole), -size, odd);
  let found = select(size, negative, a < vec4f(0.0f));
  return select(found, vec4f(1.0f), (b == vec4f(0.0f)) | (a == vec4f(1.0f)));
}
fn ec_fmod(a: vec4f, b: vec4f) -> vec4f { return a - trunc(a / b) * b; }

// Floats one by one.
fn ec_max_f32(a: f32, b: f32) -> f32 { return select(b, a, a > b || ec_isnan(a)); }
fn ec_min_f32(a: f32, b: f32) -> f32 { return select(b, a, a < b || ec_isnan(a)); }
fn ec_sign_f32(a: f32) -> f32 { return select(sign(a), a, ec_isnan(a)); }
fn ec_sigmoid_f32(a: f32) -> f32 { return 1.0f / (1.0f + exp(-a)); }
fn ec_tanh_f32(a: f32) -> f32 { return ec_tanh(vec4f(a)).x; }
fn ec_erf_f32(a: f32) -> f32 { return ec_erf(vec4f(a)).x; }
fn ec_log_f32(a: f32) -> f32 { return select(log(a), ec_nan(), a < 0.0f); }
fn ec_acosh_f32(a: f32) -> f32 { return select(acosh(a), ec_nan(), a < 1.0f); }
fn ec_atanh_f32(a: f32) -> f32 { return select(atanh(a), ec_log_f32((1.0f + a) / (1.0f - a)), abs(a) >= 1.0f); }
fn ec_sin_f32(a: f32) -> f32 { return ec_sin(vec4f(a)).x; }
fn ec_cos_f32(a: f32) -> f32 { return ec_cos(vec4f(a)).x; }
fn ec_tan_f32(a: f32) -> f32 { return ec_tan(vec4f(a)).x; }
fn ec_atan_f32(a: f32) -> f32 { return ec_atan(vec4f(a)).x; }
fn ec_asin_f32(a: f32) -> f32 { return ec_asin(vec4f(a)).x; }
fn ec_acos_f32(a: f32) -> f32 { return ec_acos(vec4f(a)).x; }
fn ec_expm1_f32(a: f32) -> f32 { return ec_expm1(vec4f(a)).x; }
fn ec_log1p_f32(a: f32) -> f32 { return ec_log1p(vec4f(a)).x; }
fn ec_pow_f32(a: f32, b: f32) -> f32 { return ec_pow(vec4f(a), vec4f(b)).x; }
fn ec_fmod_f32(a: f32, b: f32) -> f32 { return ec_fmod(vec4f(a), vec4f(b)).x; }
fn ec_floormod_f32(a: f32, b: f32) -> f32 {
  let r = ec_fmod_f32(a, b);
  return select(r, r + b, r != 0.0f && ((r < 0.0f) != (b < 0.0f)));
}
fn ec_floordiv_f32(a: f32, b: f32) -> f32 {
  let r = ec_fmod_f32(a, b);
  let q = round((a - r) / b);
  return select(select(q, q - 1.0f, r != 0.0f && ((r < 0.0f) != (b < 0.0f))), a / b, b == 0.0f);
}

// Integers wrap. Those of fewer bits are computed in 32 and brought back into their range.
fn ec_as_i8(a: i32) -> i32 { return (a << 24u) >> 24u; }
fn ec_as_u8(a: i32) -> i32 { return a & 0xff; }
fn ec_as_i16(a: i32) -> i32 { return (a << 16u) >> 16u; }
fn ec_as_u16(a: i32) -> i32 { return a & 0xffff; }
// Conversion truncates and saturates; NaN becomes 0.
fn ec_convert_i32(x: f32) -> i32 {
  if (ec_isnan(x)) { return 0; }
  if (x <= -2147483648.0f) { return -2147483647 - 1; }
  if (x >= 2147483648.0f) { return 2147483647; }
  return i32(x);
}
fn ec_convert_u32(x: f32) -> u32 {
  if (ec_isnan(x) || x <= 0.0f) { return 0u; }
  if (x >= 4294967296.0f) { return 0xffffffffu; }
  return u32(x);
}
fn ec_neg_i32(a: i32) -> i32 { return 0 - a; }
fn ec_abs_i32(a: i32) -> i32 { return abs(a); }
fn ec_sign_i32(a: i32) -> i32 { return sign(a); }
fn ec_max_i32(a: i32, b: i32) -> i32 { return max(a, b); }
fn ec_min_i32(a: i32, b: i32) -> i32 { return min(a, b); }
fn ec_div_i32(a: i32, b: i32) -> i32 {
  if (b == 0) { return 0; }
  if (b == -1) { return 0 - a; }
  return a / b;
}
fn ec_fmod_i32(a: i32, b: i32) -> i32 {
  if (b == 0 || b == -1) { return 0; }
  return a % b;
}
fn ec_floormod_i32(a: i32, b: i32) -> i32 {
  let r = ec_fmod_i32(a, b);
  return select(r, r + b, r != 0 && ((r < 0) != (b < 0)));
}
fn ec_floordiv_i32(a: i32, b: i32) -> i32 {
  let r = ec_fmod_i32(a, b);
  let q = ec_div_i32(a, b);
  return select(q, q - 1, r != 0 && ((r < 0) != (b < 0)));
}
fn ec_shl_i32(a: i32, b: i32) -> i32 { return select(0, a << (u32(b) & 31u), u32(b) < 32u); }
fn ec_shr_i32(a: i32, b: i32) -> i32 { return a >> min(u32(b), 31u); }
fn ec_pow_i32(a: i32, b: i32) -> i32 {
  if (b < 0) { return select(select(0, select(1, -1, (b & 1) != 0), a == -1), 1, a == 1); }
  var r = 1;
  var base = a;
  for (var left = b; left > 0; left = left / 2) {
    if (left % 2 != 0) { r = r * base; }
    base = base * base;
  }
  return r;
}
fn ec_neg_u32(a: u32) -> u32 { return 0u - a; }
fn ec_abs_u32(a: u32) -> u32 { return a; }
fn ec_sign_u32(a: u32) -> u32 { return min(a, 1u); }
fn ec_max_u32(a: u32, b: u32) -> u32 { return max(a, b); }
fn ec_min_u32(a: u32, b: u32) -> u32 { return min(a, b); }
fn ec_div_u32(a: u32, b: u32) -> u32 {
  if (b == 0u) { return 0u; }
  return a / b;
}
fn ec_fmod_u32(a: u32, b: u32) -> u32 {
  if (b == 0u) { return 0u; }
  return a % b;
}
fn ec_floormod_u32(a: u32, b: u32) -> u32 { return ec_fmod_u32(a, b); }
fn ec_floordiv_u32(a: u32, b: u32) -> u32 { return ec_div_u32(a, b); }
fn ec_shl_u32(a: u32, b: u32) -> u32 { return select(0u, a << (b & 31u), b < 32u); }
fn ec_shr_u32(a: u32, b: u32) -> u32 { return select(0u, a >> (b & 31u), b < 32u); }
fn ec_pow_u32(a: u32, b: u32) -> u32 {
  var r = 1u;
  var base = a;
  for (var left = b; left > 0u; left = left / 2u) {
    if (left % 2u != 0u) { r = r * base; }
    base = base * base;
  }
  return r;
}
