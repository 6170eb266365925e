/* N-grams of candidates and of their references: CIDEr-D, and the matches that BLEU counts.

   The n-grams of an item are nodes of a trie, found by their parent and their last word in a hash table. So the count is
   exact for any ids, and an n-gram that candidates and references share is looked up once among the document
   frequencies. Negative ids are no tokens, and no n-gram reaches over one. */

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "team.h"

#define EXPORT __attribute__((visibility("default")))
#define MOST_ORDER 8
#define LEAST_WORK 4096 /* n-grams for which another thread is worth its start */
#define ROOT (-1)
#define SIDE_BY_SIDE 16 /* searches */

/* The n-grams of a length in documents, as `DocumentFrequencies` has them. */
typedef struct {
    const int64_t *keys; /* (size,) ascending: the place of the first n-1 words times `words`, plus that of the last;
                            after them one that is greater than all, which a search may read */
    const int32_t *counts; /* (size,) */
    const int64_t *starts; /* where the keys with each n-1 first words begin; for n = 1, or NULL, those from each id on */
    int64_t size;
} Order;

typedef struct {
    int64_t items, candidates, steps, references, their_steps, order;
    const int64_t *ids;       /* (items, candidates, steps) */
    const int64_t *their_ids; /* (items, references, their_steps) */
    const Order *documents;   /* NULL, or (order,) */
    int64_t words;
    int64_t greatest; /* the greatest id of a word */
    const double *squares; /* the squared weight of an n-gram, by how many documents contain it; of none at 0 */
    double sigma;
    double *scores;   /* with documents: CIDEr-D (items, candidates) */
    int64_t *matches; /* without: clipped matches (items, candidates, order) */
    int64_t threads;
    Parallel parallel; /* NULL: starts threads of its own */
} Ngrams;

typedef struct {
    const Ngrams *given;
    atomic_int_least64_t next;
    atomic_int out_of_memory;
} Team;

/* A place of the hash table. What an item before left behind has a node less than `first`. */
typedef struct {
    int64_t word;   /* of a word its id, or else the node of the last word alone */
    int32_t parent; /* a node, or ROOT */
    int32_t node;   /* the node here, counted on from item to item */
} Place;

typedef struct {
    int64_t word;
    int32_t parent;
    int32_t number; /* of the same n-gram in the documents; -1 if it is in none */
    int32_t mine;   /* how often the sequence at hand has had it */
    int32_t most;   /* its count in the reference that has it most often */
    double square;  /* of its weight */
} Node;

/* What one thread needs for one item after the other. */
typedef struct {
    Place *places;
    uint64_t mask;
    Node *nodes;
    int32_t *counts; /* with documents: (nodes, references) */
    int32_t *found;  /* (sequences, their positions, order): the nodes */
    int32_t *orders; /* (order, nodes): those that are new, by order */
    int64_t new[MOST_ORDER];
    int64_t used; /* nodes of this item */
    int32_t first;
    double *norms; /* (references, order) */
    int64_t *lengths; /* (references) */
    double *products; /* (references, order) */
} Memory;

static uint64_t mixed(uint64_t key) {
    key = (key ^ key >> 32) * 0x1E3779B97F4A7C15u;
    return (key ^ key >> 32) * 0x3F58476D1CE4E5B9u;
}

static int64_t positions(const Ngrams *given) {
    return given->candidates * given->steps + given->references * given->their_steps;
}

static int32_t find_node(const Ngrams *given, Memory *memory, int32_t parent, int64_t word, int64_t n) {
    const int64_t references = given->documents ? given->references : 0;
    uint64_t at = mixed((uint64_t)word ^ (uint64_t)(uint32_t)parent << 32) & memory->mask;
    for (;; at = (at + 1) & memory->mask) {
        Place *place = memory->places + at;
        if (place->node < memory->first) {
            const int32_t node = (int32_t)memory->used++;
            *place = (Place){word, parent, memory->first + node};
            memory->nodes[node] = (Node){.word = word, .parent = parent, .number = -1};
            memset(memory->counts + node * references, 0, (size_t)references * sizeof(int32_t));
            memory->orders[n * positions(given) * given->order + memory->new[n]++] = node;
            return node;
        }
        if (place->word == word && place->parent == parent) return place->node - memory->first;
    }
}

/* The nodes of all n-grams of a sequence: `found` of its positions and orders, -1 where there is no n-gram. */
static void read_sequence(const Ngrams *given, Memory *memory, const int64_t *ids, int64_t steps, int32_t *found) {
    const int64_t order = given->order;
    for (int64_t i = 0; i < steps; i++) found[i * order] = ids[i] < 0 ? -1 : find_node(given, memory, ROOT, ids[i], 0);
    for (int64_t i = 0; i < steps; i++)
        for (int64_t n = 1; n < order; n++) {
            const int32_t parent = found[i * order + n - 1], word = i + n < steps ? found[(i + n) * order] : -1;
            const int none = parent < 0 || word < 0;
            found[i * order + n] = none ? -1 : find_node(given, memory, parent, word, n);
        }
}

