#include "loadtest/lab/stage/lab_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/waiter.h"

enum { CLIENTS_MAX = 72, SESSION_DIGITS = 16 };

struct client {
    struct clients *all;
    char name[SERVER_NAME_SIZE], session[SESSION_DIGITS + 1];
    struct proc proc;
    int commands, messages; /* pipes */
    /* Under the mutex of `all`: */
    int asked, done; /* commands; the first is the start */
    bool at_gate, holds, ended;
    char owner[WIRE_TEXT_SIZE]; /* of the lock that it holds, or held last */
    const char *hangs;          /* the reason of its pause, as recorded */
};

/* One thread reads the messages of all clients. */
struct clients {
    struct stage *stage;
    char shared_file[SERVER_PATH_SIZE];
    struct wire_shared *shared;
    pthread_t reader;
    bool reads;
    int wake; /* eventfd: there is a new client, or an end */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool ending;
    struct client clients[CLIENTS_MAX];
    int count;
    struct client nobody; /* of a stage that has failed */
};

/* ---- messages ---- */

static void client_note_holding(struct client *c, const struct wire_message *message) {
    enum event_kind kind = message->event.kind;
    if (kind == EVENT_ACQUIRE_OK)
        memcpy(c->owner, message->text, sizeof c->owner);
    c->holds =
        kind == EVENT_ACQUIRE_OK || (c->holds && kind != EVENT_RENEW_LOST && kind != EVENT_RELEASE_SENT);
}

static void client_record(const struct client *c, const struct wire_message *message) {
    struct event event = message->event;
    event.key = event.item = message->name;
    event.text = event.reason = message->text;
    event.who = event.kind == EVENT_SALE_STOCK ? "stock" : c->name;
    stage_record(c->all->stage, &event);
}

/* A message is shorter than PIPE_BUF, so it is whole. */
static void client_read_message(struct client *c) {
    struct wire_message message;
    bool ended = read(c->messages, &message, sizeof message) != sizeof message;
    if (!ended && message.type == WIRE_EVENT)
        client_record(c, &message);
    pthread_mutex_lock(&c->all->mutex);
    if (ended)
        c->ended = true;
    else if (message.type == WIRE_EVENT)
        client_note_holding(c, &message);
    else if (message.type == WIRE_AT_GATE)
        c->at_gate = true;
    else
        c->done++;
    pthread_cond_broadcast(&c->all->changed);
    pthread_mutex_unlock(&c->all->mutex);
}

static void *clients_read_messages(void *arg) {
    struct clients *all = arg;
    struct pollfd polled[CLIENTS_MAX + 1];
    for (;;) {
        pthread_mutex_lock(&all->mutex);
        int count = all->count;
        bool ending = all->ending;
        for (int i = 0; i < count; i++)
            polled[i] = (struct pollfd){.fd = all->clients[i].ended ? -1 : all->clients[i].messages,
                                        .events = POLLIN};
        pthread_mutex_unlock(&all->mutex);
        if (ending)
            return NULL;
        polled[count] = (struct pollfd){.fd = all->wake, .events = POLLIN};
        if (poll(polled, (nfds_t)count + 1, -1) < 0)
            continue;
        uint64_t wakes;
        if (polled[count].revents != 0 && read(all->wake, &wakes, sizeof wakes) < 0)
            continue;
        for (int i = 0; i < count; i++) {
            if (polled[i].revents != 0)
                client_read_message(&all->clients[i]);
        }
    }
}

static void wake_reader(struct clients *all) {
    const uint64_t one = 1;
    if (write(all->wake, &one, sizeof one) < 0)
        abort(); /* impossible: the number in it is small */
}

/* ---- the clients of a play ---- */

static void clients_end(void *part) {
    struct clients *all = part;
    for (int i = 0; i < all->count; i++)
        proc_free(all->clients[i].proc.record);
    pthread_mutex_lock(&all->mutex);
    all->ending = true;
    pthread_mutex_unlock(&all->mutex);
    wake_reader(all);
    if (all->reads)
        pthread_join(all->reader, NULL);
    for (int i = 0; i < all->count; i++) {
        close(all->clients[i].commands);
        close(all->clients[i].messages);
    }
    if (all->shared)
        munmap(all->shared, sizeof *all->shared);
    close(all->wake);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->mutex);
    free(all);
}

