#include "lock/libetcd/transport/loop.h"

#include <grpc/support/time.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

int64_t etcd_loop_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* What a thread wrote before an operation began, the loop sees when the operation is done. gRPC guarantees
 * it, but is not built with ThreadSanitizer, which must be told. */
#ifdef __SANITIZE_THREAD__
void __tsan_release(void *address);
void __tsan_acquire(void *address);
#else
#define __tsan_release(address) ((void)(address))
#define __tsan_acquire(address) ((void)(address))
#endif

void etcd_loop_begin(grpc_call *call, const grpc_op *ops, size_t count, struct etcd_tag *tag) {
    __tsan_release(tag);
    grpc_call_start_batch(call, ops, count, tag, NULL);
}

static void woken(struct etcd_tag *tag, bool ok) {
    struct etcd_loop *loop = (struct etcd_loop *)((char *)tag - offsetof(struct etcd_loop, wake));
    (void)ok;
    atomic_store(&loop->waking, false); /* before the tickers run, so that later changes wake them again */
    for (struct etcd_ticker *ticker = loop->tickers; ticker; ticker = ticker->next)
        ticker->next_ns = 0;
}

/* Runs the tickers that are due. Returns when the next one is. */
static int64_t tick(struct etcd_loop *loop) {
    int64_t now_ns = etcd_loop_now_ns(), next_ns = INT64_MAX;
    for (struct etcd_ticker *ticker = loop->tickers; ticker; ticker = ticker->next) {
        if (ticker->next_ns <= now_ns)
            ticker->next_ns = ticker->tick(ticker, now_ns);
        if (ticker->next_ns < next_ns)
            next_ns = ticker->next_ns;
    }
    return next_ns;
}

static void *run(void *arg) {
    struct etcd_loop *loop = arg;
    for (;;) {
        int64_t next_ns = tick(loop);
        grpc_event event =
            grpc_completion_queue_next(loop->queue, gpr_time_from_nanos(next_ns, GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (event.type == GRPC_OP_COMPLETE) {
            struct etcd_tag *tag = event.tag;
            __tsan_acquire(tag);
            tag->done(tag, event.success != 0);
        }
    }
}

void etcd_loop_open(struct etcd_loop *loop) {
    *loop = (struct etcd_loop){.queue = grpc_completion_queue_create_for_next(NULL), .wake.done = woken};
}

grpc_call *etcd_loop_call(struct etcd_loop *loop, grpc_channel *channel, const char *path,
                          int64_t deadline_ns) {
    return grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, loop->queue,
                                    grpc_slice_from_static_string(path), NULL,
                                    gpr_time_from_nanos(deadline_ns, GPR_CLOCK_MONOTONIC), NULL);
}

void etcd_loop_add(struct etcd_loop *loop, struct etcd_ticker *ticker) {
    ticker->next = loop->tickers;
    loop->tickers = ticker;
}

bool etcd_loop_start(struct etcd_loop *loop) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    loop->started = pthread_create(&loop->thread, NULL, run, loop) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return loop->started;
}

void etcd_loop_stop(struct etcd_loop *loop) {
    grpc_completion_queue_shutdown(loop->queue);
    if (loop->started)
        pthread_join(loop->thread, NULL);
}

void etcd_loop_close(struct etcd_loop *loop) {
    grpc_completion_queue_destroy(loop->queue);
}

/* Only operations post to a completion queue. The wait for a channel's next state, with a deadline in the
 * past, is an operation that ends at once. */
void etcd_loop_wake(struct etcd_loop *loop, grpc_channel *channel) {
    if (atomic_exchange(&loop->waking, true))
        return;
    grpc_connectivity_state state = grpc_channel_check_connectivity_state(channel, 0);
    grpc_channel_watch_connectivity_state(channel, state, gpr_time_0(GPR_CLOCK_MONOTONIC), loop->queue,
                                          &loop->wake);
}

bool etcd_loop_is_current(const struct etcd_loop *loop) {
    return pthread_equal(loop->thread, pthread_self());
}
