#include "service/locker.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Keys share locks: two that fall on one wait for each other, which costs time and does no harm. */
enum { STRIPES = 256 };

struct stripe {
    pthread_mutex_t mutex;
    pthread_cond_t freed;
    bool held;
};

struct locker {
    bool local; /* else none: */
    struct stripe stripes[STRIPES];
};

struct locker *locker_open(const char *url, char *error, size_t error_size) {
    bool local = strcmp(url, "local:") == 0;
    if (!local && strcmp(url, "none:") != 0) {
        snprintf(error, error_size, "no such lock; there are local: and none:");
        return NULL;
    }
    struct locker *locker = calloc(1, sizeof *locker);
    if (!locker) {
        snprintf(error, error_size, "out of memory");
        return NULL;
    }
    locker->local = local;
    for (int i = 0; i < STRIPES; i++) {
        pthread_mutex_init(&locker->stripes[i].mutex, NULL);
        pthread_cond_init(&locker->stripes[i].freed, NULL);
    }
    return locker;
}

void locker_close(struct locker *locker) {
    if (!locker)
        return;
    for (int i = 0; i < STRIPES; i++) {
        pthread_cond_destroy(&locker->stripes[i].freed);
        pthread_mutex_destroy(&locker->stripes[i].mutex);
    }
    free(locker);
}

static struct stripe *stripe_of(struct locker *locker, const char *key) {
    uint32_t hash = 2166136261U; /* FNV-1a */
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 16777619U;
    return &locker->stripes[hash % STRIPES];
}

bool locker_acquire(struct locker *locker, const char *key, int64_t deadline_ns) {
    if (!locker->local)
        return true;
    struct stripe *stripe = stripe_of(locker, key);
    struct timespec deadline = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};
    pthread_mutex_lock(&stripe->mutex);
    int error = 0;
    while (stripe->held && error == 0)
        error = pthread_cond_clockwait(&stripe->freed, &stripe->mutex, CLOCK_MONOTONIC, &deadline);
    bool had = !stripe->held;
    stripe->held = true;
    pthread_mutex_unlock(&stripe->mutex);
    return had;
}

void locker_release(struct locker *locker, const char *key) {
    if (!locker->local)
        return;
    struct stripe *stripe = stripe_of(locker, key);
    pthread_mutex_lock(&stripe->mutex);
    stripe->held = false;
    pthread_cond_signal(&stripe->freed);
    pthread_mutex_unlock(&stripe->mutex);
}
