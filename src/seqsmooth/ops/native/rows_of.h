/* One row of logits, for a type of logits LOGIT and of arithmetic REAL; included once for each pair.
 *
 * With z' = z - max z and s = sum exp z', for a target q of mass c and an entropy weight w:
 *   loss = c ln s - <q, z'> - w H,  H = ln s - <exp z', z'> / s
 *   gradient = scale (c p - q + w p (ln p + H)),  p = exp z' / s
 * A token of no mass is never multiplied by its logit, which may be minus infinity.
 *
 * The row passes by in tiles that stay in the first cache, a short loop for each term, so that every loop vectorises.
 */

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAMED(name) JOIN(name, NAME)

/* The row as REAL numbers: where it lies, or else in `memory`. */
static const REAL *NAMED(scores)(const Pass *pass, int64_t row, REAL *memory) {
    const LOGIT *logits = (const LOGIT *)pass->logits + row * pass->logits_stride;
#if SAME
    (void)memory;
    return logits;
#else
    READ(memory, logits, pass->vocabulary);
    return memory;
#endif
}

/* A multiple of `count` numbers of one stored row of a table, from place `start`; `add` them to those before, or not. */
static inline __attribute__((always_inline)) void NAMED(read_stored)(REAL *into, const Part *part, int64_t start,
                                                                     REAL weight, int64_t count, const int add) {
    switch (part->type) {
    case TYPE_FLOAT: {
        const float *values = (const float *)part->values + start;
#pragma omp simd
        for (int64_t v = 0; v < count; v++) into[v] = (add ? into[v] : 0) + weight * (REAL)values[v];
        break;
    }
    case TYPE_DOUBLE: {
        const double *values = (const double *)part->values + start;
#pragma omp simd
        for (int64_t v = 0; v < count; v++) into[v] = (add ? into[v] : 0) + weight * (REAL)values[v];
        break;
    }
    default: {
        const uint16_t *values = (const uint16_t *)part->values + start;
        float block[BLOCK];
        for (int64_t first = 0; first < count; first += BLOCK) {
            const int64_t some = count - first < BLOCK ? count - first : BLOCK;
            if (part->type == TYPE_HALF) read_half(block, values + first, some);
            else read_bfloat16(block, values + first, some);
#pragma omp simd
            for (int64_t v = 0; v < some; v++)
                into[first + v] = (add ? into[first + v] : 0) + weight * (REAL)block[v];
        }
    }
    }
}

/* The same for any row that has a number, or a bit, for every token. */
static inline __attribute__((always_inline)) void NAMED(read_row)(REAL *into, const Part *part, int64_t row,
                                                                  int64_t start, REAL weight, int64_t count,
                                                                  const int add) {
    if (part->kind == PART_DENSE) {
        NAMED(read_stored)(into, part, row * part->stride + start, weight, count, add);
        return;
    }
    const uint8_t *bits = (const uint8_t *)part->values + row * part->stride + (start >> 3);
#pragma omp simd
    for (int64_t v = 0; v < count; v++)
        into[v] = (add ? into[v] : 0) + weight * (REAL)((bits[v >> 3] >> (v & 7)) & 1);
}

/* The part of a target that has a number for every token: `weight` times `values`; values are NULL if there is none. */
typedef struct {
    const REAL *values;
    REAL weight;
} NAMED(Dense);

static NAMED(Dense) NAMED(dense)(const Pass *pass, int64_t row, Read *reads, REAL *memory) {
    const int64_t size = pass->vocabulary, number = collect(pass, row, reads);
    if (number == 0) return (NAMED(Dense)){NULL, 0};
    if (number == 1 && reads->part->kind == PART_DENSE && reads->part->type == TYPE_REAL) /* as it lies there */
        return (NAMED(Dense)){(const REAL *)reads->part->values + reads->index * reads->part->stride,
                              (REAL)reads->weight};
    for (int64_t start = 0; start < size; start += TILE) { /* a sum that stays in the first cache */
        const int64_t count = size - start < TILE ? size - start : TILE;
        for (const Read *read = reads; read < reads + number; read++) {
            if (read == reads) NAMED(read_row)(memory + start, read->part, read->index, start, (REAL)read->weight, count, 0);
            else NAMED(read_row)(memory + start, read->part, read->index, start, (REAL)read->weight, count, 1);
        }
    }
    return (NAMED(Dense)){memory, 1};
}

