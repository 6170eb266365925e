/* Additive attention and the pointwise part of recurrent cells: one step of a decoder each way, in single precision.

   The twins of the kernels in `seqsmooth.ops.kernels`: attention, lstm and gru. Rows may lie apart: a stride follows
   each pointer to them. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* exp(x) - 1 = scale (q + 1) - 1, where q = expm1 of what is left of x below a power of two. */
typedef struct {
    float scale, q;
} Power;

static inline Power power_of(float x) {
    const float shift = 0x1.8p23f; /* adding it leaves the nearest whole number in the last bits */
    float bounded = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    float whole = bounded * 0x1.715476p+0f + shift;
    float n = whole - shift;
    float rest = bounded - n * 0x1.62e400p-1f;
    rest = rest - n * 0x1.7f7d1cp-20f;
    float value = 0x1.a01a02p-13f; /* 1 / 7! */
    value = value * rest + 0x1.6c16c2p-10f;
    value = value * rest + 0x1.111112p-7f;
    value = value * rest + 0x1.555556p-5f;
    value = value * rest + 0x1.555556p-3f;
    value = value * rest + 0.5f;
    value = value * rest + 1.0f;
    uint32_t bits;
    memcpy(&bits, &whole, sizeof bits);
    bits = (bits << 23) + 0x3f800000u;
    Power result = {0.0f, value * rest};
    memcpy(&result.scale, &bits, sizeof bits);
    return result;
}

static inline float sigmoid(float x) {
    Power of = power_of(-x);
    return 1.0f / (1.0f + (of.scale * of.q + of.scale));
}

/* e / (e + 2) with e = exp(2 x) - 1, which is as precise near 0 as elsewhere; 1 beyond what single precision knows. */
static inline float tanh_of(float x) {
    float bounded = x < -10.0f ? -10.0f : x > 10.0f ? 10.0f : x;
    Power of = power_of(2.0f * bounded);
    float e = of.scale * of.q + (of.scale - 1.0f);
    float result = e / (e + 2.0f);
    return x != x ? x : result; /* NaN stays, and bounds do not hide it */
}

static float bent_sum(const float *query, const float *key, const float *score, int64_t size) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t a = 0; a < size; a++) sum += score[a] * tanh_of(query[a] + key[a]);
    return sum;
}

EXPORT void seqsmooth_attention_forward(
    int64_t items, int64_t places, int64_t size, int64_t width, const float *query, int64_t query_stride,
    const float *keys, const float *score, const float *values, const uint8_t *mask, float *context,
    int64_t context_stride, float *weights) {
    for (int64_t b = 0; b < items; b++) {
        float *share = weights + b * places, *sum = context + b * context_stride;
        const uint8_t *kept = mask + b * places;
        float most = -INFINITY, total = 0.0f;
        for (int64_t r = 0; r < places; r++) {
            if (!kept[r]) continue;
            share[r] = bent_sum(query + b * query_stride, keys + (b * places + r) * size, score, size);
            most = share[r] > most || share[r] != share[r] ? share[r] : most;
        }
        for (int64_t r = 0; r < places; r++) {
            share[r] = kept[r] ? expf(share[r] - most) : 0.0f;
            total += share[r];
        }
        int none = 1;
        for (int64_t r = 0; r < places; r++) none &= !kept[r];
        for (int64_t r = 0; r < places; r++) share[r] = none ? 1.0f / (float)places : share[r] / total;
        memset(sum, 0, (size_t)width * sizeof *sum);
        for (int64_t r = 0; r < places; r++) {
            const float *value = values + (b * places + r) * width, weight = share[r];
            if (weight == 0.0f && !kept[r]) continue;
#pragma omp simd
            for (int64_t d = 0; d < width; d++) sum[d] += weight * value[d];
        }
    }
}

