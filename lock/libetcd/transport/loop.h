/* The loop: the one thread of a client. It takes gRPC's completions and runs timed work. Not for users.
 *
 * gRPC core needs a thread inside its completion queue at all times: that thread also reads the sockets. */
#ifndef LOCK_LIBETCD_TRANSPORT_LOOP_H
#define LOCK_LIBETCD_TRANSPORT_LOOP_H

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Names a batch of operations to gRPC. The loop calls `done` once for each batch that began with the tag;
 * `ok`: gRPC reports success. */
struct etcd_tag {
    void (*done)(struct etcd_tag *tag, bool ok);
};

/* Begins a batch of operations; `tag` is done when all of them are. */
void etcd_loop_begin(grpc_call *call, const grpc_op *ops, size_t count, struct etcd_tag *tag);

/* Timed work. */
struct etcd_ticker {
    /* From the loop. Returns when to call it next; INT64_MAX: when it is woken. */
    int64_t (*tick)(struct etcd_ticker *ticker, int64_t now_ns);
    int64_t next_ns;
    struct etcd_ticker *next;
};

/* Private to loop.c. */
struct etcd_loop {
    grpc_completion_queue *queue;
    pthread_t thread;
    bool started;
    struct etcd_ticker *tickers;
    struct etcd_tag wake;
    _Atomic bool waking; /* the tag is in flight */
};

int64_t etcd_loop_now_ns(void);

void etcd_loop_open(struct etcd_loop *loop);
/* A call without operations yet. */
grpc_call *etcd_loop_call(struct etcd_loop *loop, grpc_channel *channel, const char *path,
                          int64_t deadline_ns);
/* Before it is started. */
void etcd_loop_add(struct etcd_loop *loop, struct etcd_ticker *ticker);
/* False: no thread could be started. */
bool etcd_loop_start(struct etcd_loop *loop);
/* Waits until all operations are done. No operation may begin any more: gRPC would abort the process. Not
 * from the loop. */
void etcd_loop_stop(struct etcd_loop *loop);
/* After it has been stopped. */
void etcd_loop_close(struct etcd_loop *loop);

/* All tickers run soon. `channel`: any that lives as long as the loop. From any thread. */
void etcd_loop_wake(struct etcd_loop *loop, grpc_channel *channel);
/* The calling thread is the loop. */
bool etcd_loop_is_current(const struct etcd_loop *loop);

#endif
