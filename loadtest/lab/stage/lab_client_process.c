/* A client of the lab, in a process of its own: it uses a lock through liblock, sells from a stock, does one
 * command after the other, and tells the lab each thing that happens. */
#include "loadtest/lab/stage/lab_client_wire.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "loadtest/lab/stage/shop_stock.h"
#include "lock/lock.h"

enum { EXIT_WRONG = 2, WATCH_PARTS = 16 };

/* The main thread does the commands. liblock's thread calls client_on_lost(), and a thread of its own watches
 * renewals: both read what is held, under the mutex. */
struct client {
    const char *name;
    struct lock *lock;
    struct stock *stock;
    struct wire_shared *shared;
    bool fencing;
    bool unlocked; /* it shops without a lock */
    uint64_t session, random;
    char gate[WIRE_TEXT_SIZE]; /* the point to wait at; "": none */
    bool at_gate;
    /* The lock's clock: the machine's and so much; or it stands still. */
    _Atomic int64_t clock_ahead_ns, clock_stands_ns;
    pthread_mutex_t mutex;
    struct lock_grant grant;
    uint64_t grant_op; /* 0: nothing is held. The grant's name is that of the request that got it */
    int64_t until_ns;
    int64_t read_left; /* what the stock had left when it was read */
};

/* ---- telling ---- */

static void client_tell(const struct wire_message *message) {
    if (write(WIRE_MESSAGES_FD, message, sizeof *message) != sizeof *message)
        _exit(EXIT_WRONG); /* the lab has gone */
}

static uint64_t client_new_op(const struct client *c) {
    return atomic_fetch_add(&c->shared->next_op, 1);
}

static void client_tell_event(const struct event *event, const char *name, const char *text) {
    struct wire_message message = {.type = WIRE_EVENT, .event = *event};
    message.event.t_ns = clock_now_ns();
    snprintf(message.name, sizeof message.name, "%s", name);
    snprintf(message.text, sizeof message.text, "%s", text);
    client_tell(&message);
}

static void client_tell_of_grant(const struct client *c, enum event_kind kind, uint64_t op, uint64_t grant) {
    client_tell_event(&(struct event){.kind = kind, .op = op, .grant = grant, .until_ns = c->until_ns},
                      c->grant.key, "");
}

/* ---- hooks of the lock ---- */

static int64_t client_now_ns(void *ctx) {
    struct client *c = ctx;
    int64_t stands_ns = atomic_load(&c->clock_stands_ns);
    return stands_ns != 0 ? stands_ns : clock_now_ns() + atomic_load(&c->clock_ahead_ns);
}

/* The first number becomes the session, the half of every owner id by which the lab knows this client. */
static uint64_t client_next_random(void *ctx) {
    struct client *c = ctx;
    uint64_t session = c->session;
    c->session = 0;
    return session != 0 ? session : random_next(&c->random);
}

static bool client_next_command(struct wire_command *command) {
    return read(WIRE_COMMANDS_FD, command, sizeof *command) == sizeof *command;
}

/* Only the main thread's calls come to a point at which a gate is set. */
static void client_at_point(void *ctx, const char *point, const char *key) {
    struct client *c = ctx;
    struct wire_command command = {.verb = WIRE_GATE};
    if (strcmp(point, "acquired") == 0 && atomic_load(&c->clock_stands_ns) != 0) {
        atomic_store(&c->clock_ahead_ns, atomic_load(&c->clock_stands_ns) - clock_now_ns());
        atomic_store(&c->clock_stands_ns, 0);
    }
    if (strcmp(point, c->gate) != 0)
        return;
    struct wire_message message = {.type = WIRE_AT_GATE};
    snprintf(message.name, sizeof message.name, "%s", key);
    snprintf(message.text, sizeof message.text, "%s", point);
    c->gate[0] = '\0';
    client_tell(&message);
    while (command.verb != WIRE_GO) {
        if (!client_next_command(&command))
            _exit(0);
    }
}

static void client_on_lost(void *ctx, const struct lock_grant *grant) {
    struct client *c = ctx;
    pthread_mutex_lock(&c->mutex);
    if (c->grant_op != 0 && strcmp(c->grant.owner, grant->owner) == 0)
        client_tell_of_grant(c, EVENT_RENEW_LOST, client_new_op(c), c->grant_op);
    pthread_mutex_unlock(&c->mutex);
}

