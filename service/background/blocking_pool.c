/* The pool of threads for jobs that block, and locked jobs: what is done under the locks of items, without a
 * loop waiting for a lock. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/container.h"
#include "base/waiter.h"
#include "inventory/transactions.h"
#include "service/service.h"

enum { REST_TIMES = 7, REST_MOST_NS = 100000000, ASK_AGAIN_NS = 100000000 };

/* ---- the pool ---- */

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    STAILQ_HEAD(pool_jobs, pool_job) jobs;
    struct pool_metrics metrics;
    int queue_max, threads, running;
    int (*limit)(void *ctx);
    void *ctx;
    bool closing;
    pthread_t ids[];
};

/* With the mutex held: waits until a job may run, and takes it. Polls the limit, since nobody reports when it
 * changes. NULL: the pool is closed. */
static struct pool_job *pool_next_job(struct pool *pool) {
    struct pool_job *job;
    while ((job = STAILQ_FIRST(&pool->jobs)) ? pool->running > 0 && pool->running >= pool->limit(pool->ctx)
                                             : !pool->closing) {
        if (job)
            cond_wait_until(&pool->work, &pool->mutex, clock_now_ns() + ASK_AGAIN_NS);
        else
            pthread_cond_wait(&pool->work, &pool->mutex);
    }
    if (!job)
        return NULL;
    STAILQ_REMOVE_HEAD(&pool->jobs, next);
    pool->metrics.waiting--;
    pool->metrics.begun++;
    pool->metrics.wait_ns += clock_now_ns() - job->since_ns;
    return job;
}

static void *pool_serve(void *arg) {
    struct pool *pool = arg;
    pthread_mutex_lock(&pool->mutex);
    for (struct pool_job *job; (job = pool_next_job(pool));) {
        pool->running++;
        pthread_mutex_unlock(&pool->mutex);
        int64_t since_ns = clock_now_ns();
        job->run(job);
        int64_t rest_ns = (clock_now_ns() - since_ns) * REST_TIMES;
        if (pool->limit(pool->ctx) < pool->threads)
            nanosleep(&(struct timespec){.tv_nsec = rest_ns < REST_MOST_NS ? rest_ns : REST_MOST_NS}, NULL);
        pthread_mutex_lock(&pool->mutex);
        pool->running--;
        /* The limit may have risen: more than one thread may go on. */
        if (!STAILQ_EMPTY(&pool->jobs))
            pthread_cond_broadcast(&pool->work);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

struct pool *pool_open(int threads, int queue_max, int (*limit)(void *ctx), void *ctx) {
    struct pool *pool = calloc(1, sizeof *pool + (size_t)threads * sizeof *pool->ids);
    if (!pool)
        return NULL;
    pool->queue_max = queue_max;
    pool->limit = limit;
    pool->ctx = ctx;
    STAILQ_INIT(&pool->jobs);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    for (; pool->threads < threads; pool->threads++) {
        if (pthread_create(&pool->ids[pool->threads], NULL, pool_serve, pool) != 0) {
            pool_close(pool);
            return NULL;
        }
    }
    return pool;
}

bool pool_submit(struct pool *pool, struct pool_job *job) {
    pthread_mutex_lock(&pool->mutex);
    bool room = pool->metrics.waiting < pool->queue_max && !pool->closing;
    if (room) {
        job->since_ns = clock_now_ns();
        STAILQ_INSERT_TAIL(&pool->jobs, job, next);
        pool->metrics.waiting++;
        pthread_cond_signal(&pool->work);
    } else {
        pool->metrics.refused++;
    }
    pthread_mutex_unlock(&pool->mutex);
    return room;
}

void pool_read_metrics(struct pool *pool, struct pool_metrics *metrics) {
    pthread_mutex_lock(&pool->mutex);
    *metrics = pool->metrics;
    pthread_mutex_unlock(&pool->mutex);
}

void pool_close(struct pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->closing = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->threads; i++)
        pthread_join(pool->ids[i], NULL);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

/* ---- locked jobs ---- */

static void locked_job_at_failpoint(const char *step) {
    if (service_at_failpoint)
        service_at_failpoint(NULL, step);
}

static void locked_job_on_work(struct loop_post *post) {
    struct locked_job *job = CONTAINER_OF(post, struct locked_job, post);
    job->work(job);
}

static void locked_job_on_end(struct loop_post *post) {
    struct locked_job *job = CONTAINER_OF(post, struct locked_job, post);
    sem_destroy(&job->done);
    job->end(job);
}

/* On a thread of the pool. */
static void locked_job_run(struct pool_job *pool_job) {
    struct locked_job *job = CONTAINER_OF(pool_job, struct locked_job, pool_job);
    struct service *service = job->worker->service;
    char names[INVENTORY_LINES_MAX][INVENTORY_NAME_MAX + 16];
    const char *keys[INVENTORY_LINES_MAX];
    struct lock_grant grants[INVENTORY_LINES_MAX];
    int64_t deadline_ns = pool_job->since_ns + (int64_t)service->config.lock_ttl_ms * 1000000;
    for (size_t i = 0; i < job->count; i++) {
        snprintf(names[i], sizeof names[i], "seckill:%s", job->item(job, i));
        keys[i] = names[i];
    }
    locked_job_at_failpoint("before locks");
    job->locked = lock_switch_acquire(service->lock_switch, keys, job->count, deadline_ns, &job->use, grants);
    if (job->locked == LOCK_OK) {
        locked_job_at_failpoint("after locks");
        job->grants = grants;
        loop_thread_post(job->at, &job->post, locked_job_on_work);
        while (sem_wait(&job->done) != 0)
            continue;
        locked_job_at_failpoint("before unlock");
        lock_switch_release(service->lock_switch, &job->use, grants, job->count);
        locked_job_at_failpoint("after unlock");
    }
    loop_thread_post(job->worker, &job->post, locked_job_on_end);
}

bool locked_job_submit(struct locked_job *job) {
    job->pool_job.run = locked_job_run;
    sem_init(&job->done, 0, 0);
    bool taken = pool_submit(job->worker->service->pool, &job->pool_job);
    if (!taken)
        sem_destroy(&job->done);
    return taken;
}

void locked_job_done(struct locked_job *job) {
    sem_post(&job->done);
}
