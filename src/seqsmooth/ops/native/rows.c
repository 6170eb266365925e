/* Cross entropy against soft targets on the CPU: losses and gradients of rows of logits in one pass. */

#define _POSIX_C_SOURCE 200112L

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"
#include "rows.h"

#define EXPORT __attribute__((visibility("default")))
#define TILE 512
#define WIDE 64 /* numbers that are compared side by side */
#define BLOCK 64 /* numbers of 16 bits that are read at a time */
#define LEAST_WORK 65536 /* logits for which another thread is worth its start */
#define LEAST_MASS 1e-9 /* of a target, by which what it has on single tokens can be divided */
#define MOST_EXCLUDED 64 /* tokens that backgrounds leave out, of which each tile is asked */
#define BLOCKS 4 /* of rows for each thread, so that one that is held up takes fewer */

static int is_kept(const Pass *pass, int64_t row) {
    for (int64_t k = 0; k < pass->slots; k++)
        if (pass->ids[row * pass->slots + k] != pass->ignore) return 1;
    for (int64_t p = 0; p < pass->parts; p++)
        for (int64_t j = 0; j < pass->part[p].count; j++)
            if (pass->part[p].index[row * pass->part[p].count + j] >= 0) return 1;
    return 0;
}

static inline double entry(const Part *part, int64_t place) {
    switch (part->type) {
    case TYPE_FLOAT: return ((const float *)part->values)[place];
    case TYPE_DOUBLE: return ((const double *)part->values)[place];
    case TYPE_BFLOAT16: return of_bfloat16(((const uint16_t *)part->values)[place]);
    default: return of_half(((const uint16_t *)part->values)[place]);
    }
}

/* A row of a table that has a number, or a bit, for every token. */
typedef struct {
    const Part *part;
    int64_t index;
    double weight;
} Read;

/* The rows with numbers for every token that a row of the target is made of, each once; returns how many. */
static int64_t collect(const Pass *pass, int64_t row, Read *reads) {
    int64_t count = 0;
    for (int64_t p = 0; p < pass->parts; p++) {
        const Part *part = pass->part + p;
        if (part->kind != PART_DENSE && part->kind != PART_BITS) continue;
        for (int64_t j = 0, first = count; j < part->count; j++) {
            const int64_t index = part->index[row * part->count + j];
            const double weight = part->weights[row * part->count + j];
            if (index < 0 || weight == 0) continue;
            int64_t place = first;
            while (place < count && reads[place].index != index) place++;
            if (place < count) reads[place].weight += weight;
            else reads[count++] = (Read){part, index, weight};
        }
    }
    int64_t left = 0;
    for (int64_t k = 0; k < count; k++) /* what cancels is not read */
        if (reads[k].weight != 0) reads[left++] = reads[k];
    return left;
}

/* How many rows `collect` may find. */
static size_t most_reads(const Pass *pass) {
    size_t count = 0;
    for (int64_t p = 0; p < pass->parts; p++) count += (size_t)pass->part[p].count;
    return count;
}

/* How many tokens backgrounds leave out. */
static int64_t excluded(const Pass *pass) {
    int64_t count = 0;
    for (int64_t p = 0; p < pass->parts; p++)
        if (pass->part[p].kind == PART_UNIFORM) count += pass->part[p].length;
    return count;
}

/* What each token of a background gets. */
static double even_share(const Part *part, int64_t row) {
    double weight = 0;
    for (int64_t j = 0; j < part->count; j++)
        if (part->index[row * part->count + j] >= 0) weight += part->weights[row * part->count + j];
    return weight * part->share;
}

#define LOGIT float
#define REAL float
#define TYPE_REAL TYPE_FLOAT
#define EXP exp_float
#define SAME 1
#define NAME float
#include "rows_of.h"
#undef LOGIT
#undef REAL
#undef TYPE_REAL
#undef EXP
#undef NAME

#define LOGIT double
#define REAL double
#define TYPE_REAL TYPE_DOUBLE
#define EXP exp_double
#define NAME double
#include "rows_of.h"
#undef LOGIT
#undef REAL
#undef TYPE_REAL
#undef EXP
#undef SAME
#undef NAME

