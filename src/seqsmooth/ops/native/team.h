/* Threads that do one piece of work together. */

#ifndef SEQSMOOTH_TEAM_H
#define SEQSMOOTH_TEAM_H

#include <pthread.h>
#include <stdint.h>

#define MOST_THREADS 256

/* `GOMP_parallel` of torch's OpenMP: calls a function in so many threads, the caller's among them. */
typedef void (*Parallel)(void (*function)(void *), void *data, unsigned threads, unsigned flags);

typedef struct {
    void (*function)(void *);
    void *data;
} Work;

static void *do_work(void *given) {
    const Work *work = given;
    work->function(work->data);
    return NULL;
}

/* Calls a function in `count` threads, the caller's among them, or in fewer where no more can be started. */
static void run_team(Parallel parallel, int64_t count, void (*function)(void *), void *data) {
    if (parallel && count > 1) {
        parallel(function, data, (unsigned)count, 0);
        return;
    }
    pthread_t threads[MOST_THREADS];
    int started[MOST_THREADS];
    Work work = {function, data};
    for (int64_t t = 1; t < count; t++) started[t] = pthread_create(threads + t, NULL, do_work, &work) == 0;
    function(data);
    for (int64_t t = 1; t < count; t++)
        if (started[t]) pthread_join(threads[t], NULL);
}

/* How many threads `work` is worth, if each is worth its start for `least` of it. */
static int64_t team_size(int64_t work, int64_t least, int64_t pieces, int64_t threads) {
    int64_t count = work / least + 1;
    if (count > threads) count = threads;
    if (count > pieces) count = pieces;
    if (count > MOST_THREADS) count = MOST_THREADS;
    return count < 1 ? 1 : count;
}

#endif
