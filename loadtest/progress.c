#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "loadtest/progress.h"

void progress_init(struct progress *progress) {
    progress->on = isatty(STDERR_FILENO) == 1;
    progress->next_ns = 0;
}

void progress_show(struct progress *progress, uint64_t now_ns, const char *format, ...) {
    if (!progress->on || now_ns < progress->next_ns)
        return;
    bool first = progress->next_ns == 0;
    progress->next_ns = now_ns + UINT64_C(1000000000);
    if (first)
        return;
    va_list arguments;
    va_start(arguments, format);
    progress_clear(progress);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fflush(stderr);
}

void progress_clear(const struct progress *progress) {
    if (progress->on) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}
