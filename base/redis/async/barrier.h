/* Hands out the replies of a connection (struct redis_config, `hold`) once enough replicas have all that
 * the server had written by then: "acknowledged" means "replicated".
 *
 * - WAIT blocks its own connection. So barriers take turns on two connections of their own: a reply that
 *   comes while one barrier is in flight need not wait for its end to get the next.
 * - A barrier reads the server's history and offset (INFO replication), waits (WAIT), and reads them
 *   again, with the offsets that the replicas have told. If the history is still that of the connection,
 *   all replies that came before the barrier are below the first offset. That holds for replies to reads,
 *   too: nobody is shown an order that is not safe.
 * - WAIT saves time and proves nothing: what it waits for differs between versions. It needs a write
 *   before it, to a key of this server. Where there is no such key, or the write is refused, the offsets
 *   are polled.
 * - If too few replicas answer in time, the connection breaks: its replies are lost, that is unknown. It
 *   is not up again before enough replicas have everything.
 *
 * WAIT is best effort: Redis may promote a replica that lacks a write in place of one that has it. With
 * one replica there is no such other. */
#ifndef BASE_REDIS_ASYNC_BARRIER_H
#define BASE_REDIS_ASYNC_BARRIER_H

#include "base/redis/async/connection.h"

struct barrier;

/* Whether the held connection's server has the key, as far as is known. */
typedef bool barrier_owns_fn(void *ctx, const char *key);

struct barrier_config {
    uv_loop_t *loop;
    const struct clock *clock;
    int timeout_ms, replicas;
    struct redis *held; /* must be closed before the barrier */
    /* A connection that lacks replicas when it is prepared is kept: the Sentinels' client breaks it when
     * another server is the master. Otherwise it breaks, and the server is looked up anew. */
    bool patient;
    const char *key_prefix; /* of keys that no call uses; must outlive the barrier */
    barrier_owns_fn *owns;
    void *ctx;
};

/* NULL when out of memory. */
struct barrier *barrier_open(const struct barrier_config *config);
/* The connection is prepared (connection.h): admits it once enough replicas have everything. May be called
 * again meanwhile. */
void barrier_admit(struct barrier *barrier);
/* The memory goes when the loop has run once more. NULL does nothing. */
void barrier_close(struct barrier *barrier);

#endif
