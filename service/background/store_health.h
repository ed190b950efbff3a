/* What the store can promise. The background thread asks for it, one call at a time and at most once a
 * second, however many requests want it. It also logs what is wrong. */
#ifndef SERVICE_BACKGROUND_STORE_HEALTH_H
#define SERVICE_BACKGROUND_STORE_HEALTH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "inventory/inventory.h"
#include "service/background/mailbox.h"

struct service;
struct worker;

/* Lives in the request. */
struct store_health_read {
    struct worker *worker;
    /* Called on the worker's thread, perhaps from within the call. */
    void (*done)(struct store_health_read *read, const struct inventory_health *health);
    struct mailbox_post post;
    struct store_health_read *next;
};

struct store_health_seen {
    struct inventory_health told;
    int64_t asked_ns; /* when it was asked; 0: never */
};

enum { HEALTH_CONCERNS = 2 };

struct health {
    pthread_mutex_t mutex; /* of everything before `post` */
    struct store_health_seen last;
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

/* Tells what the store said less than a second ago, or asks it now. */
void store_health_read(struct worker *worker, struct store_health_read *read);

/* To be called by the background thread some times a second: asks when the store has come (back), and now and
 * then. */
void store_health_tick(struct service *service);

#endif
