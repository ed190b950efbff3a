/* The child processes of lock-bench: one that tries whether a lock works, and those of a case, whose threads,
 * the contenders, acquire and release it. */
#include "lock/bench/bench.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { GATHER_POLL_US = 5000, PHASE_POLL_US = 1000, PAUSE_AFTER_ERROR_US = 10000, PROBE_MS = 5000 };

static const int64_t acquire_limit_ns = INT64_C(3600) * 1000000000;

/* Call it in every child process: it ends with its parent, and leaves Ctrl-C to it. */
static void follow_parent(pid_t parent) {
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* the parent ended before the call above */
        _exit(1);
    prctl(PR_SET_TIMERSLACK, 1UL); /* --hold without the usual 50 us more */
}

/* ---- the probe ---- */

struct probe {
    enum lock_status status;
    unsigned caps;
    char error[LOCK_ERROR_SIZE];
};

static enum lock_status acquire_once(struct lock *lock, char *error, size_t size) {
    struct lock_grant grant;
    enum lock_status status =
        lock_acquire(lock, "lock-bench:probe", lock_now_ns(lock) + (int64_t)PROBE_MS * 1000000, NULL, &grant);
    if (status == LOCK_OK)
        status = lock_release(lock, &grant);
    if (status == LOCK_UNAVAILABLE || status == LOCK_UNKNOWN) {
        int length = snprintf(error, size, "the store cannot be used; does it run at this URL? ");
        lock_last_error(lock, error + length, size - (size_t)length);
    } else {
        snprintf(error, size, "the lock cannot be acquired: %s", lock_status_text(status));
    }
    return status;
}

static _Noreturn void probe_in_child(struct probe *found, const char *url, bool teaching, pid_t parent) {
    struct lock_config config = {.teaching = teaching};
    struct lock *lock = NULL;
    follow_parent(parent);
    enum lock_status status = lock_open(url, &config, &lock, found->error, sizeof found->error);
    if (status == LOCK_OK) {
        found->caps = lock_caps(lock);
        status = acquire_once(lock, found->error, sizeof found->error);
        lock_close(lock);
    }
    found->status = status;
    _exit(0);
}

enum lock_status bench_probe(const char *url, bool teaching, unsigned *caps, char *error, size_t error_size) {
    struct probe *found =
        mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) {
        snprintf(error, error_size, "shared memory: %s", strerror(errno));
        return LOCK_NOMEM;
    }
    found->status = LOCK_UNKNOWN;
    snprintf(found->error, sizeof found->error, "the process that tried the lock crashed");
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        probe_in_child(found, url, teaching, parent);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    enum lock_status status = found->status;
    *caps = found->caps;
    snprintf(error, error_size, "%s", status == LOCK_OK ? "" : found->error);
    munmap(found, sizeof *found);
    return status;
}

/* ---- contenders ---- */

/* What the threads of a process share. */
struct process {
    struct bench_shared_memory *memory;
    const struct bench_case *what;
    struct lock *lock;
    struct lock_cancel *cancel;
    bool fences;
};

struct contender {
    pthread_t thread;
    const struct process *process;
    struct bench_key *key;
    struct bench_counts *counts;
    unsigned number;
    char key_name[32];
};

static enum bench_phase phase_of(const struct process *process) {
    return (enum bench_phase)atomic_load(&process->memory->phase);
}

static void note_error(const struct contender *me, enum lock_status status) {
    struct bench_counts *counts = me->counts;
    if (counts->errors++ > 0)
        return;
    counts->error = status;
    if (status == LOCK_UNAVAILABLE || status == LOCK_UNKNOWN)
        lock_last_error(me->process->lock, counts->why, sizeof counts->why);
}

/* Does the work under the lock, which shows the faults of a wrong lock. True: the last holder was another
 * one. */
static bool work_on_key(struct contender *me, const struct lock_grant *grant) {
    struct bench_key *key = me->key;
    uint32_t name = me->number + 1;
    me->counts->entered++;
    me->counts->two_holders += atomic_exchange(&key->holder, name) != 0;
    uint64_t count = atomic_load(&key->count);
    if (me->process->fences) {
        me->counts->old_fences += grant->fence <= atomic_load(&key->fence);
        atomic_store(&key->fence, grant->fence);
    }
    bool changed = atomic_load(&key->last) != name;
    atomic_store(&key->last, name);
    if (me->process->what->hold_us > 0)
        usleep(me->process->what->hold_us);
    atomic_store(&key->count, count + 1);
    uint32_t expected = name; /* a second holder stays */
    atomic_compare_exchange_strong(&key->holder, &expected, 0);
    return changed;
}

