/* A progress line on standard error, rewritten once a second; nothing if standard error is not a terminal. */
#ifndef LOADTEST_PROGRESS_H
#define LOADTEST_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool on;
    uint64_t next_ns;
};

void progress_init(struct progress *progress);

/* Does something once a second. */
__attribute__((format(printf, 3, 4))) void progress_show(struct progress *progress, uint64_t now_ns,
                                                         const char *format, ...);

/* Removes the line. */
void progress_clear(const struct progress *progress);

#endif