/* A lock that renews tells nobody: its deadline moves. */
static void *client_watch_renewals(void *arg) {
    struct client *c = arg;
    int64_t pause_ns = lock_ttl_ns(c->lock) / WATCH_PARTS;
    const struct timespec pause = {.tv_sec = pause_ns / 1000000000, .tv_nsec = pause_ns % 1000000000};
    for (;;) {
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&c->mutex);
        int64_t left_ns = c->grant_op != 0 ? lock_remaining_ns(c->lock, &c->grant) : 0;
        int64_t until_ns = clock_now_ns() + left_ns;
        if (left_ns > 0 && until_ns > c->until_ns + pause_ns) {
            c->until_ns = until_ns;
            client_tell_of_grant(c, EVENT_RENEW_OK, client_new_op(c), c->grant_op);
        }
        pthread_mutex_unlock(&c->mutex);
    }
    return NULL;
}

/* ---- commands of the lock ---- */

static uint64_t client_requests(const struct client *c) {
    struct lock_metrics metrics;
    lock_read_metrics(c->lock, &metrics);
    return metrics.requests;
}

/* Converts a deadline of the lock's clock to the machine's. */
static int64_t client_machine_ns(struct client *c, int64_t deadline_ns) {
    return deadline_ns == INT64_MAX ? clock_now_ns() + 3600 * INT64_C(1000000000)
                                    : deadline_ns - client_now_ns(c) + clock_now_ns();
}

static bool client_do_acquire(struct client *c, const struct wire_command *command) {
    /* Every other status is recorded as a time-out: nothing of the request is left in the store. */
    static const enum event_kind answers[LOCK_STATUSES] = {[LOCK_OK] = EVENT_ACQUIRE_OK,
                                                           [LOCK_BUSY] = EVENT_ACQUIRE_BUSY,
                                                           [LOCK_UNKNOWN] = EVENT_ACQUIRE_UNKNOWN};
    struct lock_grant grant;
    uint64_t op = client_new_op(c), before = client_requests(c);
    client_tell_event(&(struct event){.kind = EVENT_ACQUIRE_SENT, .op = op}, command->name, "");
    enum lock_status status =
        command->timeout_ms > 0 ? lock_acquire(c->lock, command->name,
                                               client_now_ns(c) + command->timeout_ms * 1000000, NULL, &grant)
                                : lock_try(c->lock, command->name, &grant);
    struct event answer = {.kind = answers[status] != 0 ? answers[status] : EVENT_ACQUIRE_TIMEOUT,
                           .op = op,
                           .requests = (int64_t)(client_requests(c) - before)};
    pthread_mutex_lock(&c->mutex);
    if (status == LOCK_OK) {
        c->grant = grant;
        c->grant_op = answer.grant = op;
        answer.fence = grant.fence;
        answer.until_ns = c->until_ns = client_machine_ns(c, grant.deadline_ns);
    }
    client_tell_event(&answer, command->name, status == LOCK_OK ? grant.owner : "");
    pthread_mutex_unlock(&c->mutex);
    return status == LOCK_OK;
}

static void client_do_release(struct client *c) {
    static const enum event_kind answers[LOCK_STATUSES] = {
        [LOCK_OK] = EVENT_RELEASE_OK, [LOCK_NOT_OWNER] = EVENT_RELEASE_NOT_OWNER};
    uint64_t op = client_new_op(c), grant = c->grant_op;
    client_tell_of_grant(c, EVENT_RELEASE_SENT, op, grant);
    pthread_mutex_lock(&c->mutex);
    c->grant_op = 0;
    pthread_mutex_unlock(&c->mutex);
    enum lock_status status = lock_release(c->lock, &c->grant);
    client_tell_of_grant(c, answers[status] != 0 ? answers[status] : EVENT_RELEASE_UNKNOWN, op, grant);
}

/* ---- commands of the stock ---- */

/* 0: none is sent. */
static uint64_t client_fence(const struct client *c) {
    return c->fencing && c->grant_op != 0 ? c->grant.fence : 0;
}

static bool client_do_read(struct client *c, const struct wire_command *command) {
    struct stock_state state;
    char text[WIRE_TEXT_SIZE] = "cannot read the stock";
    bool good = stock_read(c->stock, command->name, client_fence(c), &state);
    c->read_left = good ? state.available : 0;
    if (good)
        snprintf(text, sizeof text, "reads %lld left", (long long)c->read_left);
    client_tell_event(&(struct event){.kind = EVENT_NOTE}, command->name, text);
    return good && c->read_left > 0;
}