/* A search for a key among those from `at` on, of which `left` are not ruled out. */
typedef struct {
    Node *node;
    const int64_t *at;
    int64_t left, key;
} Search;

/* Searches side by side, so that one need not wait for what another reads; each ends at the first key not less. */
static void search(Search *searches, int count) {
    for (int64_t most = 1; most > 0;) {
        most = 0;
        for (int k = 0; k < count; k++) {
            Search *one = searches + k;
            const int64_t half = (one->left + 1) / 2; /* 0 at the end, where one more key can be read */
            one->at += one->at[half > 0 ? half - 1 : 0] < one->key ? half : 0;
            one->left -= half;
            most |= one->left;
        }
    }
}

/* Where the keys are among which a node may be; 0 where it cannot be. */
static int is_possible(const Ngrams *given, const Memory *memory, const Node *node, int64_t n, Search *search) {
    const Order *documents = given->documents + n;
    if (n == 0) {
        if (node->word > given->greatest) return 0;
        const int64_t start = documents->starts ? documents->starts[node->word] : 0;
        const int64_t end = documents->starts ? documents->starts[node->word + 1] : documents->size;
        *search = (Search){NULL, documents->keys + start, end - start, node->word};
        return 1;
    }
    const int64_t parent = memory->nodes[node->parent].number, word = memory->nodes[node->word].number;
    if (parent < 0 || word < 0) return 0;
    const int64_t start = documents->starts[parent], end = documents->starts[parent + 1];
    *search = (Search){NULL, documents->keys + start, end - start, parent * given->words + word};
    return 1;
}

/* Looks new nodes up in the documents, an order at a time: what will be read for all of them is asked for first. */
static void weigh(const Ngrams *given, Memory *memory) {
    const int64_t most = positions(given) * given->order;
    for (int64_t n = 0; n < given->order; n++) {
        const int32_t *nodes = memory->orders + n * most;
        const Order *documents = given->documents + n;
        for (int64_t k = 0; n > 0 && k < memory->new[n]; k++) {
            const int64_t parent = memory->nodes[memory->nodes[nodes[k]].parent].number;
            if (parent >= 0) __builtin_prefetch(documents->starts + parent);
        }
        Search searches[SIDE_BY_SIDE];
        int count = 0;
        for (int64_t k = 0; k < memory->new[n]; k++) {
            Node *node = memory->nodes + nodes[k];
            node->square = given->squares[0];
            if (is_possible(given, memory, node, n, searches + count)) {
                __builtin_prefetch(searches[count].at + searches[count].left / 2);
                searches[count++].node = node;
            }
            if (count < SIDE_BY_SIDE && k + 1 < memory->new[n]) continue;
            search(searches, count);
            for (int j = 0; j < count; j++) {
                if (*searches[j].at != searches[j].key) continue;
                const int64_t place = searches[j].at - documents->keys;
                searches[j].node->number = (int32_t)place;
                searches[j].node->square = given->squares[documents->counts[place]];
            }
            count = 0;
        }
    }
}

static int64_t length_of(const int64_t *ids, int64_t steps) {
    int64_t length = 0;
    for (int64_t i = 0; i < steps; i++) length += ids[i] >= 0;
    return length;
}

/* Counts of one sequence start anew. */
static void forget(Memory *memory, const int32_t *found, int64_t length) {
    for (int64_t i = 0; i < length; i++)
        if (found[i] >= 0) memory->nodes[found[i]].mine = 0;
}

/* How often the reference that has it most often has each n-gram; and with documents, how often each has it, and the
 * norms of their vectors. */
static void count_references(const Ngrams *given, Memory *memory) {
    const int64_t order = given->order, count = given->references, length = given->their_steps * order;
    memset(memory->norms, 0, (size_t)(count * order) * sizeof(double));
    for (int64_t r = 0; r < count; r++) {
        const int32_t *found = memory->found + r * length;
        for (int64_t i = 0; i < length; i++) {
            if (found[i] < 0) continue;
            Node *node = memory->nodes + found[i];
            const int32_t times = ++node->mine;
            if (times > node->most) node->most = times;
            if (!given->documents) continue;
            memory->counts[found[i] * count + r] = times;
            memory->norms[r * order + i % order] += (2 * times - 1) * node->square; /* in the end times^2 */
        }
        forget(memory, found, length);
    }
}