EXPORT void seqsmooth_attention_backward(
    int64_t items, int64_t places, int64_t size, int64_t width, const float *context_grad, int64_t context_stride,
    const float *query, int64_t query_stride, const float *keys, const float *score, const float *values,
    const uint8_t *mask, const float *weights, float *query_grad, int64_t query_grad_stride, float *energy_grad) {
    for (int64_t b = 0; b < items; b++) {
        const float *share = weights + b * places, *along = context_grad + b * context_stride;
        float *slope = energy_grad + b * places, *grad = query_grad + b * query_grad_stride, mean = 0.0f;
        for (int64_t r = 0; r < places; r++) {
            const float *value = values + (b * places + r) * width;
            float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
            for (int64_t d = 0; d < width; d++) sum += value[d] * along[d];
            slope[r] = sum;
            mean += share[r] * sum;
        }
        memset(grad, 0, (size_t)size * sizeof *grad);
        for (int64_t r = 0; r < places; r++) {
            slope[r] = mask[b * places + r] ? share[r] * (slope[r] - mean) : 0.0f;
            if (slope[r] == 0.0f) continue;
            const float *key = keys + (b * places + r) * size, *from = query + b * query_stride, each = slope[r];
#pragma omp simd
            for (int64_t a = 0; a < size; a++) {
                float bent = tanh_of(from[a] + key[a]);
                grad[a] += each * (1.0f - bent * bent);
            }
        }
#pragma omp simd
        for (int64_t a = 0; a < size; a++) grad[a] *= score[a];
    }
}

/* Sums over the steps; `score_grad` begins with zeros. */
EXPORT void seqsmooth_attention_keys_backward(
    int64_t steps, int64_t items, int64_t places, int64_t size, const float *query, int64_t step_stride,
    int64_t query_stride, const float *keys, const float *score, const float *energy_grad, float *keys_grad,
    float *score_grad) {
    for (int64_t b = 0; b < items; b++)
        for (int64_t r = 0; r < places; r++) {
            const float *key = keys + (b * places + r) * size;
            float *grad = keys_grad + (b * places + r) * size;
            memset(grad, 0, (size_t)size * sizeof *grad);
            for (int64_t t = 0; t < steps; t++) {
                const float *from = query + t * step_stride + b * query_stride;
                float slope = energy_grad[(t * items + b) * places + r];
                if (slope == 0.0f) continue;
#pragma omp simd
                for (int64_t a = 0; a < size; a++) {
                    float bent = tanh_of(from[a] + key[a]);
                    grad[a] += slope * (1.0f - bent * bent);
                    score_grad[a] += slope * bent;
                }
            }
#pragma omp simd
            for (int64_t a = 0; a < size; a++) grad[a] *= score[a];
        }
}

/* gates leaves as the gates themselves. */
EXPORT void seqsmooth_lstm_forward(
    int64_t items, int64_t units, float *gates, int64_t gates_stride, const float *more, int64_t more_stride,
    const float *cell_before, float *cell, float *hidden, int64_t hidden_stride) {
    for (int64_t b = 0; b < items; b++) {
        float *own = gates + b * gates_stride, *out = hidden + b * hidden_stride, *after = cell + b * units;
        const float *other = more + b * more_stride, *before = cell_before + b * units;
#pragma omp simd
        for (int64_t h = 0; h < units; h++) {
            float i = sigmoid(own[h] + other[h]);
            float f = sigmoid(own[units + h] + other[units + h]);
            float g = tanh_of(own[2 * units + h] + other[2 * units + h]);
            float o = sigmoid(own[3 * units + h] + other[3 * units + h]);
            float c = f * before[h] + i * g;
            after[h] = c;
            out[h] = o * tanh_of(c);
            own[h] = i;
            own[units + h] = f;
            own[2 * units + h] = g;
            own[3 * units + h] = o;
        }
    }
}

