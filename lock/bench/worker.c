#include "lock/bench/worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { POLL_US = 5000, PAUSE_AFTER_ERROR_US = 10000 };

static const int64_t patience_ns = INT64_C(3600) * 1000000000;

/* What the threads of a process have in common. */
struct crew {
    struct bench_arena *arena;
    const struct bench_case *what;
    struct lock *lock;
    struct lock_cancel *cancel;
    bool fences;
};

struct contender {
    pthread_t thread;
    const struct crew *crew;
    struct bench_cell *cell;
    struct bench_seat *seat;
    unsigned number;
    char key[32];
};

static void pause_us(unsigned us) {
    struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};
    while (nanosleep(&time, &time) != 0 && errno == EINTR)
        continue;
}

static enum bench_phase phase_of(const struct crew *crew) {
    return (enum bench_phase)atomic_load(&crew->arena->phase);
}

static void note_error(const struct contender *me, enum lock_status status) {
    struct bench_seat *seat = me->seat;
    if (seat->errors++ > 0)
        return;
    seat->error = status;
    if (status == LOCK_UNAVAILABLE || status == LOCK_UNKNOWN)
        lock_last_error(me->crew->lock, seat->why, sizeof seat->why);
}

/* What is done under the lock, and what a wrong lock spoils. True: the holder is another one than before. */
static bool work(struct contender *me, const struct lock_grant *grant) {
    struct bench_cell *cell = me->cell;
    uint32_t name = me->number + 1;
    me->seat->entered++;
    me->seat->met += atomic_exchange(&cell->holder, name) != 0;
    uint64_t count = atomic_load(&cell->count);
    if (me->crew->fences) {
        me->seat->old_fences += grant->fence <= atomic_load(&cell->fence);
        atomic_store(&cell->fence, grant->fence);
    }
    bool changed = atomic_load(&cell->last) != name;
    atomic_store(&cell->last, name);
    if (me->crew->what->hold_us > 0)
        pause_us(me->crew->what->hold_us);
    atomic_store(&cell->count, count + 1);
    uint32_t expected = name; /* another one who came in wrongly stays */
    atomic_compare_exchange_strong(&cell->holder, &expected, 0);
    return changed;
}

static void add_pair(struct bench_tally *tally, bool changed) {
    tally->pairs++;
    tally->handovers += changed;
}

static void take_turn(struct contender *me) {
    struct bench_seat *seat = me->seat;
    struct lock_grant grant;
    int64_t since_ns = clock_mono_ns(&clock_system);
    atomic_store_explicit(&seat->waiting_since_ns, since_ns, memory_order_relaxed);
    enum lock_status status =
        lock_acquire(me->crew->lock, me->key, since_ns + patience_ns, me->crew->cancel, &grant);
    int64_t had_ns = clock_mono_ns(&clock_system);
    atomic_store_explicit(&seat->waiting_since_ns, 0, memory_order_relaxed);
    if (status != LOCK_OK) {
        if (status == LOCK_CANCELLED)
            return;
        note_error(me, status);
        pause_us(PAUSE_AFTER_ERROR_US);
        return;
    }
    /* A pair belongs to the phase in which the lock was had. */
    enum bench_phase phase = phase_of(me->crew);
    bool changed = work(me, &grant);
    status = lock_release(me->crew->lock, &grant);
    /* Somebody else was given it, if perhaps they did not meet. */
    if (status == LOCK_NOT_OWNER && lock_now_ns(me->crew->lock) < grant.deadline_ns) {
        seat->lost++;
    } else if (status != LOCK_OK) {
        note_error(me, status);
    } else if (phase == BENCH_MEASURE) {
        add_pair(&seat->measured, changed);
        bench_histogram_record(&seat->waits, (uint64_t)(had_ns - since_ns));
    } else if (phase == BENCH_SAMPLE) {
        add_pair(&seat->sampled, changed);
    }
}

static void *contend(void *arg) {
    struct contender *me = arg;
    struct bench_arena *arena = me->crew->arena;
    atomic_fetch_add(&arena->ready, 1);
    while (phase_of(me->crew) == BENCH_GATHER)
        pause_us(POLL_US);
    take_turn(me);
    atomic_store(&arena->begun, true);
    while (phase_of(me->crew) != BENCH_STOP)
        take_turn(me);
    return NULL;
}

unsigned bench_first_contender(const struct bench_case *what, unsigned process) {
    return what->contenders * process / what->processes;
}

void bench_follow_parent(pid_t parent) {
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it ended before that call */
        _exit(1);
    prctl(PR_SET_TIMERSLACK, 1UL); /* --hold means it: no 50 us more */
}

/* Ends this process, and with it the row. */
static _Noreturn void give_up(struct bench_arena *arena, const char *why) {
    snprintf(arena->error, sizeof arena->error, "%s", why);
    _exit(1);
}

static void start(struct contender *contenders, const struct crew *crew, unsigned first, unsigned count) {
    bool shared = crew->what->shared;
    for (unsigned i = 0; i < count; i++) {
        unsigned number = first + i;
        contenders[i] = (struct contender){.crew = crew,
                                           .cell = &crew->arena->cells[shared ? 0 : number],
                                           .seat = &crew->arena->seats[number],
                                           .number = number};
        snprintf(contenders[i].key, sizeof contenders[i].key,
                 shared ? "lock-bench:shared" : "lock-bench:own:%u", number);
        int error = pthread_create(&contenders[i].thread, NULL, contend, &contenders[i]);
        if (error != 0)
            give_up(crew->arena, strerror(error));
    }
}

void bench_work(struct bench_arena *arena, const struct bench_case *what, unsigned process, pid_t parent) {
    struct crew crew = {.arena = arena, .what = what};
    struct lock_config config = {.teaching = what->teaching};
    unsigned first = bench_first_contender(what, process);
    unsigned count = bench_first_contender(what, process + 1) - first;
    char error[LOCK_ERROR_SIZE];
    bench_follow_parent(parent);
    if (lock_open(what->url, &config, &crew.lock, error, sizeof error) != LOCK_OK)
        give_up(arena, error);
    crew.fences = (lock_caps(crew.lock) & LOCK_CAN_FENCE) != 0;
    crew.cancel = lock_cancel_new();
    struct contender *contenders = calloc(count, sizeof *contenders);
    if (!crew.cancel || !contenders)
        give_up(arena, "out of memory");
    start(contenders, &crew, first, count);
    while (phase_of(&crew) != BENCH_STOP)
        pause_us(POLL_US);
    lock_cancel(crew.cancel);
    for (unsigned i = 0; i < count; i++)
        pthread_join(contenders[i].thread, NULL);
    lock_cancel_free(crew.cancel);
    lock_close(crew.lock);
    free(contenders);
    _exit(0);
}