static void score_candidate(const Ngrams *given, Memory *memory, int64_t length, const int32_t *found, double *score) {
    const int64_t order = given->order, count = given->references;
    double norms[MOST_ORDER] = {0};
    memset(memory->products, 0, (size_t)(count * order) * sizeof(double));
    for (int64_t i = 0; i < given->steps; i++)
        for (int64_t n = 0; n < order && found[i * order + n] >= 0; n++) {
            const int32_t place = found[i * order + n];
            Node *node = memory->nodes + place;
            const double square = node->square;
            const int32_t times = ++node->mine;
            norms[n] += (2 * times - 1) * square;
            if (times > node->most) continue;
            for (int64_t r = 0; r < count; r++) { /* min(w_c, w_r) w_r, an occurrence after the other */
                const int32_t theirs = memory->counts[place * count + r];
                if (times <= theirs) memory->products[r * order + n] += theirs * square;
            }
        }
    double sum = 0;
    int64_t present = 0;
    for (int64_t r = 0; r < count; r++) {
        if (memory->lengths[r] == 0) continue;
        present++;
        double total = 0;
        for (int64_t n = 0; n < order; n++) {
            const double norm = sqrt(norms[n]) * sqrt(memory->norms[r * order + n]);
            total += memory->products[r * order + n] / (norm == 0 ? 1 : norm);
        }
        const double ours = length > 1 ? (double)(length - 1) : 0, theirs = (double)(memory->lengths[r] - 1);
        const double apart = (ours - theirs) / given->sigma;
        sum += total * exp(-apart * apart / 2);
    }
    *score = 10.0 / (double)order * sum / (double)(present ? present : 1);
}

static void match_candidate(const Ngrams *given, Memory *memory, const int32_t *found, int64_t *matches) {
    const int64_t order = given->order;
    for (int64_t n = 0; n < order; n++) matches[n] = 0;
    for (int64_t i = 0; i < given->steps; i++)
        for (int64_t n = 0; n < order && found[i * order + n] >= 0; n++) {
            Node *node = memory->nodes + found[i * order + n];
            matches[n] += ++node->mine <= node->most;
        }
}

static void run_item(const Ngrams *given, Memory *memory, int64_t item) {
    const int64_t order = given->order, theirs = given->references * given->their_steps;
    if (memory->first > INT32_MAX - positions(given) * order) { /* start to count anew */
        memset(memory->places, 0, (memory->mask + 1) * sizeof(Place));
        memory->first = 1;
    }
    memory->used = 0;
    memset(memory->new, 0, sizeof memory->new);
    const int64_t *ids = given->ids + item * given->candidates * given->steps;
    const int64_t *their_ids = given->their_ids + item * theirs;
    for (int64_t r = 0; r < given->references; r++) {
        const int64_t start = r * given->their_steps;
        read_sequence(given, memory, their_ids + start, given->their_steps, memory->found + start * order);
        memory->lengths[r] = length_of(their_ids + start, given->their_steps);
    }
    int32_t *ours = memory->found + theirs * order;
    for (int64_t l = 0; l < given->candidates; l++)
        read_sequence(given, memory, ids + l * given->steps, given->steps, ours + l * given->steps * order);
    if (given->documents) weigh(given, memory);
    count_references(given, memory);
    for (int64_t l = 0; l < given->candidates; l++) {
        const int32_t *found = ours + l * given->steps * order;
        const int64_t row = item * given->candidates + l;
        if (given->documents)
            score_candidate(given, memory, length_of(ids + l * given->steps, given->steps), found, given->scores + row);
        else match_candidate(given, memory, found, given->matches + row * order);
        forget(memory, found, given->steps * order);
    }
    memory->first += (int32_t)memory->used;
}

static void run_items(void *data) {
    Team *team = data;
    const Ngrams *given = team->given;
    const size_t most = (size_t)(positions(given) * given->order), references = (size_t)given->references;
    uint64_t size = 64;
    while (size < 2 * most) size *= 2;
    Memory memory = {
        .mask = size - 1,
        .first = 1,
        .places = calloc(size, sizeof(Place)),
        .nodes = malloc((most + 1) * sizeof(Node)),
        .counts = malloc((given->documents ? most * references : 0) * sizeof(int32_t) + 1),
        .found = malloc((most + 1) * sizeof(int32_t)),
        .orders = malloc((most * (size_t)given->order + 1) * sizeof(int32_t)),
        .norms = malloc((references * MOST_ORDER + 1) * sizeof(double)),
        .products = malloc((references * MOST_ORDER + 1) * sizeof(double)),
        .lengths = malloc((references + 1) * sizeof(int64_t)),
    };
    void *all[] = {memory.places, memory.nodes,    memory.counts,  memory.found,
                   memory.orders, memory.norms, memory.products, memory.lengths};
    int whole = 1;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) whole &= all[k] != NULL;
    if (!whole) atomic_store(&team->out_of_memory, 1);
    while (whole) {
        const int64_t item = atomic_fetch_add(&team->next, 1);
        if (item >= given->items) break;
        run_item(given, &memory, item);
    }
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
}

/* CIDEr-D where there are documents, or else matches; 0, or 1 if there is too little memory. */
EXPORT int seqsmooth_ngrams(const Ngrams *given) {
    const int64_t work = given->items * positions(given) * given->order;
    Team team = {.given = given};
    atomic_init(&team.next, 0);
    atomic_init(&team.out_of_memory, 0);
    run_team(given->parallel, team_size(work, LEAST_WORK, given->items, given->threads), run_items, &team);
    return atomic_load(&team.out_of_memory);
}