/* A slot or an entry of a list: its share of <q, z'>; in the gradient it is taken off. */
static double NAMED(share)(const REAL *z, REAL best, int64_t token, double weight) {
    return weight == 0 ? 0 : weight * (double)(z[token] - best);
}

/* Calls DO(token, weight) for every slot and every entry of a list of the row. */
#define EACH_SLOT(DO)                                                                                                  \
    for (int64_t k = 0; k < pass->slots; k++) {                                                                        \
        int64_t token = pass->ids[row * pass->slots + k];                                                              \
        if (token != pass->ignore) DO(token, pass->weights[row * pass->slots + k]);                                    \
    }                                                                                                                  \
    for (int64_t p = 0; p < pass->parts; p++) {                                                                        \
        const Part *part = pass->part + p;                                                                             \
        if (part->kind != PART_LIST) continue;                                                                         \
        for (int64_t j = 0; j < part->count; j++) {                                                                    \
            int64_t index = part->index[row * part->count + j];                                                        \
            double weight = part->weights[row * part->count + j];                                                      \
            if (index < 0 || weight == 0) continue;                                                                    \
            for (int64_t k = 0; k < part->length; k++) {                                                               \
                int64_t place = index * part->length + k;                                                              \
                DO(part->ids[place], weight * entry(part, place));                                                     \
            }                                                                                                          \
        }                                                                                                              \
    }

/* In WIDE lanes: one comparison need not wait for the one before. */
static REAL NAMED(greatest)(const REAL *z, int64_t size) {
    REAL lanes[WIDE], best = z[0];
    for (int i = 0; i < WIDE; i++) lanes[i] = best;
    int64_t v = 0;
    for (; v + WIDE <= size; v += WIDE) {
#pragma omp simd
        for (int i = 0; i < WIDE; i++) lanes[i] = z[v + i] > lanes[i] ? z[v + i] : lanes[i];
    }
    for (int i = 0; i < WIDE; i++) best = lanes[i] > best ? lanes[i] : best;
    for (; v < size; v++) best = z[v] > best ? z[v] : best;
    return best;
}

/* What one sweep over a row adds up. */
typedef struct {
    double powers;   /* exp z' */
    double entropy;  /* exp z' times z' */
    double mass;     /* the values of the dense part */
    double product;  /* the same times z' */
} NAMED(Sums);

/* The sum of z' over the tokens of a background. Those that it leaves out may be far below, and would swallow others. */
static double NAMED(sum)(const Part *part, const REAL *z, REAL best, int64_t size) {
    double sum = 0;
    int64_t start = 0;
    for (int64_t k = 0; k <= part->length; k++) {
        const int64_t end = k < part->length ? part->ids[k] : size;
        for (; start < end; start += TILE) {
            const int64_t stop = start + TILE < end ? start + TILE : end;
            REAL total = 0;
#pragma omp simd reduction(+ : total)
            for (int64_t v = start; v < stop; v++) total += z[v] - best;
            sum += total;
        }
        start = end + 1;
    }
    return sum;
}