struct clients *clients_open(struct stage *stage) {
    struct clients *all = calloc(1, sizeof *all);
    if (!all)
        abort(); /* a scenario counts on it, and has no use for less */
    all->stage = stage;
    all->wake = eventfd(0, EFD_CLOEXEC);
    all->nobody.all = all;
    pthread_mutex_init(&all->mutex, NULL);
    pthread_cond_init(&all->changed, NULL);
    snprintf(all->shared_file, sizeof all->shared_file, "%s/shared", stage_options(stage)->directory);
    all->shared = wire_map_shared(all->shared_file);
    if (all->shared)
        atomic_init(&all->shared->next_op, 1);
    all->reads = all->shared && pthread_create(&all->reader, NULL, clients_read_messages, all) == 0;
    if (!all->reads)
        stage_fail(stage, "clients cannot be started: %s", strerror(errno));
    stage_add(stage, clients_end, all);
    return all;
}

/* ---- starting one ---- */

/* The client's ends are not kept. Returns NULL, or why it cannot be started. */
static const char *client_spawn(struct client *c, const struct client_options *o) {
    char program[SERVER_PATH_SIZE], port[16], log[SERVER_PATH_SIZE];
    int to[2] = {-1, -1}, from[2] = {-1, -1};
    struct stage *stage = c->all->stage;
    snprintf(program, sizeof program, "%s/seckill-lab", stage_options(stage)->programs);
    snprintf(port, sizeof port, "%d", o->stock->port);
    snprintf(log, sizeof log, "%s/%s.log", stage_options(stage)->directory, o->name);
    const char *argv[] = {
        program, "client", o->name, o->url, port, o->fencing ? "fence" : "-", c->session, c->all->shared_file,
        NULL};
    const char *error = pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0
                            ? proc_start_piped(&c->proc, argv, NULL, log, to[0], from[1])
                            : strerror(errno);
    close(to[0]);
    close(from[1]);
    c->commands = to[1];
    c->messages = from[0];
    return error;
}

static struct client *client_launch(struct clients *all, const struct client_options *o) {
    struct client *c = &all->clients[all->count];
    if (stage_failed(all->stage))
        return &all->nobody;
    if (all->count == CLIENTS_MAX) {
        stage_fail(all->stage, "a play has more than %d clients", CLIENTS_MAX);
        return &all->nobody;
    }
    *c = (struct client){.all = all, .asked = 1};
    snprintf(c->name, sizeof c->name, "%s", o->name);
    snprintf(c->session, sizeof c->session, "%08x%08x", 0x1ab00000U + (unsigned)all->count,
             (unsigned)stage_random(all->stage, 0, INT32_MAX));
    const char *error = client_spawn(c, o);
    if (error)
        stage_fail(all->stage, "%s: %s", o->name, error);
    pthread_mutex_lock(&all->mutex);
    all->count++;
    pthread_mutex_unlock(&all->mutex);
    wake_reader(all);
    return c;
}

struct client *client_start(struct clients *clients, const struct client_options *options) {
    struct client *c = client_launch(clients, options);
    client_wait(c);
    return c;
}

void client_start_many(struct clients *clients, const struct client_options *options, int count,
                       struct client *out[]) {
    for (int i = 0; i < count; i++) {
        struct client_options one = *options;
        char name[SERVER_NAME_SIZE];
        snprintf(name, sizeof name, "%.20s-%d", options->name, i + 1);
        one.name = name;
        out[i] = client_launch(clients, &one);
    }
    for (int i = 0; i < count; i++)
        client_wait(out[i]);
}

struct stage *client_stage(const struct client *c) {
    return c->all->stage;
}

/* ---- waiting ---- */

/* Blocks until it has done its command, or, with `gate`, is at its gate. False: `ms` have passed, or the
 * client has ended. */
static bool client_await(struct client *c, bool gate, int64_t ms) {
    int64_t deadline_ns = stage_in_ms(ms);
    bool result = false, in_time = true;
    if (stage_failed(c->all->stage))
        return false;
    pthread_mutex_lock(&c->all->mutex);
    while (!(result = c->done == c->asked || (gate && c->at_gate)) && !c->ended && in_time)
        in_time = cond_wait_until(&c->all->changed, &c->all->mutex, deadline_ns);
    pthread_mutex_unlock(&c->all->mutex);
    return result;
}

static bool client_await_or_fail(struct client *c, bool gate) {
    bool result = client_await(c, gate, STAGE_PATIENCE_MS);
    if (!result)
        stage_fail(c->all->stage, "%s %s", c->name, c->ended ? "has ended: see its log" : "does not answer");
    return result;
}

void client_wait(struct client *c) {
    client_await_or_fail(c, false);
}

bool client_wait_for_gate(struct client *c) {
    return client_await_or_fail(c, true) && c->at_gate;
}

bool client_done_within(struct client *c, int64_t ms) {
    return client_await(c, false, ms);
}

bool client_holds(const struct client *c) {
    pthread_mutex_lock(&c->all->mutex);
    bool holds = c->holds;
    pthread_mutex_unlock(&c->all->mutex);
    return holds;
}

