#include "service/pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct pool_job *head, *tail;
    struct pool_figures figures;
    int queue_max, threads;
    bool closing;
    pthread_t ids[];
};

static void *serve(void *arg) {
    struct pool *pool = arg;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (!pool->head && !pool->closing)
            pthread_cond_wait(&pool->work, &pool->mutex);
        struct pool_job *job = pool->head;
        if (!job)
            break;
        pool->head = job->next;
        pool->figures.waiting--;
        pool->figures.begun++;
        pool->figures.wait_ns += clock_mono_ns(&clock_system) - job->since_ns;
        pthread_mutex_unlock(&pool->mutex);
        job->run(job);
        pthread_mutex_lock(&pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

struct pool *pool_open(int threads, int queue_max) {
    struct pool *pool = calloc(1, sizeof *pool + (size_t)threads * sizeof *pool->ids);
    if (!pool)
        return NULL;
    pool->queue_max = queue_max;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    for (; pool->threads < threads; pool->threads++) {
        if (pthread_create(&pool->ids[pool->threads], NULL, serve, pool) != 0) {
            pool_close(pool);
            return NULL;
        }
    }
    return pool;
}

bool pool_submit(struct pool *pool, struct pool_job *job) {
    pthread_mutex_lock(&pool->mutex);
    bool room = pool->figures.waiting < pool->queue_max && !pool->closing;
    if (room) {
        job->next = NULL;
        job->since_ns = clock_mono_ns(&clock_system);
        if (pool->head)
            pool->tail->next = job;
        else
            pool->head = job;
        pool->tail = job;
        pool->figures.waiting++;
        pthread_cond_signal(&pool->work);
    } else {
        pool->figures.refused++;
    }
    pthread_mutex_unlock(&pool->mutex);
    return room;
}

void pool_read_figures(struct pool *pool, struct pool_figures *figures) {
    pthread_mutex_lock(&pool->mutex);
    *figures = pool->figures;
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
