#include "lock/libetcd/transport/loop.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

struct etcd_loop {
    grpc_completion_queue *queue;
    pthread_t thread;
    bool started;
    struct etcd_ticker *tickers;
    struct etcd_tag wake;
    _Atomic bool waking; /* the tag is in flight */
    pthread_mutex_t mutex;
    pthread_cond_t idle;
    const void *object; /* its callback is running */
};

int64_t etcd_loop_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

gpr_timespec etcd_loop_deadline(int64_t deadline_ns) {
    if (deadline_ns == INT64_MAX)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return (gpr_timespec){.tv_sec = deadline_ns / 1000000000,
                          .tv_nsec = (int32_t)(deadline_ns % 1000000000),
                          .clock_type = GPR_CLOCK_MONOTONIC};
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
        grpc_event event = grpc_completion_queue_next(loop->queue, etcd_loop_deadline(next_ns), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (event.type == GRPC_OP_COMPLETE) {
            struct etcd_tag *tag = event.tag;
            __tsan_acquire(tag);
            tag->done(tag, event.success != 0);
        }
    }
}

struct etcd_loop *etcd_loop_new(void) {
    struct etcd_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return NULL;
    loop->wake.done = woken;
    loop->queue = grpc_completion_queue_create_for_next(NULL);
    pthread_mutex_init(&loop->mutex, NULL);
    pthread_cond_init(&loop->idle, NULL);
    return loop;
}

grpc_completion_queue *etcd_loop_queue(struct etcd_loop *loop) {
    return loop->queue;
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
    /* gRPC aborts the process if an operation begins after the queue is shut down. */
    pthread_mutex_lock(&loop->mutex);
    while (loop->object)
        pthread_cond_wait(&loop->idle, &loop->mutex);
    pthread_mutex_unlock(&loop->mutex);
    grpc_completion_queue_shutdown(loop->queue);
    if (loop->started)
        pthread_join(loop->thread, NULL);
    loop->started = false;
}

void etcd_loop_free(struct etcd_loop *loop) {
    if (!loop)
        return;
    grpc_completion_queue_destroy(loop->queue);
    pthread_cond_destroy(&loop->idle);
    pthread_mutex_destroy(&loop->mutex);
    free(loop);
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

/* ---- callbacks to the user ---- */

void etcd_loop_enter(struct etcd_loop *loop, const void *object) {
    pthread_mutex_lock(&loop->mutex);
    loop->object = object;
    pthread_mutex_unlock(&loop->mutex);
}

void etcd_loop_leave(struct etcd_loop *loop) {
    pthread_mutex_lock(&loop->mutex);
    loop->object = NULL;
    pthread_cond_broadcast(&loop->idle);
    pthread_mutex_unlock(&loop->mutex);
}

void etcd_loop_quiesce(struct etcd_loop *loop, const void *object) {
    if (pthread_equal(loop->thread, pthread_self()))
        return;
    pthread_mutex_lock(&loop->mutex);
    while (loop->object == object)
        pthread_cond_wait(&loop->idle, &loop->mutex);
    pthread_mutex_unlock(&loop->mutex);
}
