#include "base/preload/turned_clock.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile struct turned_clock *turned;

__attribute__((constructor)) static void open_clock(void) {
    const char *path = getenv("TURNED_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *memory = mmap(NULL, sizeof *turned, PROT_READ, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED)
        turned = memory;
    close(fd);
}

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

int clock_gettime(clockid_t id, struct timespec *out) {
    int result = (int)syscall(SYS_clock_gettime, id, out);
    if (result != 0 || id != CLOCK_REALTIME || !turned)
        return result;
    int64_t ms = turned->stopped_ms;
    if (ms == 0)
        ms = (int64_t)out->tv_sec * 1000 + out->tv_nsec / 1000000 + turned->ahead_ms;
    out->tv_sec = ms / 1000;
    out->tv_nsec = ms % 1000 * 1000000 + (turned->stopped_ms ? 0 : out->tv_nsec % 1000000);
    return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
