/* What the caller lays out for one pass over rows of logits; `seqsmooth.ops.native.rows` has the same in Python. */

#ifndef SEQSMOOTH_ROWS_H
#define SEQSMOOTH_ROWS_H

#include <stdint.h>

#include "team.h"

enum { TYPE_FLOAT, TYPE_DOUBLE, TYPE_BFLOAT16, TYPE_HALF };
enum { PART_DENSE, PART_LIST, PART_UNIFORM, PART_BITS };
enum { FINE, OUT_OF_MEMORY, OUT_OF_RANGE };

/* Weighted rows of one table: `count` of them for each row of logits. */
typedef struct {
    int64_t kind;
    int64_t count;
    const int64_t *index; /* (rows, count); negative where empty */
    const double *weights; /* (rows, count) */
    const void *values; /* dense: (size, stride); list: (size, length); bits: bytes (size, stride) */
    int64_t type; /* of the values */
    int64_t stride;
    int64_t size; /* how many rows the table has */
    const int64_t *ids; /* list: (size, length); uniform: the excluded tokens, (length,), ascending */
    int64_t length;
    double share; /* uniform: 1 over the number of tokens, 0 for none */
} Part;

typedef struct {
    int64_t rows;
    int64_t vocabulary;
    int64_t type; /* of logits and gradient */
    const void *logits;
    int64_t logits_stride;
    void *gradient; /* NULL, or of the shape of the logits, or the logits themselves */
    int64_t gradient_stride;
    int64_t past; /* 1: the gradient is apart from the logits, and too large for the caches to keep */
    void *smoothed; /* (rows,) float, or double where the logits are */
    void *nll; /* (rows,) likewise */
    uint8_t *kept; /* (rows,) */
    const int64_t *labels; /* NULL, or (rows,) */
    const double *entropy; /* NULL, or (rows,) */
    const double *upstream; /* NULL, or (rows,): further factors of the gradient */
    double scale; /* factor of the gradient */
    int64_t ignore;
    int64_t slots;
    const int64_t *ids; /* (rows, slots) */
    const double *weights; /* (rows, slots) */
    int64_t parts;
    const Part *part;
    int64_t threads;
    Parallel parallel; /* NULL: the pass starts threads of its own */
} Pass;

#endif
