/* The recorder: brings the events of all threads into the order of their times. */
#include "loadtest/lab/events/event.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* Requests that may be without an answer at one time. */
enum { REQUESTS = 4096 };

/* An event that is held back; its texts lie behind it in memory. */
struct held {
    struct held *next;
    struct event event;
};

struct recorder {
    FILE *out;
    int64_t start_ns;
    pthread_mutex_t mutex; /* of all that follows */
    struct held *first;    /* by time */
    uint64_t next_n;
    struct {
        uint64_t op, n;
    } sent[REQUESTS]; /* the last requests */
    bool failed;
};

static struct held *event_copy(const struct event *event) {
    size_t size = sizeof(struct held);
    for (int i = 0; i < EVENT_TEXTS; i++)
        size += event->texts[i] ? strlen(event->texts[i]) + 1 : 0;
    struct held *copy = malloc(size);
    if (!copy)
        return NULL;
    char *at = (char *)(copy + 1);
    copy->event = *event;
    for (int i = 0; i < EVENT_TEXTS; i++) {
        if (!event->texts[i])
            continue;
        copy->event.texts[i] = at;
        at = stpcpy(at, event->texts[i]) + 1;
    }
    return copy;
}

/* ---- recording ---- */

struct recorder *recorder_new(FILE *out, const struct event_play *play, int64_t start_ns) {
    struct recorder *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->out = out;
    r->start_ns = start_ns;
    r->next_n = 1;
    r->failed = !event_play_write(out, play);
    pthread_mutex_init(&r->mutex, NULL);
    return r;
}

/* Inserts it by its time, behind those of the same time. */
static void recorder_insert(struct recorder *r, struct held *held) {
    struct held **at = &r->first;
    while (*at && (*at)->event.t_ns <= held->event.t_ns)
        at = &(*at)->next;
    held->next = *at;
    *at = held;
}

static int64_t since_start_ns(const struct recorder *r, int64_t t_ns) {
    return t_ns > r->start_ns ? t_ns - r->start_ns : 0;
}

void recorder_add(struct recorder *r, const struct event *event) {
    struct held *copy = event_copy(event);
    if (copy) {
        copy->event.t_ns = since_start_ns(r, event->t_ns != 0 ? event->t_ns : clock_now_ns());
        copy->event.until_ns = since_start_ns(r, event->until_ns);
    }
    pthread_mutex_lock(&r->mutex);
    if (copy)
        recorder_insert(r, copy);
    else
        r->failed = true;
    pthread_mutex_unlock(&r->mutex);
}

static bool is_request(enum event_kind kind) {
    return kind == EVENT_ACQUIRE_SENT || kind == EVENT_RENEW_SENT || kind == EVENT_RELEASE_SENT ||
           kind == EVENT_WRITE_SENT;
}

static void recorder_write(struct recorder *r, struct event *event) {
    event->n = r->next_n++;
    size_t slot = event->op % REQUESTS;
    if (is_request(event->kind)) {
        r->sent[slot].op = event->op;
        r->sent[slot].n = event->n;
    } else if (event->op != 0 && event->cause == 0 && r->sent[slot].op == event->op) {
        event->cause = r->sent[slot].n;
    }
    r->failed = !event_write(r->out, event) || r->failed;
}

void recorder_flush(struct recorder *r, bool all) {
    int64_t until_ns = all ? INT64_MAX : clock_now_ns() - r->start_ns - RECORDER_HOLD_MS * INT64_C(1000000);
    pthread_mutex_lock(&r->mutex);
    while (r->first && r->first->event.t_ns <= until_ns) {
        struct held *first = r->first;
        r->first = first->next;
        recorder_write(r, &first->event);
        free(first);
    }
    pthread_mutex_unlock(&r->mutex);
}

bool recorder_end(struct recorder *r, const struct event *verdict) {
    recorder_flush(r, true);
    recorder_add(r, verdict);
    recorder_flush(r, true);
    return !r->failed;
}

void recorder_free(struct recorder *r) {
    if (!r)
        return;
    while (r->first) {
        struct held *first = r->first;
        r->first = first->next;
        free(first);
    }
    pthread_mutex_destroy(&r->mutex);
    free(r);
}
