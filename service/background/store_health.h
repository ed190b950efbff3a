/* What the store can promise, as /readyz tells it. */
#ifndef SERVICE_BACKGROUND_STORE_HEALTH_H
#define SERVICE_BACKGROUND_STORE_HEALTH_H

#include "service/loop_thread.h"

struct worker;

/* The background thread asks the store, one call at a time and at most once a second, however many requests
 * want the answer. It also logs what is wrong. */
struct store_health {
    pthread_mutex_t mutex; /* of everything before `post` */
    struct inventory_health last;
    int64_t last_ns; /* when `last` was asked for; 0: never */
    bool asking;
    struct store_health_read *waiting;
    struct loop_post post; /* to the background thread */
    /* The background thread's own: */
    int64_t asking_since_ns;
    bool was_up;
    char logged[2][sizeof(((struct inventory_health *)0)->reason)];
};

/* Lives in the request. */
struct store_health_read {
    struct worker *worker;
    /* Called on the worker's thread, perhaps from within the call. */
    void (*done)(struct store_health_read *read, const struct inventory_health *health);
    struct loop_post post;
    struct store_health_read *next;
};

void store_health_init(struct store_health *health);
/* Reports what the store said less than a second ago, or asks it now. From the worker's thread. */
void store_health_read(struct worker *worker, struct store_health_read *read);
/* To be called by the background thread some times a second: asks when the store has come (back), and now and
 * then. */
void store_health_tick(struct service *service);

#endif
