#include "lock/bench/probe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock/bench/contenders.h"

enum { PROBE_MS = 5000 };

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

static _Noreturn void probe(struct probe *found, const char *url, bool teaching, pid_t parent) {
    struct lock_config config = {.teaching = teaching};
    struct lock *lock = NULL;
    bench_follow_parent(parent);
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
        probe(found, url, teaching, parent);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    enum lock_status status = found->status;
    *caps = found->caps;
    snprintf(error, error_size, "%s", status == LOCK_OK ? "" : found->error);
    munmap(found, sizeof *found);
    return status;
}
