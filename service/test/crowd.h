/* A crowd: threads that buy over connections they keep, and a receipt for each purchase. */
#ifndef SERVICE_TEST_CROWD_H
#define SERVICE_TEST_CROWD_H

#include "test/harness.h"

struct crowd_plan {
    int ports[2]; /* buyers are spread over them; the second may be 0 */
    const char *item;
    const char *prefix; /* purchase i has the key PREFIX-i and the user ui */
    int threads;
    int purchases; /* at most */
    int quantity;  /* 0: 1 */
    int pause_ms;  /* of each buyer, after each purchase */
    /* Instead of a purchase: sends to `path` what this writes. Called by many threads. */
    const char *path;
    void (*write_body)(void *ctx, int i, char *body, size_t size);
    void *ctx;
    bool retries; /* what has no answer, or a 503, is tried again with its key at the other port */
};

struct receipt {
    int status; /* of the last try; 0: it had no answer */
    int tries;  /* 0: it was never sent */
    bool replayed;
    char type[24];  /* of a problem */
    char order[96]; /* of a 201, the first; the transfer of a 200 */
};

struct crowd;

/* Starts buying; it ends with the test. */
struct crowd *crowd_start(const struct crowd_plan *plan);
/* How many have their final answer so far. */
int crowd_answered(const struct crowd *crowd);
/* Waits until so many have it. */
void crowd_wait(struct crowd *crowd, int answered);
/* Begins no further purchases. */
void crowd_stop(struct crowd *crowd);
/* Waits until all that was begun has ended. */
void crowd_join(struct crowd *crowd);
struct crowd *crowd_run(const struct crowd_plan *plan);

/* After crowd_join(): */
const struct receipt *crowd_receipt(const struct crowd *crowd, int i);
int crowd_count(const struct crowd *crowd, int status);
/* Every 201 is an order that can be read, and is this buyer's. */
void crowd_check_orders(const struct crowd *crowd, int port);
/* Every purchase was answered with 201 or a problem of this type (NULL: none). */
void crowd_check_answers(const struct crowd *crowd, const char *type);

/* ---- baskets and transfers, drawn at random ---- */

enum { GOODS_MAX = 10, GOODS_LINES_MAX = 6 };

/* Request i of a seed asks for the same each time, so that a retry does, too. */
struct goods {
    uint64_t seed;
    int items; /* i0, i1, … */
    int lines_least, lines_most, quantity_most;
    int stock;                                                    /* of each */
    int64_t sold[GOODS_MAX], orders[GOODS_MAX], moved[GOODS_MAX]; /* as it was acknowledged */
};

/* Puts the items on sale. */
void goods_put(const struct goods *goods, int port);
/* For a plan, whose `ctx` is the goods. */
void goods_write_basket(void *ctx, int i, char *body, size_t size);
void goods_write_transfer(void *ctx, int i, char *body, size_t size);
/* After crowd_join(): adds what was acknowledged. */
void goods_note_baskets(struct goods *goods, const struct crowd *crowd);
void goods_note_transfers(struct goods *goods, const struct crowd *crowd);
/* That is what is in the books, item by item: no basket or transfer is there in parts. */
void goods_check_books(const struct goods *goods, int port);

#endif
