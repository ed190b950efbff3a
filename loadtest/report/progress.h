/* One line on the terminal that is written anew once a second; nothing where stderr is no terminal. */
#ifndef LOADTEST_REPORT_PROGRESS_H
#define LOADTEST_REPORT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool on;
    uint64_t next_ns;
};

void progress_init(struct progress *progress);

/* Whether a second has gone by since it was last true. */
bool progress_due(struct progress *progress, uint64_t now_ns);

__attribute__((format(printf, 2, 3))) void progress_show(const struct progress *progress, const char *format,
                                                         ...);

/* Takes the line away. */
void progress_clear(const struct progress *progress);

#endif
