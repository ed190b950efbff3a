/* PUT and GET /v1/lock: the lock in force. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/container.h"
#include "inventory/transactions.h"
#include "service/api/http_api.h"

/* How long a call waits beyond the time that old grants can last: time to open and close locks, and for
 * heartbeats. */
static const int64_t patience_ns = 3000000000;

/* A lock switch in flight: this instance opens the lock and acquires it once to see whether it can; the store
 * raises the epoch; the call is answered when that epoch is in force here. */
struct change {
    struct http_request *request;
    struct loop_post post;
    struct lock_switch_check check;
    struct lock_switch_wait wait;
    int64_t since_ns;
    char url[CODEC_URL_SIZE];
};

#define CONTAINER(pointer, member) CONTAINER_OF(pointer, struct change, member)

/* `since_ns`: when the call began to wait; 0: it has not waited. */
static void lock_answer_state(struct http_request *request, const struct lock_switch_state *state,
                              int64_t since_ns) {
    static const char *const phases[] = {[LOCK_SWITCH_NONE] = "none",
                                         [LOCK_SWITCH_SWITCHING] = "switching",
                                         [LOCK_SWITCH_IN_FORCE] = "in-force"};
    static const char *const reaches[] = {[LOCK_SWITCH_UNTRIED] = "",
                                          [LOCK_SWITCH_REACHABLE] = ",\"reachable\":true",
                                          [LOCK_SWITCH_UNREACHABLE] = ",\"reachable\":false"};
    char body[1024], waited[48] = "", why[LOCK_SWITCH_WHY_SIZE + 16] = "";
    if (state->why[0])
        snprintf(why, sizeof why, ",\"problem\":\"%s\"", state->why);
    if (since_ns)
        snprintf(waited, sizeof waited, ",\"waited_ms\":%lld",
                 (long long)(clock_now_ns() - since_ns) / 1000000);
    int length =
        snprintf(body, sizeof body,
                 "{\"lock\":\"%s\",\"epoch\":%llu,\"state\":\"%s\",\"instances\":%d,\"behind\":%d%s%s%s}",
                 state->lock, (unsigned long long)state->epoch, phases[state->phase], state->instances,
                 state->behind, reaches[state->reach], why, waited);
    http_answer(request, 200, "application/json", body, (size_t)length, NULL);
}

void locks_get(struct http_request *request, const char *name, const struct caller *caller) {
    (void)caller;
    (void)name;
    struct lock_switch_state state;
    lock_switch_read_state(request_thread(request)->service->lock_switch, &state);
    lock_answer_state(request, &state, 0);
}

/* ---- the switch, from its last step to its first ---- */

static void lock_answer_late(struct http_request *request, const struct lock_switch_state *state) {
    char detail[300];
    if (state->behind > 0)
        snprintf(detail, sizeof detail,
                 "the switch goes on: %d of the other instances may have grants of the old lock, as %s; see "
                 "GET /v1/lock",
                 state->behind, state->behind_id);
    else
        snprintf(detail, sizeof detail,
                 "the switch goes on: this instance has not done with the old lock, or "
                 "has not reached the store; see GET /v1/lock");
    problem_answer(request, PROBLEM_OVERLOADED, detail);
}

static void change_answer(struct loop_post *post) {
    struct change *change = CONTAINER(post, post);
    struct lock_switch_state state;
    lock_switch_read_state(request_thread(change->request)->service->lock_switch, &state);
    switch (change->wait.outcome) {
    case LOCK_SWITCH_DONE: lock_answer_state(change->request, &state, change->since_ns); break;
    case LOCK_SWITCH_OVERTAKEN:
        problem_answer(change->request, PROBLEM_OVERLOADED,
                       "another switch came after this one; see GET /v1/lock");
        break;
    case LOCK_SWITCH_LATE: lock_answer_late(change->request, &state); break;
    case LOCK_SWITCH_ENDED:
        problem_answer(change->request, PROBLEM_OVERLOADED,
                       "the service is shutting down; the switch goes on without it");
    }
    free(change);
}

static void change_on_waited(struct lock_switch_wait *wait) {
    struct change *change = CONTAINER(wait, wait);
    loop_thread_post(request_thread(change->request), &change->post, change_answer);
}

static void change_on_switched(void *ctx, enum inventory_status status,
                               const struct inventory_lock_epoch *told) {
    struct change *change = ctx;
    if (status != INVENTORY_OK) {
        problem_answer(change->request, PROBLEM_STORE_UNAVAILABLE,
                       status == INVENTORY_UNKNOWN
                           ? "the store did not reply: it may have been done; see GET /v1/lock"
                           : "the store cannot be used now; nothing was done");
        free(change);
        return;
    }
    change->wait.epoch = told->epoch;
    change->wait.done = change_on_waited;
    lock_switch_wait(request_thread(change->request)->service->lock_switch, &change->wait);
}

/* Answers that the lock cannot be acquired. If the URL is bad, the client is at fault. */
static void lock_answer_check(struct http_request *request, const struct lock_switch_check *check) {
    char detail[300], error[200];
    log_print_plain(error, sizeof error, check->error);
    if (check->status == LOCK_CONFIG) {
        snprintf(detail, sizeof detail, "%s; docs/locks.md lists all%s", error,
                 request_thread(request)->service->config.teaching ? ""
                                                                   : "; those for lessons need --teaching");
        problem_answer_field(request, "lock", detail);
    } else if (check->status == LOCK_NOMEM) {
        problem_answer(request, PROBLEM_OVERLOADED, "out of memory; nothing was done");
    } else {
        snprintf(detail, sizeof detail,
                 "this lock cannot be reached (%s); nothing was done, the one in force stays", error);
        problem_answer(request, PROBLEM_LOCK_UNAVAILABLE, detail);
    }
}

static void change_switch(struct loop_post *post) {
    struct change *change = CONTAINER(post, post);
    struct loop_thread *thread = request_thread(change->request);
    struct lock_switch_state state;
    lock_switch_read_state(thread->service->lock_switch, &state);
    if (change->check.status != LOCK_OK) {
        lock_answer_check(change->request, &change->check);
    } else if (!thread->inventory) {
        problem_answer(change->request, PROBLEM_OVERLOADED, "the service is shutting down; nothing was done");
    } else if (state.epoch == 0) { /* the first heartbeat may choose another lock */
        problem_answer(change->request, PROBLEM_STORE_UNAVAILABLE,
                       "the store has not been reached yet; nothing was done");
    } else {
        change->wait.deadline_ns = clock_now_ns() + state.patience_ms * 1000000 + patience_ns;
        inventory_lock_epoch_switch(thread->inventory, change->url, change_on_switched, change);
        return;
    }
    free(change);
}

static void change_on_checked(struct lock_switch_check *check) {
    struct change *change = CONTAINER(check, check);
    loop_thread_post(request_thread(change->request), &change->post, change_switch);
}

void locks_put(struct http_request *request, const char *name, const struct caller *caller) {
    (void)caller;
    (void)name;
    struct change *change = calloc(1, sizeof *change);
    if (!change) {
        problem_answer(request, PROBLEM_OVERLOADED, "out of memory; nothing was done");
        return;
    }
    if (!codec_read_request(request, codec_read_lock, change->url)) {
        free(change);
        return;
    }
    change->request = request;
    change->since_ns = clock_now_ns();
    change->check.url = change->url;
    change->check.done = change_on_checked;
    lock_switch_check(request_thread(request)->service->lock_switch, &change->check);
}
