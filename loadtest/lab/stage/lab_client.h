/* A client process, as the lab sees it (lab_client_process.c is the process): it takes one command at a time,
 * and reports what happens. All calls but client_of_owner() come from the main thread. A call that blocks
 * says so. */
#ifndef LOADTEST_LAB_STAGE_LAB_CLIENT_H
#define LOADTEST_LAB_STAGE_LAB_CLIENT_H

#include "loadtest/lab/stage/lab_client_wire.h"
#include "loadtest/lab/stage/stage_servers.h"

struct client;
struct clients;

/* The clients of a play. */
struct clients *clients_open(struct stage *stage);

struct client_options {
    const char *name;
    const char *url;            /* of its lock */
    const struct server *stock; /* the Redis that keeps the stock */
    bool fencing;               /* it sends its fencing token with each write */
};

/* Starts one and blocks until it is ready, before or after stage_begin(). Never NULL: a client of a stage
 * that has failed does nothing. */
struct client *client_start(struct clients *clients, const struct client_options *options);
/* `count` of them, named NAME-1 and so on; they are started at the same time. */
void client_start_many(struct clients *clients, const struct client_options *options, int count,
                       struct client *out[]);

struct stage *client_stage(const struct client *client);

/* ---- commands: each blocks until the client has done it; the one before must be done ---- */

void client_acquire(struct client *client, const char *key, int64_t timeout_ms); /* 0: one try */
void client_release(struct client *client);
void client_read_stock(struct client *client, const char *item);
/* Sells one of `item`. `once`: its idempotency key, or NULL. */
void client_sell(struct client *client, const char *item, enum stock_way way, const char *once);
/* A write that changes nothing: its quantity is 0. */
void client_refresh(struct client *client, const char *item);
/* Sets a gate: the client stops when its lock next comes to this point (see lock_config.at_point). */
void client_set_gate(struct client *client, const char *point);
/* Sets the clock of its lock, which then stands still until the lock has been acquired once. */
void client_set_clock(struct client *client, int64_t shown_ms);

/* ---- commands that do not block ---- */

void client_begin_acquire(struct client *client, const char *key, int64_t timeout_ms);
/* Acquires, reads, works for about `work_ms`, sells one, releases, until all is sold, or `count` times. With
 * the URL "none:" it neither acquires nor releases. */
void client_begin_shop(struct client *client, const char *item, enum stock_way way, int64_t count,
                       int64_t work_ms);
/* Lets it go on from its gate, if it has come there. */
void client_open_gate(struct client *client);

/* ---- waiting ---- */

/* Blocks until it has done its command. */
void client_wait(struct client *client);
/* Blocks until it is at its gate (true), or has done its command without a stop there (false). */
bool client_wait_for_gate(struct client *client);
/* Blocks until it has done its command (true), for `ms` at most (false). */
bool client_done_within(struct client *client, int64_t ms);
/* Whether it believes that it holds the lock. */
bool client_holds(const struct client *client);

/* ---- faults ---- */

void client_pause(struct client *client, const char *why); /* SIGSTOP */
void client_resume(struct client *client);
void client_kill(struct client *client); /* SIGKILL */
/* Records a pause, and does nothing to the process: it works, but its worker hangs. */
void client_hang(struct client *client, const char *why);

/* The name of the client that has this owner id; NULL: none has. From any thread. */
const char *client_of_owner(struct clients *clients, const char *owner);

#endif
