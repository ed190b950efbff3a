/* What the store can promise, for all who ask: the background thread asks for it, by one call at a time, and
 * no more than once a second, however many want to know. It also says in the log where that is bad. */
#ifndef SERVICE_BACKGROUND_STORE_HEALTH_H
#define SERVICE_BACKGROUND_STORE_HEALTH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "inventory/inventory.h"
#include "service/background/mailbox.h"

struct service;
struct worker;

/* Lives in the request of whoever asks. */
struct store_health_read {
    struct worker *worker;
    /* Called on the worker's thread, perhaps from within the call. */
    void (*done)(struct store_health_read *read, const struct inventory_health *health);
    struct mailbox_post post;
    struct store_health_read *next;
};

struct store_health_seen {
    struct inventory_health told;
    int64_t asked_ns; /* when it was asked for; 0: never */
};

enum { HEALTH_CONCERNS = 2 };

struct health {
    pthread_mutex_t mutex;         /* of all before `post` */
    struct store_health_seen last; /* each worker has its own copy of it */
    bool asking;
    struct store_health_read *waiting;
    struct mailbox_post post; /* to the background thread */
    /* The background thread's own: */
    int64_t asking_since_ns;
    bool was_up;
    char logged[HEALTH_CONCERNS][sizeof(((struct inventory_health *)0)->reason)];
};

void store_health_open(struct health *health);
void store_health_close(struct health *health);

/* Tells what was asked of the store less than a second ago, or is asked now. */
void store_health_read(struct worker *worker, struct store_health_read *read);

/* The background thread calls it some times a second: asks when the store is there (again), and now and then,
 * for the log. */
void store_health_tick(struct service *service);

#endif
