/* The loop: the one thread of a client, and the unary calls that are in flight. gRPC core needs a thread
 * inside its completion queue at all times, since that thread also reads the sockets. Not for users. */
#ifndef LOCK_LIBETCD_GRPC_LOOP_H
#define LOCK_LIBETCD_GRPC_LOOP_H

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* CLOCK_MONOTONIC. */
int64_t etcd_now_ns(void);

/* The tag of a batch of gRPC operations. The loop calls `done` once for each batch that was started with the
 * tag; `ok`: gRPC reports success. */
struct etcd_tag {
    void (*done)(struct etcd_tag *tag, bool ok);
};

/* What a thread wrote before it started a batch, the loop sees when the batch is done. gRPC guarantees that.
 * gRPC is not built with ThreadSanitizer, so __tsan_release(tag) before grpc_call_start_batch() tells it. */
#ifdef __SANITIZE_THREAD__
void __tsan_release(void *tag);
#else
#define __tsan_release(tag) ((void)(tag))
#endif

/* Timed work. */
struct etcd_ticker {
    /* The loop calls it. Returns when to call it next; INT64_MAX: when the loop is woken. */
    int64_t (*tick)(struct etcd_ticker *ticker, int64_t now_ns);
    int64_t next_ns;
    struct etcd_ticker *next;
};

struct etcd_loop {
    grpc_completion_queue *queue;
    pthread_t thread;
    bool started;
    struct etcd_ticker *tickers;
    grpc_channel *wake_channel; /* any channel; the owner sets it before the first wake */
    struct etcd_tag wake;
    _Atomic bool waking; /* the wake tag is in flight */

    _Atomic bool closing;
    pthread_mutex_t mutex;      /* protects the next three members, and is held to set `closing` */
    pthread_cond_t idle;        /* no unary call is in flight, and no thread is blocked */
    struct etcd_unary *unaries; /* in flight */
    size_t blocked;             /* threads inside a blocking call; rpc.c counts them */
};

void etcd_loop_open(struct etcd_loop *loop);
/* Adds a ticker, before the loop is started. */
void etcd_loop_add(struct etcd_loop *loop, struct etcd_ticker *ticker);
/* False: the thread could not be started. */
bool etcd_loop_start(struct etcd_loop *loop);
/* Cancels all unary calls, and also those that start later. Blocks until none is in flight and no thread is
 * blocked. */
void etcd_loop_cancel_calls(struct etcd_loop *loop);
/* Blocks until all batches are done. No batch may be started any more: gRPC would abort the process. Not from
 * the loop. */
void etcd_loop_stop(struct etcd_loop *loop);
/* After the loop has been stopped. */
void etcd_loop_close(struct etcd_loop *loop);

/* Makes all tickers run soon. Any thread may call it. */
void etcd_loop_wake(struct etcd_loop *loop);
/* Is the calling thread the loop? */
bool etcd_loop_is_current(const struct etcd_loop *loop);

/* A call without operations yet. */
grpc_call *etcd_loop_new_call(struct etcd_loop *loop, grpc_channel *channel, const char *path,
                              int64_t deadline_ns);

/* A unary call: one request to one member, and one answer. */
enum { ETCD_UNARY_OPS = 6, ETCD_METADATA_MAX = 2 };

struct etcd_unary {
    /* The loop calls it when the call has ended. It can read the next three members. It calls
     * etcd_unary_free(), or leaves that to another thread. */
    void (*on_done)(struct etcd_unary *unary);
    grpc_status_code code;
    char *text;               /* the server's description of the status */
    grpc_byte_buffer *answer; /* NULL: none */

    grpc_metadata metadata[ETCD_METADATA_MAX]; /* sent with the request */
    size_t metadata_count;

    /* What starts the call: grpc_call_start_batch(call, ops, ETCD_UNARY_OPS, &tag, NULL). */
    grpc_call *call;
    grpc_op ops[ETCD_UNARY_OPS];
    struct etcd_tag tag;

    /* Private to grpc_loop.c. */
    struct etcd_loop *loop;
    struct etcd_unary *next;
    grpc_byte_buffer *request;
    grpc_metadata_array initial, trailing;
    grpc_slice details;
};

/* Prepares a call to a connected member; the caller must start it then. The caller has set `on_done` and the
 * metadata, and zeroed the rest; it keeps its reference to `request`. If the client is closing, the call ends
 * as soon as it is started. */
void etcd_unary_prepare(struct etcd_unary *unary, struct etcd_loop *loop, grpc_channel *channel,
                        const char *path, grpc_slice request, int64_t deadline_ns);
/* Frees what the call holds, and its metadata. After the call has ended. */
void etcd_unary_free(struct etcd_unary *unary);

#endif