#define LOGIT uint16_t
#define REAL float
#define TYPE_REAL TYPE_FLOAT
#define EXP exp_float
#define SAME 0
#define NAME bfloat16
#define READ read_bfloat16
#define WRITE write_bfloat16
#include "rows_of.h"
#undef NAME
#undef READ
#undef WRITE

#define NAME half
#define READ read_half
#define WRITE write_half
#include "rows_of.h"

/* Whether every id is one of the vocabulary, and every index one of its table. */
static int is_in_range(const Pass *pass, int64_t row) {
    const uint64_t size = (uint64_t)pass->vocabulary;
    for (int64_t k = 0; k < pass->slots; k++) {
        int64_t token = pass->ids[row * pass->slots + k];
        if (token != pass->ignore && (uint64_t)token >= size) return 0;
    }
    if (pass->labels && pass->labels[row] != pass->ignore && (uint64_t)pass->labels[row] >= size) return 0;
    for (int64_t p = 0; p < pass->parts; p++) {
        const Part *part = pass->part + p;
        for (int64_t j = 0; j < part->count; j++) {
            int64_t index = part->index[row * part->count + j];
            if (index < 0) continue;
            if (index >= part->size) return 0;
            if (part->kind != PART_LIST) continue;
            for (int64_t k = 0; k < part->length; k++)
                if ((uint64_t)part->ids[index * part->length + k] >= size) return 0;
        }
    }
    return 1;
}

/* The threads of a pass share its rows: each takes the next block until none is left. */
typedef struct {
    const Pass *pass;
    int64_t block;
    atomic_int_least64_t next;
    atomic_int result;
} Team;

static void run_blocks(void *given) {
    Team *team = given;
    const Pass *pass = team->pass;
    size_t width = pass->type == TYPE_DOUBLE ? sizeof(double) : sizeof(float);
    size_t room = (size_t)(pass->vocabulary + 15) / 16 * 16;
    void *memory = NULL;
    Read *reads = malloc((most_reads(pass) + 1) * sizeof *reads);
    if (!reads || posix_memalign(&memory, 64, 3 * room * width)) {
        atomic_store(&team->result, OUT_OF_MEMORY);
        free(reads);
        return;
    }
    for (;;) {
        int64_t row = atomic_fetch_add(&team->next, team->block), end = row + team->block;
        if (end > pass->rows) end = pass->rows;
        if (row >= end || atomic_load(&team->result) != FINE) break;
        for (; row < end; row++) {
            if (!is_in_range(pass, row)) {
                atomic_store(&team->result, OUT_OF_RANGE);
                break;
            }
            switch (pass->type) {
            case TYPE_FLOAT: one_row_float(pass, row, reads, memory); break;
            case TYPE_DOUBLE: one_row_double(pass, row, reads, memory); break;
            case TYPE_BFLOAT16: one_row_bfloat16(pass, row, reads, memory); break;
            default: one_row_half(pass, row, reads, memory);
            }
        }
    }
    end_writing_past();
    free(memory);
    free(reads);
}

/* Losses, and the gradient where there is a place for it; FINE, or what went wrong. */
EXPORT int seqsmooth_rows(const Pass *pass) {
    for (int64_t p = 0; p < pass->parts; p++) /* the tokens that a background leaves out are the same for all rows */
        if (pass->part[p].kind == PART_UNIFORM)
            for (int64_t k = 0; k < pass->part[p].length; k++)
                if ((uint64_t)pass->part[p].ids[k] >= (uint64_t)pass->vocabulary) return OUT_OF_RANGE;
    int64_t count = team_size(pass->rows * pass->vocabulary, LEAST_WORK, pass->rows, pass->threads);
    Team team = {.pass = pass, .block = pass->rows / (count * BLOCKS) + 1};
    atomic_init(&team.next, 0);
    atomic_init(&team.result, FINE);
    run_team(pass->parallel, count, run_blocks, &team);
    return atomic_load(&team.result);
}
