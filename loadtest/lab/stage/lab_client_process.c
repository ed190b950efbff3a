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

/* The main thread does the commands. liblock's thread calls on_lost(), and a thread of its own watches
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

static void tell(const struct wire_message *message) {
    if (write(WIRE_MESSAGES_FD, message, sizeof *message) != sizeof *message)
        _exit(EXIT_WRONG); /* the lab has gone */
}

static uint64_t new_op(const struct client *c) {
    return atomic_fetch_add(&c->shared->next_op, 1);
}

static void tell_event(const struct event *event, const char *name, const char *text) {
    struct wire_message message = {.type = WIRE_EVENT, .event = *event};
    message.event.t_ns = clock_now_ns();
    snprintf(message.name, sizeof message.name, "%s", name);
    snprintf(message.text, sizeof message.text, "%s", text);
    tell(&message);
}

static void tell_of_grant(const struct client *c, enum event_kind kind, uint64_t op, uint64_t grant) {
    tell_event(&(struct event){.kind = kind, .op = op, .grant = grant, .until_ns = c->until_ns}, c->grant.key,
               "");
}

/* ---- hooks of the lock ---- */

static int64_t now_ns(void *ctx) {
    struct client *c = ctx;
    int64_t stands_ns = atomic_load(&c->clock_stands_ns);
    return stands_ns != 0 ? stands_ns : clock_now_ns() + atomic_load(&c->clock_ahead_ns);
}

/* The first number becomes the session, the half of every owner id by which the lab knows this client. */
static uint64_t next_random(void *ctx) {
    struct client *c = ctx;
    uint64_t session = c->session;
    c->session = 0;
    return session != 0 ? session : random_next(&c->random);
}

static bool next_command(struct wire_command *command) {
    size_t got = 0;
    while (got < sizeof *command) {
        ssize_t length = read(WIRE_COMMANDS_FD, (char *)command + got, sizeof *command - got);
        if (length <= 0)
            return false;
        got += (size_t)length;
    }
    return true;
}

/* Only the main thread's calls come to a point at which a gate is set. */
static void at_point(void *ctx, const char *point, const char *key) {
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
    tell(&message);
    while (command.verb != WIRE_GO) {
        if (!next_command(&command))
            _exit(0);
    }
}

static void on_lost(void *ctx, const struct lock_grant *grant) {
    struct client *c = ctx;
    pthread_mutex_lock(&c->mutex);
    if (c->grant_op != 0 && strcmp(c->grant.owner, grant->owner) == 0)
        tell_of_grant(c, EVENT_RENEW_LOST, new_op(c), c->grant_op);
    pthread_mutex_unlock(&c->mutex);
}

/* A lock that renews tells nobody: its deadline moves. */
static void *watch_renewals(void *arg) {
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
            tell_of_grant(c, EVENT_RENEW_OK, new_op(c), c->grant_op);
        }
        pthread_mutex_unlock(&c->mutex);
    }
    return NULL;
}

/* ---- commands of the lock ---- */

static enum event_kind acquire_answer(enum lock_status status) {
    switch (status) {
    case LOCK_OK: return EVENT_ACQUIRE_OK;
    case LOCK_BUSY: return EVENT_ACQUIRE_BUSY;
    case LOCK_UNKNOWN: return EVENT_ACQUIRE_UNKNOWN;
    default: return EVENT_ACQUIRE_TIMEOUT; /* nothing of it is left in the store */
    }
}

static uint64_t requests_of(const struct client *c) {
    struct lock_metrics metrics;
    lock_read_metrics(c->lock, &metrics);
    return metrics.requests;
}

/* Converts a deadline of the lock's clock to the machine's. */
static int64_t machine_ns(struct client *c, int64_t deadline_ns) {
    return deadline_ns == INT64_MAX ? clock_now_ns() + 3600 * INT64_C(1000000000)
                                    : deadline_ns - now_ns(c) + clock_now_ns();
}

static bool acquire(struct client *c, const struct wire_command *command) {
    struct lock_grant grant;
    uint64_t op = new_op(c), before = requests_of(c);
    tell_event(&(struct event){.kind = EVENT_ACQUIRE_SENT, .op = op}, command->name, "");
    enum lock_status status =
        command->timeout_ms > 0
            ? lock_acquire(c->lock, command->name, now_ns(c) + command->timeout_ms * 1000000, NULL, &grant)
            : lock_try(c->lock, command->name, &grant);
    struct event answer = {
        .kind = acquire_answer(status), .op = op, .requests = (int64_t)(requests_of(c) - before)};
    pthread_mutex_lock(&c->mutex);
    if (status == LOCK_OK) {
        c->grant = grant;
        c->grant_op = answer.grant = op;
        answer.fence = grant.fence;
        answer.until_ns = c->until_ns = machine_ns(c, grant.deadline_ns);
    }
    tell_event(&answer, command->name, status == LOCK_OK ? grant.owner : "");
    pthread_mutex_unlock(&c->mutex);
    return status == LOCK_OK;
}

static void release(struct client *c) {
    static const enum event_kind answers[LOCK_STATUSES] = {
        [LOCK_OK] = EVENT_RELEASE_OK, [LOCK_NOT_OWNER] = EVENT_RELEASE_NOT_OWNER};
    uint64_t op = new_op(c), grant = c->grant_op;
    tell_of_grant(c, EVENT_RELEASE_SENT, op, grant);
    pthread_mutex_lock(&c->mutex);
    c->grant_op = 0;
    pthread_mutex_unlock(&c->mutex);
    enum lock_status status = lock_release(c->lock, &c->grant);
    tell_of_grant(c, answers[status] != 0 ? answers[status] : EVENT_RELEASE_UNKNOWN, op, grant);
}

