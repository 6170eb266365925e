/* Float types of 16 bits, and exponentials that a compiler can vectorise. */

#ifndef SEQSMOOTH_NUMBERS_H
#define SEQSMOOTH_NUMBERS_H

#include <stdint.h>
#include <string.h>

#if defined(__F16C__) || defined(__SSE2__)
#include <immintrin.h>
#endif

static inline float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float of_bfloat16(uint16_t value) { return float_of_bits((uint32_t)value << 16); }

static inline uint16_t to_bfloat16(float value) { /* to the nearest, ties to even */
    uint32_t bits = bits_of_float(value);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

static inline float of_half(uint16_t value) {
#ifdef __F16C__
    return _cvtsh_ss(value);
#else
    uint32_t sign = (uint32_t)(value & 0x8000u) << 16, exponent = (value >> 10) & 31u, fraction = value & 1023u;
    if (exponent == 0) { /* zero, or fraction * 2^-24 */
        float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    if (exponent == 31) return float_of_bits(sign | 0x7f800000u | fraction << 13);
    return float_of_bits(sign | (exponent + 112u) << 23 | fraction << 13);
#endif
}

static inline uint16_t to_half(float value) { /* to the nearest, ties to even */
#ifdef __F16C__
    return (uint16_t)_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
#else
    uint32_t bits = bits_of_float(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and more round to infinity */
    if (magnitude < 0x38800000u) { /* below 2^-14, whole multiples of 2^-24 */
        float scaled = float_of_bits(magnitude) * 0x1p24f;
        uint32_t whole = (uint32_t)scaled;
        float rest = scaled - (float)whole;
        whole += rest > 0.5f || (rest == 0.5f && (whole & 1u));
        return (uint16_t)(sign | whole);
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
#endif
}

static inline void read_bfloat16(float *into, const uint16_t *from, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) into[i] = of_bfloat16(from[i]);
}

static inline void write_bfloat16(uint16_t *into, const float *from, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) into[i] = to_bfloat16(from[i]);
}

static inline void read_half(float *into, const uint16_t *from, int64_t count) {
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(into + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
#endif
    for (; i < count; i++) into[i] = of_half(from[i]);
}

static inline void write_half(uint16_t *into, const float *from, int64_t count) {
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(into + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < count; i++) into[i] = to_half(from[i]);
}

/* Copies what is not read again soon past the caches, where the processor can: else it would read there what it writes.
 * Call `end_writing_past` before another thread may read it. */
static inline void write_past(char *into, const char *from, size_t size) {
#ifdef __SSE2__
    size_t done = (size_t)(-(uintptr_t)into) & 63;
    if (done > size) done = size;
    memcpy(into, from, done);
    for (; done + 64 <= size; done += 64)
#ifdef __AVX512F__
        _mm512_stream_si512((__m512i *)(void *)(into + done), _mm512_loadu_si512(from + done));
#else
        for (size_t i = done; i < done + 64; i += 16)
            _mm_stream_si128((__m128i *)(void *)(into + i), _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
#endif
    memcpy(into + done, from + done, size - done);
#else
    memcpy(into, from, size);
#endif
}

static inline void end_writing_past(void) {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

/* Asks for memory that is read soon, while there is something else to compute. */
static inline void ask_for(const void *from, const void *to) {
    for (const char *line = from; line < (const char *)to; line += 64) __builtin_prefetch(line, 0, 2);
}

/* exp(x) for x <= 0 to an ulp or so: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2]. What would be subnormal is 0. */
static inline float exp_float(float x) {
    const float shift = 0x1.8p23f; /* adding it leaves the nearest whole number in the last bits */
    float bounded = x < -87.0f ? -87.0f : x;
    float whole = bounded * 0x1.715476p+0f + shift;
    float n = whole - shift;
    float rest = bounded - n * 0x1.62e400p-1f;
    rest = rest - n * 0x1.7f7d1cp-20f;
    float value = 0x1.6ae6e0p-10f; /* the least relative error on the interval is 2e-9 */
    value = value * rest + 0x1.1267d8p-7f;
    value = value * rest + 0x1.555824p-5f;
    value = value * rest + 0x1.555418p-3f;
    value = value * rest + 0x1.fffffcp-2f;
    value = value * rest + 1.0f;
    value = value * rest + 1.0f;
    float power = float_of_bits((bits_of_float(whole) << 23) + 0x3f800000u);
    return x < -87.0f ? 0.0f : value * power;
}

static inline double exp_double(double x) {
    const double shift = 0x1.8p52;
    double bounded = x < -708.0 ? -708.0 : x;
    double whole = bounded * 0x1.71547652b82fep+0 + shift;
    double n = whole - shift;
    double rest = bounded - n * 0x1.62e42fefa0000p-1;
    rest = rest - n * 0x1.cf79abc9e3b3ap-40;
    double value = 1.0 / 87178291200.0;
    value = value * rest + 1.0 / 6227020800.0;
    value = value * rest + 1.0 / 479001600.0;
    value = value * rest + 1.0 / 39916800.0;
    value = value * rest + 1.0 / 3628800.0;
    value = value * rest + 1.0 / 362880.0;
    value = value * rest + 1.0 / 40320.0;
    value = value * rest + 1.0 / 5040.0;
    value = value * rest + 1.0 / 720.0;
    value = value * rest + 1.0 / 120.0;
    value = value * rest + 1.0 / 24.0;
    value = value * rest + 1.0 / 6.0;
    value = value * rest + 0.5;
    value = value * rest + 1.0;
    value = value * rest + 1.0;
    uint64_t bits;
    memcpy(&bits, &whole, sizeof bits);
    bits = (bits << 52) + 0x3ff0000000000000u;
    double power;
    memcpy(&power, &bits, sizeof power);
    return x < -708.0 ? 0.0 : value * power;
}

#endif