/* ---- commands ---- */

static void client_send(struct client *c, struct wire_command command, const char *name, const char *text) {
    if (stage_failed(c->all->stage))
        return;
    snprintf(command.name, sizeof command.name, "%s", name);
    snprintf(command.text, sizeof command.text, "%s", text);
    if (write(c->commands, &command, sizeof command) != sizeof command)
        stage_fail(c->all->stage, "%s has ended: see its log", c->name);
}

/* Sends a command that the client answers when it has done it. */
static void client_begin(struct client *c, struct wire_command command, const char *name, const char *text) {
    pthread_mutex_lock(&c->all->mutex);
    c->asked++;
    pthread_mutex_unlock(&c->all->mutex);
    client_send(c, command, name, text);
}

static void client_run(struct client *c, struct wire_command command, const char *name, const char *text) {
    client_begin(c, command, name, text);
    client_wait(c);
}

void client_acquire(struct client *c, const char *key, int64_t timeout_ms) {
    client_run(c, (struct wire_command){.verb = WIRE_ACQUIRE, .timeout_ms = timeout_ms}, key, "");
}

void client_release(struct client *c) {
    client_run(c, (struct wire_command){.verb = WIRE_RELEASE}, "", "");
}

void client_read_stock(struct client *c, const char *item) {
    client_run(c, (struct wire_command){.verb = WIRE_READ}, item, "");
}

void client_sell(struct client *c, const char *item, enum stock_way way, const char *once) {
    client_run(c, (struct wire_command){.verb = WIRE_WRITE, .way = way, .quantity = 1}, item,
               once ? once : "");
}

void client_refresh(struct client *c, const char *item) {
    client_run(c, (struct wire_command){.verb = WIRE_WRITE, .way = STOCK_DECIDED}, item, "");
}

void client_set_gate(struct client *c, const char *point) {
    client_run(c, (struct wire_command){.verb = WIRE_GATE}, "", point);
}

void client_set_clock(struct client *c, int64_t shown_ms) {
    client_run(c, (struct wire_command){.verb = WIRE_CLOCK, .timeout_ms = shown_ms}, "", "");
}

void client_begin_acquire(struct client *c, const char *key, int64_t timeout_ms) {
    client_begin(c, (struct wire_command){.verb = WIRE_ACQUIRE, .timeout_ms = timeout_ms}, key, "");
}

void client_begin_shop(struct client *c, const char *item, enum stock_way way, int64_t count,
                       int64_t work_ms) {
    client_begin(c,
                 (struct wire_command){.verb = WIRE_SHOP,
                                       .way = way,
                                       .timeout_ms = STAGE_PATIENCE_MS,
                                       .count = count,
                                       .work_ms = work_ms},
                 item, "");
}

void client_open_gate(struct client *c) {
    pthread_mutex_lock(&c->all->mutex);
    bool at_gate = c->at_gate;
    c->at_gate = false;
    pthread_mutex_unlock(&c->all->mutex);
    if (at_gate)
        client_send(c, (struct wire_command){.verb = WIRE_GO}, "", "");
}

/* ---- faults ---- */

void client_hang(struct client *c, const char *why) {
    c->hangs = why;
    stage_record_fault(c->all->stage, EVENT_HOLDER_PAUSED, c->name, why);
}

void client_pause(struct client *c, const char *why) {
    if (stage_failed(c->all->stage))
        return;
    if (proc_signal(&c->proc, SIGSTOP))
        stage_fail(c->all->stage, "%s could not be stopped", c->name);
    client_hang(c, why);
}

void client_resume(struct client *c) {
    if (stage_failed(c->all->stage))
        return;
    stage_record_fault(c->all->stage, EVENT_HOLDER_RESUMED, c->name, c->hangs);
    proc_signal(&c->proc, SIGCONT);
}

void client_kill(struct client *c) {
    if (stage_failed(c->all->stage))
        return;
    proc_end(&c->proc, SIGKILL, STAGE_PATIENCE_MS);
    stage_fault(c->all->stage, c->name, "killed");
}

/* ---- owners ---- */

/* The first half of an owner id is the session; a lesson's may be anything, so it is compared whole first. */
const char *client_of_owner(struct clients *clients, const char *owner) {
    const char *name = NULL;
    pthread_mutex_lock(&clients->mutex);
    for (int i = 0; i < clients->count && !name; i++) {
        const struct client *c = &clients->clients[i];
        if (strncmp(owner, c->session, SESSION_DIGITS) == 0 || strcmp(owner, c->owner) == 0)
            name = c->name;
    }
    pthread_mutex_unlock(&clients->mutex);
    return name;
}