/* The powers exp z', and sums over the row; flags are constants, so that each combination is a loop of its own. */
static inline __attribute__((always_inline)) void NAMED(sweep)(NAMED(Sums) *sums, REAL *powers, const REAL *z,
                                                               const REAL *values, REAL best, int64_t size,
                                                               const LOGIT *next, const int with_entropy,
                                                               const int with_values) {
    for (int64_t start = 0; start < size; start += TILE) { /* few enough numbers to add up as REAL */
        const int64_t end = start + TILE < size ? start + TILE : size;
        ask_for(next + start, next + end);
        REAL total = 0, entropy = 0, mass = 0, product = 0;
#pragma omp simd reduction(+ : total, entropy, mass, product)
        for (int64_t v = start; v < end; v++) {
            REAL x = z[v] - best, power = EXP(x);
            powers[v] = power;
            total += power;
            if (with_entropy) entropy += power == 0 ? 0 : power * x;
            if (with_values) {
                mass += values[v];
                product += values[v] == 0 ? 0 : values[v] * x;
            }
        }
        sums->powers += total;
        sums->entropy += entropy;
        sums->mass += mass;
        sums->product += product;
    }
}

/* The slope of what every token has: of_power exp z' (1 + of_entropy (z' + offset)) - of_value values - of_all. */
static inline __attribute__((always_inline)) void NAMED(slope)(REAL *into, const REAL *powers, const REAL *z,
                                                               const REAL *values, REAL best, int64_t size,
                                                               REAL of_power, REAL of_bonus, REAL offset, REAL of_value,
                                                               REAL of_all, const int with_entropy,
                                                               const int with_values) {
#pragma omp simd
    for (int64_t v = 0; v < size; v++) {
        REAL power = powers[v], slope = of_power * power - of_all;
        if (with_entropy) slope += power == 0 ? 0 : of_bonus * power * (z[v] - best + offset);
        if (with_values) slope -= of_value * values[v];
        into[v] = slope;
    }
}

