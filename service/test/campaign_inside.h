/* What the two halves of a campaign share: the clients, what they asked for, and what they were told. */
#ifndef SERVICE_TEST_CAMPAIGN_INSIDE_H
#define SERVICE_TEST_CAMPAIGN_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "service/test/caller.h"
#include "service/test/campaign.h"

enum {
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
    atomic_int answers, attempts, running;
    bool joined, may_miss;
    struct client clients[CAMPAIGN_CLIENTS];
};

/* Asks again for what a client does not have the last answer to. */
void campaign_ask_again(struct client *client);

#endif
