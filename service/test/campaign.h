/* Clients who do everything that the shop offers, at random, and keep what they were told: purchases, holds,
 * confirms, cancels, baskets, transfers, restocks, and retries with right and wrong bodies. At the end all of
 * it is compared with the books. */
#ifndef SERVICE_TEST_CAMPAIGN_H
#define SERVICE_TEST_CAMPAIGN_H

#include <pthread.h>
#include <stdatomic.h>

#include "service/test/caller.h"

enum {
    CAMPAIGN_SERVICES = 2,
    CAMPAIGN_ITEMS = 6,
    CAMPAIGN_CLIENTS = 12,
    CAMPAIGN_DEEDS_MAX = 4000, /* of a client */
    CAMPAIGN_USERS = 40,
    CAMPAIGN_LINES_MAX = 3,
    CAMPAIGN_LIMIT = 3,
    CAMPAIGN_PAUSE_MS = 20,
};

/* What is on sale. `limited` has a limit that a user meets; the holds of `brief` expire while it is sold;
 * `ends` ends within the sale. */
struct campaign_terms {
    const char *name, *terms;
    int stock;
    bool holds, brief, limited;
};
extern const struct campaign_terms campaign_items[CAMPAIGN_ITEMS];

enum deed_kind { PURCHASE, BASKET, TRANSFER, RESTOCK };

/* Something that was asked for, and the last that was said of it. */
struct deed {
    enum deed_kind kind;
    char state;  /* h c x e: as an order was acknowledged last; d: done; 0: it was refused */
    char wanted; /* c x: it was to become that; the answer is not final, or is that it is not known */
    bool unsure; /* an attempt was not answered before it was refused, which is not final then */
    char key[40], id[96];
    int lines, user;
    struct {
        int item, quantity;
    } line[CAMPAIGN_LINES_MAX]; /* of a transfer: from and to */
};

struct client {
    struct campaign *campaign;
    pthread_t thread;
    uint64_t random;
    struct caller caller;
    int number, count;
    bool unsure; /* an attempt of the last request was not answered */
    /* An answer that must never be given, unless it is told that what it is about was lost. */
    char fault[512];
    struct deed faulted; /* what it is about */
    struct deed deeds[CAMPAIGN_DEEDS_MAX];
};

struct campaign {
    const struct seckilld *services;
    atomic_bool stopped;
    atomic_int answers;  /* so far, other than 503 */
    atomic_int attempts; /* with and without an answer */
    atomic_int running;  /* clients; none any more: each was told something that must not be */
    bool joined, may_miss;
    struct client clients[CAMPAIGN_CLIENTS];
};

/* Asks again for what a client does not have the last answer to. */
void campaign_ask_again(struct client *client);

struct campaign_result {
    int asked, acknowledged; /* what was asked for, and what of it was done */
    int lost, told; /* of that, what is not in the books as it was acknowledged; and of that, by name */
    char last_told[512];
    char first[512]; /* the first that is lost and was not told, or other books that are wrong */
};

/* Puts the items on sale, and begins. The services must be ready. `may_miss`: what was acknowledged by an
 * instance that stands still may be missing until that goes on; at the end it must be there. */
struct campaign *campaign_start(const struct seckilld services[CAMPAIGN_SERVICES], uint64_t seed,
                                bool may_miss);
/* Ends it: each client has the last answer to what it asked for. The services must be ready again. */
void campaign_stop(struct campaign *campaign);
/* The server that has the key now. */
typedef const struct redis_server *campaign_find_fn(void *ctx, const char *key);
void campaign_judge(struct campaign *campaign, campaign_find_fn *find, void *ctx,
                    struct campaign_result *result);

#endif
