/* The one thread of a client, in which gRPC's completions arrive, and time passes for what is kept alive. Not
 * for users.
 *
 * gRPC core wants a thread inside its completion queue at all times: that thread also reads the sockets. */
#ifndef LOCK_LIBETCD_LOOP_H
#define LOCK_LIBETCD_LOOP_H

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stdint.h>

struct etcd_loop;

/* What gRPC is told to come back with. `done` is called once for each operation that was begun with it, from
 * the loop; `ok` is gRPC's word for success. */
struct etcd_tag {
    void (*done)(struct etcd_tag *tag, bool ok);
};

/* Begins operations that come back with `tag`. */
void etcd_loop_begin(grpc_call *call, const grpc_op *ops, size_t count, struct etcd_tag *tag);

/* Something with work to do from time to time. */
struct etcd_ticker {
    /* From the loop. Returns when it wants to be called again; INT64_MAX: when it is woken. */
    int64_t (*tick)(struct etcd_ticker *ticker, int64_t now_ns);
    int64_t next_ns;
    struct etcd_ticker *next;
};

int64_t etcd_loop_now_ns(void);
gpr_timespec etcd_loop_deadline(int64_t deadline_ns);

/* NULL when out of memory. */
struct etcd_loop *etcd_loop_new(void);
grpc_completion_queue *etcd_loop_queue(struct etcd_loop *loop);
/* Before it is started. */
void etcd_loop_add(struct etcd_loop *loop, struct etcd_ticker *ticker);
/* False: no thread to be had. */
bool etcd_loop_start(struct etcd_loop *loop);
/* Waits until all that was begun is done. Nothing may be begun any more, but by a callback that is under way,
 * and none may come after it. Not from the loop. */
void etcd_loop_stop(struct etcd_loop *loop);
/* It was never started, or has been stopped. NULL is fine. */
void etcd_loop_free(struct etcd_loop *loop);

/* All tickers are called soon. `channel` is any that lives as long as the loop. From any thread. */
void etcd_loop_wake(struct etcd_loop *loop, grpc_channel *channel);

/* Around a callback to the user on behalf of `object`; from the loop, with no mutex held. */
void etcd_loop_enter(struct etcd_loop *loop, const void *object);
void etcd_loop_leave(struct etcd_loop *loop);
/* Waits until no callback of `object` is under way, but not from the loop itself. */
void etcd_loop_quiesce(struct etcd_loop *loop, const void *object);

#endif
