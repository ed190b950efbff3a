/* A client process, as the lab sees it: commands go to it one at a time, and it tells what happens. All calls
 * but client_of_owner() come from the main thread; none blocks but those that say so. */
#ifndef LOADTEST_LAB_STAGE_CLIENT_H
#define LOADTEST_LAB_STAGE_CLIENT_H

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
    bool fencing;               /* it sends the fence with each write */
};

/* Starts one, and waits until it is ready. Before or after stage_begin(). Never NULL: a client of a stage
 * that has failed does nothing. */
struct client *client_start(struct clients *clients, const struct client_options *options);
/* `count` of them, named NAME-1 and so on; they are started at the same time. */
void client_start_many(struct clients *clients, const struct client_options *options, int count,
                       struct client *out[]);

struct stage *client_stage(const struct client *client);

/* ---- commands: the client must have done the one before; each blocks until it is done ---- */

void client_acquire(struct client *client, const char *key, int64_t timeout_ms); /* 0: one try */
void client_release(struct client *client);
void client_read_stock(struct client *client, const char *item);
/* Sells one of `item`. `once`: its idempotency key, or NULL. */
void client_sell(struct client *client, const char *item, enum stock_way way, const char *once);
/* A write that changes nothing: its quantity is 0. */
void client_refresh(struct client *client, const char *item);
/* It will wait when its lock next comes to this point (see lock_config.at_point). */
void client_set_gate(struct client *client, const char *point);
/* The clock of its lock shows this time, and stands still until it has been acquired once. */
void client_set_clock(struct client *client, int64_t shown_ms);

/* ---- commands that do not block ---- */

void client_begin_acquire(struct client *client, const char *key, int64_t timeout_ms);
/* Acquires, reads, works for about `work_ms`, sells one, releases, until all is sold, or `count` times. With
 * the URL "none:" it neither acquires nor releases. */
void client_begin_shop(struct client *client, const char *item, enum stock_way way, int64_t count,
                       int64_t work_ms);
/* On from the gate, if it is there. */
void client_open_gate(struct client *client);

/* ---- waiting ---- */

/* Blocks until it has done its command. */
void client_wait(struct client *client);
/* Blocks until it is at its gate (true), or has done its command without coming there. */
bool client_wait_for_gate(struct client *client);
/* Blocks until it has done its command (true), but for so long at most. */
bool client_done_within(struct client *client, int64_t ms);
/* As it believes. */
bool client_holds(const struct client *client);

/* ---- faults ---- */

void client_pause(struct client *client, const char *why); /* SIGSTOP */
void client_resume(struct client *client);
void client_kill(struct client *client); /* SIGKILL */
/* It works, and its worker hangs: told as a pause, and nothing is done to the process. */
void client_hang(struct client *client, const char *why);

/* The name of the client whose owner id this is; NULL: nobody's. From any thread. */
const char *client_of_owner(struct clients *clients, const char *owner);

#endif