/* `copy_grad` may be null; `cell_grad`, of the cell, leaves as that of the cell before. */
EXPORT void seqsmooth_lstm_backward(
    int64_t items, int64_t units, const float *gates, int64_t gates_stride, const float *cell_before, const float *cell,
    const float *hidden_grad, int64_t hidden_stride, const float *copy_grad, int64_t copy_stride, float *cell_grad,
    float *gates_grad, int64_t grad_stride) {
    for (int64_t b = 0; b < items; b++) {
        const float *own = gates + b * gates_stride, *before = cell_before + b * units, *after = cell + b * units;
        const float *above = hidden_grad + b * hidden_stride, *beside = copy_grad ? copy_grad + b * copy_stride : above;
        float *through = cell_grad + b * units, *out = gates_grad + b * grad_stride;
#pragma omp simd
        for (int64_t h = 0; h < units; h++) {
            float i = own[h], f = own[units + h], g = own[2 * units + h], o = own[3 * units + h];
            float dh = above[h] + (copy_grad ? beside[h] : 0.0f), bent = tanh_of(after[h]);
            float dc = through[h] + dh * o * (1.0f - bent * bent);
            through[h] = dc * f;
            out[h] = dc * g * i * (1.0f - i);
            out[units + h] = dc * before[h] * f * (1.0f - f);
            out[2 * units + h] = dc * i * (1.0f - g * g);
            out[3 * units + h] = dh * bent * o * (1.0f - o);
        }
    }
}

/* reads leaves as the gates themselves. */
EXPORT void seqsmooth_gru_forward(
    int64_t items, int64_t units, float *reads, int64_t reads_stride, const float *more, int64_t more_stride,
    const float *memories, int64_t memories_stride, const float *before, int64_t before_stride, float *hidden,
    int64_t hidden_stride) {
    for (int64_t b = 0; b < items; b++) {
        float *own = reads + b * reads_stride, *out = hidden + b * hidden_stride;
        const float *other = more + b * more_stride, *past = memories + b * memories_stride;
        const float *last = before + b * before_stride;
#pragma omp simd
        for (int64_t h = 0; h < units; h++) {
            float r = sigmoid(own[h] + other[h] + past[h]);
            float z = sigmoid(own[units + h] + other[units + h] + past[units + h]);
            float n = tanh_of(own[2 * units + h] + other[2 * units + h] + r * past[2 * units + h]);
            out[h] = n + z * (last[h] - n);
            own[h] = r;
            own[units + h] = z;
            own[2 * units + h] = n;
        }
    }
}

/* Adds to `before_grad` what does not come through the memories. */
EXPORT void seqsmooth_gru_backward(
    int64_t items, int64_t units, const float *reads, int64_t reads_stride, const float *memories,
    int64_t memories_stride, const float *before, int64_t before_stride, const float *hidden_grad,
    int64_t hidden_stride, float *before_grad, int64_t before_grad_stride, float *reads_grad,
    int64_t reads_grad_stride, float *memories_grad, int64_t memories_grad_stride) {
    for (int64_t b = 0; b < items; b++) {
        const float *own = reads + b * reads_stride, *past = memories + b * memories_stride;
        const float *last = before + b * before_stride, *above = hidden_grad + b * hidden_stride;
        float *earlier = before_grad + b * before_grad_stride, *out = reads_grad + b * reads_grad_stride;
        float *kept = memories_grad + b * memories_grad_stride;
#pragma omp simd
        for (int64_t h = 0; h < units; h++) {
            float r = own[h], z = own[units + h], n = own[2 * units + h], m = past[2 * units + h], dh = above[h];
            float dn = dh * (1.0f - z) * (1.0f - n * n);
            float dz = dh * (last[h] - n) * z * (1.0f - z);
            float dr = dn * m * r * (1.0f - r);
            earlier[h] += dh * z;
            out[h] = kept[h] = dr;
            out[units + h] = kept[units + h] = dz;
            out[2 * units + h] = dn;
            kept[2 * units + h] = dn * r;
        }
    }
}