/* ---- commands of the stock ---- */

/* 0: none is sent. */
static uint64_t fence_of(const struct client *c) {
    return c->fencing && c->grant_op != 0 ? c->grant.fence : 0;
}

static bool read_stock(struct client *c, const struct wire_command *command) {
    struct stock_state state;
    char text[WIRE_TEXT_SIZE] = "cannot read the stock";
    bool good = stock_read(c->stock, command->name, fence_of(c), &state);
    c->read_left = good ? state.available : 0;
    if (good)
        snprintf(text, sizeof text, "reads %lld left", (long long)c->read_left);
    tell_event(&(struct event){.kind = EVENT_NOTE}, command->name, text);
    return good && c->read_left > 0;
}

static void write_stock(struct client *c, const struct wire_command *command) {
    struct event event = {
        .kind = EVENT_WRITE_SENT, .op = new_op(c), .quantity = command->quantity, .grant = c->grant_op};
    struct stock_sale sale = {.item = command->name,
                              .way = command->way,
                              .quantity = command->quantity,
                              .left = c->read_left - command->quantity,
                              .fence = fence_of(c),
                              .once = command->text};
    struct stock_state state;
    char reason[32] = "";
    if (command->way == STOCK_COMPUTED && sale.left < 0) {
        tell_event(&(struct event){.kind = EVENT_NOTE}, command->name, "sells nothing: nothing was left");
        return;
    }
    tell_event(&event, command->name, "");
    enum stock_answer answer = stock_sell(c->stock, &sale, &state, reason);
    event.kind = answer == STOCK_SOLD      ? EVENT_WRITE_ACCEPTED
                 : answer == STOCK_REFUSED ? EVENT_WRITE_REFUSED
                                           : EVENT_WRITE_UNKNOWN;
    tell_event(&event, command->name, reason);
    if (answer == STOCK_SOLD)
        tell_event(&(struct event){.kind = EVENT_SALE_STOCK,
                                   .initial = state.initial,
                                   .available = state.available,
                                   .sold = state.sold},
                   command->name, "");
}

static void work(struct client *c, int64_t work_ms) {
    int64_t us = work_ms * 500 + (int64_t)(random_next(&c->random) % (uint64_t)(work_ms * 1000 + 1));
    usleep((useconds_t)us);
}

static void shop(struct client *c, const struct wire_command *command) {
    struct wire_command sale = *command;
    sale.quantity = 1;
    sale.text[0] = '\0';
    for (int64_t i = 0; i < command->count; i++) {
        if (!c->unlocked && !acquire(c, command))
            continue;
        bool left = read_stock(c, command);
        if (left) {
            work(c, command->work_ms);
            write_stock(c, &sale);
        }
        if (!c->unlocked)
            release(c);
        if (!left)
            return;
    }
}

/* ---- the process ---- */

static void do_command(struct client *c, const struct wire_command *command) {
    switch (command->verb) {
    case WIRE_ACQUIRE: acquire(c, command); break;
    case WIRE_RELEASE: release(c); break;
    case WIRE_READ: read_stock(c, command); break;
    case WIRE_WRITE: write_stock(c, command); break;
    case WIRE_SHOP: shop(c, command); break;
    case WIRE_GATE: memcpy(c->gate, command->text, sizeof c->gate); break;
    case WIRE_CLOCK: atomic_store(&c->clock_stands_ns, command->timeout_ms * 1000000); break;
    case WIRE_GO: break;
    }
}

static struct wire_shared *map_shared(const char *file) {
    int fd = open(file, O_RDWR | O_CLOEXEC);
    void *memory = fd < 0 ? MAP_FAILED
                          : mmap(NULL, sizeof(struct wire_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return memory != MAP_FAILED ? memory : NULL;
}

static bool open_all(struct client *c, char *const *argv) {
    char error[LOCK_ERROR_SIZE] = "";
    pthread_t watcher;
    const struct lock_config config = {.on_lost = on_lost,
                                       .now_ns = now_ns,
                                       .random = next_random,
                                       .at_point = at_point,
                                       .ctx = c,
                                       .teaching = true};
    c->name = argv[1];
    c->fencing = strcmp(argv[4], "fence") == 0;
    c->unlocked = strcmp(argv[2], "none:") == 0;
    c->session = strtoull(argv[5], NULL, 16);
    c->random = c->session;
    pthread_mutex_init(&c->mutex, NULL);
    c->shared = map_shared(argv[6]);
    c->stock = stock_open((int)strtol(argv[3], NULL, 10));
    if (!c->shared || !c->stock)
        return fprintf(stderr, "%s: no shared memory, or no stock\n", c->name), false;
    if (lock_open(argv[2], &config, &c->lock, error, sizeof error) != LOCK_OK)
        return fprintf(stderr, "%s: %s\n", c->name, error), false;
    return !(lock_caps(c->lock) & LOCK_RENEWS) || pthread_create(&watcher, NULL, watch_renewals, c) == 0;
}

int client_process_main(char *const *argv) {
    static struct client client;
    struct wire_command command;
    const struct wire_message done = {.type = WIRE_DONE};
    int count = 0;
    while (argv[count])
        count++;
    if (count != 7 || !open_all(&client, argv))
        return EXIT_WRONG;
    tell(&done); /* ready */
    while (next_command(&command)) {
        do_command(&client, &command);
        tell(&done);
    }
    return 0; /* without lock_close(): a client whose lab has gone waits for nothing */
}