static void NAMED(one_row)(const Pass *pass, int64_t row, Read *reads, REAL *memory) {
    const int64_t size = pass->vocabulary;
    LOGIT *gradient = pass->gradient ? (LOGIT *)pass->gradient + row * pass->gradient_stride : NULL;
    REAL *smoothed = (REAL *)pass->smoothed + row, *nll = (REAL *)pass->nll + row;
    pass->kept[row] = (uint8_t)is_kept(pass, row);
    if (!pass->kept[row]) {
        *smoothed = *nll = 0;
        if (gradient) memset(gradient, 0, (size_t)size * sizeof *gradient); /* 0.0 has no bit in any of the types */
        return;
    }
    const int64_t room = (size + 15) / 16 * 16;
    REAL *powers = memory;
    const REAL *z = NAMED(scores)(pass, row, memory + room);
    const NAMED(Dense) q = NAMED(dense)(pass, row, reads, memory + 2 * room);
    double background = 0;
    int spread = 0;
    for (int64_t p = 0; p < pass->parts; p++) {
        if (pass->part[p].kind != PART_UNIFORM) continue;
        const double share = even_share(pass->part + p, row);
        background += share;
        spread |= share != 0;
    }
    const double bonus = pass->entropy ? pass->entropy[row] : 0;

    const REAL best = NAMED(greatest)(z, size);

    const LOGIT *next = (const LOGIT *)pass->logits + (row + 1 < pass->rows ? row + 1 : row) * pass->logits_stride;
    NAMED(Sums) sums = {0, 0, 0, 0};
#define SWEEP(with_entropy, with_values)                                                                               \
    NAMED(sweep)(&sums, powers, z, q.values, best, size, next, with_entropy, with_values)
    switch ((bonus != 0) << 1 | (q.values != NULL)) {
    case 0: SWEEP(0, 0); break;
    case 1: SWEEP(0, 1); break;
    case 2: SWEEP(1, 0); break;
    default: SWEEP(1, 1);
    }
#undef SWEEP
    double mass = q.weight * sums.mass, product = q.weight * sums.product;
    for (int64_t p = 0; spread && p < pass->parts; p++) {
        const Part *part = pass->part + p;
        if (part->kind != PART_UNIFORM) continue;
        const double share = even_share(part, row);
        if (share == 0) continue;
        product += share * NAMED(sum)(part, z, best, size);
        mass += share * (double)(size - part->length);
    }
#define COUNT(token, weight)                                                                                           \
    do {                                                                                                               \
        double w_ = (weight);                                                                                          \
        mass += w_;                                                                                                    \
        product += NAMED(share)(z, best, (token), w_);                                                                 \
    } while (0)
    EACH_SLOT(COUNT)
#undef COUNT
    const double log_total = log(sums.powers), entropy = log_total - sums.entropy / sums.powers;
    *smoothed = (REAL)(mass * log_total - product - (bonus == 0 ? 0 : bonus * entropy));
    const int64_t label = pass->labels ? pass->labels[row] : pass->ignore;
    *nll = label == pass->ignore ? 0 : (REAL)(log_total - (double)(z[label] - best));
    if (!gradient) return;

    const double factor = pass->upstream ? pass->scale * pass->upstream[row] : pass->scale;
#define SLOPE(into, start, count, with_entropy, with_values)                                                           \
    NAMED(slope)(into, powers + (start), z + (start), q.values + (with_values ? (start) : 0), best, count,             \
                 (REAL)(factor * mass / sums.powers), (REAL)(factor * bonus / sums.powers),                            \
                 (REAL)(entropy - log_total), (REAL)(factor * q.weight), (REAL)(factor * background), with_entropy,    \
                 with_values)
#define SLOPES(into, start, count)                                                                                     \
    switch ((bonus != 0) << 1 | (q.values != NULL)) {                                                                  \
    case 0: SLOPE(into, start, count, 0, 0); break;                                                                    \
    case 1: SLOPE(into, start, count, 0, 1); break;                                                                    \
    case 2: SLOPE(into, start, count, 1, 0); break;                                                                    \
    default: SLOPE(into, start, count, 1, 1);                                                                          \
    }
/* What tokens that a background leaves out were given with the others, they get back. */
#define GIVE_BACK(into, start, end)                                                                                    \
    for (int64_t p = 0; spread && p < pass->parts; p++)                                                                \
        if (pass->part[p].kind == PART_UNIFORM)                                                                        \
            for (int64_t k = 0; k < pass->part[p].length; k++)                                                         \
                if (pass->part[p].ids[k] >= (start) && pass->part[p].ids[k] < (end))                                   \
                    (into)[pass->part[p].ids[k] - (start)] += (REAL)(factor * even_share(pass->part + p, row));
#if SAME
    if (pass->past && bonus == 0 && fabs(mass) > LEAST_MASS && excluded(pass) <= MOST_EXCLUDED) {
        /* tile by tile, which stay in the first cache */
        const double unit = sums.powers / mass; /* the power whose slope is `factor` */
#define TAKE(token, weight) powers[token] -= (REAL)(unit * (weight))
        EACH_SLOT(TAKE)
#undef TAKE
        const int64_t line = 64 / (int64_t)sizeof(REAL), lead = (int64_t)((uintptr_t)gradient / sizeof(REAL)) % line;
        REAL tile[TILE];
        for (int64_t start = 0, end; start < size; start = end) {
            end = (start + lead + TILE) / line * line - lead; /* the next begins with a line of the cache */
            if (end > size) end = size;
            SLOPES(tile, start, end - start)
            GIVE_BACK(tile, start, end)
            write_past((char *)(gradient + start), (const char *)tile, (size_t)(end - start) * sizeof *tile);
        }
        return;
    }
#endif
    REAL *slope = SAME && !pass->past ? (REAL *)gradient : powers;
    SLOPES(slope, 0, size)
    GIVE_BACK(slope, 0, size)
#define SUBTRACT(token, weight) slope[token] -= (REAL)(factor * (weight))
    EACH_SLOT(SUBTRACT)
#undef SUBTRACT
#if SAME
    if (pass->past) write_past((char *)gradient, (const char *)slope, (size_t)size * sizeof *gradient);
#else
    WRITE(gradient, slope, size);
#endif
}

#undef GIVE_BACK
#undef SLOPES
#undef SLOPE
#undef EACH_SLOT
#undef NAMED
#undef JOIN
#undef JOIN_