static void take_turn(struct contender *me) {
    struct bench_counts *counts = me->counts;
    struct lock_grant grant;
    int64_t since_ns = clock_now_ns();
    atomic_store_explicit(&counts->waiting_since_ns, since_ns, memory_order_relaxed);
    enum lock_status status = lock_acquire(me->process->lock, me->key_name, since_ns + acquire_limit_ns,
                                           me->process->cancel, &grant);
    int64_t acquired_ns = clock_now_ns();
    atomic_store_explicit(&counts->waiting_since_ns, 0, memory_order_relaxed);
    if (status != LOCK_OK) {
        if (status == LOCK_CANCELLED)
            return;
        note_error(me, status);
        usleep(PAUSE_AFTER_ERROR_US);
        return;
    }
    /* A pair belongs to the phase in which the lock was acquired. */
    enum bench_phase phase = phase_of(me->process);
    bool changed = work_on_key(me, &grant);
    status = lock_release(me->process->lock, &grant);
    /* The store granted it to another contender, even if the two did not meet. */
    if (status == LOCK_NOT_OWNER && lock_now_ns(me->process->lock) < grant.deadline_ns) {
        counts->lost++;
    } else if (status != LOCK_OK) {
        note_error(me, status);
    } else if (phase == BENCH_MEASURE) {
        counts->pairs++;
        counts->handovers += changed;
        histogram_record(&counts->waits, (uint64_t)(acquired_ns - since_ns));
    }
}

static void *contend(void *arg) {
    struct contender *me = arg;
    struct bench_shared_memory *memory = me->process->memory;
    atomic_fetch_add(&memory->ready, 1);
    while (phase_of(me->process) == BENCH_GATHER)
        usleep(GATHER_POLL_US);
    take_turn(me);
    atomic_fetch_add(&memory->begun, 1);
    while (phase_of(me->process) != BENCH_STOP)
        take_turn(me);
    return NULL;
}

unsigned bench_first_contender(const struct bench_case *what, unsigned process) {
    return what->contenders * process / what->processes;
}

/* Ends this process, and with it the run. */
static _Noreturn void give_up(struct bench_shared_memory *memory, const char *why) {
    snprintf(memory->error, sizeof memory->error, "%s", why);
    _exit(1);
}

static void start_contenders(struct contender *contenders, const struct process *process, unsigned first,
                             unsigned count) {
    bool shared = process->what->shared;
    for (unsigned i = 0; i < count; i++) {
        unsigned number = first + i;
        contenders[i] = (struct contender){.process = process,
                                           .key = &process->memory->keys[shared ? 0 : number],
                                           .counts = &process->memory->contenders[number],
                                           .number = number};
        snprintf(contenders[i].key_name, sizeof contenders[i].key_name,
                 shared ? "lock-bench:shared" : "lock-bench:own:%u", number);
        int error = pthread_create(&contenders[i].thread, NULL, contend, &contenders[i]);
        if (error != 0)
            give_up(process->memory, strerror(error));
    }
}

/* Returns at BENCH_STOP. It sees each change of the phase up to a millisecond late, both the begin and the
 * end. */
static void count_requests(const struct process *process) {
    struct lock_metrics before, after;
    while (phase_of(process) < BENCH_MEASURE)
        usleep(PHASE_POLL_US);
    lock_read_metrics(process->lock, &before);
    while (phase_of(process) == BENCH_MEASURE)
        usleep(PHASE_POLL_US);
    lock_read_metrics(process->lock, &after);
    atomic_fetch_add(&process->memory->requests, after.requests - before.requests);
    while (phase_of(process) != BENCH_STOP)
        usleep(PHASE_POLL_US);
}

void bench_work(struct bench_shared_memory *memory, const struct bench_case *what, unsigned number,
                pid_t parent) {
    struct process process = {.memory = memory, .what = what};
    struct lock_config config = {.teaching = what->teaching};
    unsigned first = bench_first_contender(what, number);
    unsigned count = bench_first_contender(what, number + 1) - first;
    char error[LOCK_ERROR_SIZE];
    follow_parent(parent);
    if (lock_open(what->url, &config, &process.lock, error, sizeof error) != LOCK_OK)
        give_up(memory, error);
    process.fences = (lock_caps(process.lock) & LOCK_CAN_FENCE) != 0;
    process.cancel = lock_cancel_new();
    struct contender *contenders = calloc(count, sizeof *contenders);
    if (!process.cancel || !contenders)
        give_up(memory, "out of memory");
    start_contenders(contenders, &process, first, count);
    count_requests(&process);
    lock_cancel(process.cancel);
    for (unsigned i = 0; i < count; i++)
        pthread_join(contenders[i].thread, NULL);
    lock_cancel_free(process.cancel);
    lock_close(process.lock);
    free(contenders);
    _exit(0);
}
