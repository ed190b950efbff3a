/* Locked jobs: what is done under the locks of items, without a loop waiting for a lock. */
#include "base/container.h"
#include "inventory/transactions.h"
#include "service/service.h"

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
    struct service *service = job->worker->thread.service;
    char names[INVENTORY_LINES_MAX][LOCK_NAME_KEY_SIZE];
    const char *keys[INVENTORY_LINES_MAX];
    struct lock_grant grants[INVENTORY_LINES_MAX];
    int64_t deadline_ns = pool_job->since_ns + (int64_t)service->config.lock_ttl_ms * 1000000;
    for (size_t i = 0; i < job->count; i++) {
        lock_name_print_key(names[i], job->item(job, i));
        keys[i] = names[i];
    }
    locked_job_at_failpoint("before locks");
    job->locked = lock_switch_acquire(service->lock_switch, keys, job->count, deadline_ns, &job->use, grants);
    if (job->locked == LOCK_OK) {
        locked_job_at_failpoint("after locks");
        job->grants = grants;
        job->post.run = locked_job_on_work;
        loop_thread_post(job->at, &job->post);
        while (sem_wait(&job->done) != 0)
            continue;
        locked_job_at_failpoint("before unlock");
        lock_switch_release(service->lock_switch, &job->use, grants, job->count);
        locked_job_at_failpoint("after unlock");
    }
    job->post.run = locked_job_on_end;
    loop_thread_post(&job->worker->thread, &job->post);
}

bool locked_job_submit(struct locked_job *job) {
    job->pool_job.run = locked_job_run;
    sem_init(&job->done, 0, 0);
    bool taken = pool_submit(job->worker->thread.service->pool, &job->pool_job);
    if (!taken)
        sem_destroy(&job->done);
    return taken;
}

void locked_job_done(struct locked_job *job) {
    sem_post(&job->done);
}