static void client_do_write(struct client *c, const struct wire_command *command) {
    struct event event = {.kind = EVENT_WRITE_SENT,
                          .op = client_new_op(c),
                          .quantity = command->quantity,
                          .grant = c->grant_op};
    struct stock_sale sale = {.item = command->name,
                              .way = command->way,
                              .quantity = command->quantity,
                              .left = c->read_left - command->quantity,
                              .fence = client_fence(c),
                              .once = command->text};
    struct stock_state state;
    char reason[32] = "";
    if (command->way == STOCK_COMPUTED && sale.left < 0) {
        client_tell_event(&(struct event){.kind = EVENT_NOTE}, command->name,
                          "sells nothing: nothing was left");
        return;
    }
    client_tell_event(&event, command->name, "");
    enum stock_answer answer = stock_sell(c->stock, &sale, &state, reason);
    event.kind = answer == STOCK_SOLD      ? EVENT_WRITE_ACCEPTED
                 : answer == STOCK_REFUSED ? EVENT_WRITE_REFUSED
                                           : EVENT_WRITE_UNKNOWN;
    client_tell_event(&event, command->name, reason);
    if (answer == STOCK_SOLD)
        client_tell_event(&(struct event){.kind = EVENT_SALE_STOCK,
                                          .initial = state.initial,
                                          .available = state.available,
                                          .sold = state.sold},
                          command->name, "");
}

static void client_work(struct client *c, int64_t work_ms) {
    int64_t us = work_ms * 500 + (int64_t)(random_next(&c->random) % (uint64_t)(work_ms * 1000 + 1));
    usleep((useconds_t)us);
}

static void client_do_shop(struct client *c, const struct wire_command *command) {
    struct wire_command sale = *command;
    sale.quantity = 1;
    sale.text[0] = '\0';
    for (int64_t i = 0; i < command->count; i++) {
        if (!c->unlocked && !client_do_acquire(c, command))
            continue;
        bool left = client_do_read(c, command);
        if (left) {
            client_work(c, command->work_ms);
            client_do_write(c, &sale);
        }
        if (!c->unlocked)
            client_do_release(c);
        if (!left)
            return;
    }
}

/* ---- the process ---- */

static void client_do(struct client *c, const struct wire_command *command) {
    switch (command->verb) {
    case WIRE_ACQUIRE: client_do_acquire(c, command); break;
    case WIRE_RELEASE: client_do_release(c); break;
    case WIRE_READ: client_do_read(c, command); break;
    case WIRE_WRITE: client_do_write(c, command); break;
    case WIRE_SHOP: client_do_shop(c, command); break;
    case WIRE_GATE: memcpy(c->gate, command->text, sizeof c->gate); break;
    case WIRE_CLOCK: atomic_store(&c->clock_stands_ns, command->timeout_ms * 1000000); break;
    case WIRE_GO: break;
    }
}

struct wire_shared *wire_map_shared(const char *file) {
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *memory = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof(struct wire_shared)) == 0)
        memory = mmap(NULL, sizeof(struct wire_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return memory != MAP_FAILED ? memory : NULL;
}

static bool client_open(struct client *c, char *const *argv) {
    char error[LOCK_ERROR_SIZE] = "";
    pthread_t watcher;
    const struct lock_config config = {.on_lost = client_on_lost,
                                       .now_ns = client_now_ns,
                                       .random = client_next_random,
                                       .at_point = client_at_point,
                                       .ctx = c,
                                       .teaching = true};
    c->name = argv[1];
    c->fencing = strcmp(argv[4], "fence") == 0;
    c->unlocked = strcmp(argv[2], "none:") == 0;
    c->session = strtoull(argv[5], NULL, 16);
    c->random = c->session;
    pthread_mutex_init(&c->mutex, NULL);
    c->shared = wire_map_shared(argv[6]);
    c->stock = stock_open((int)strtol(argv[3], NULL, 10));
    if (!c->shared || !c->stock)
        return fprintf(stderr, "%s: no shared memory, or no stock\n", c->name), false;
    if (lock_open(argv[2], &config, &c->lock, error, sizeof error) != LOCK_OK)
        return fprintf(stderr, "%s: %s\n", c->name, error), false;
    return !(lock_caps(c->lock) & LOCK_RENEWS) ||
           pthread_create(&watcher, NULL, client_watch_renewals, c) == 0;
}

int client_process_main(char *const *argv) {
    static struct client client;
    struct wire_command command;
    const struct wire_message done = {.type = WIRE_DONE};
    int count = 0;
    while (argv[count])
        count++;
    if (count != 7 || !client_open(&client, argv))
        return EXIT_WRONG;
    client_tell(&done); /* ready */
    while (client_next_command(&command)) {
        client_do(&client, &command);
        client_tell(&done);
    }
    return 0; /* without lock_close(): a client whose lab has gone waits for nothing */
}
