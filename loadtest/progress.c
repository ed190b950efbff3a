#include "loadtest/progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

enum { LINE_NS = 100000000 };

void progress_init(struct progress *progress, FILE *lines) {
    *progress = (struct progress){.on = isatty(STDERR_FILENO) == 1, .lines = lines};
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

void progress_answered(struct progress *progress, uint64_t latency_ns) {
    if (progress->lines)
        histogram_record(&progress->latencies, latency_ns);
}

void progress_write(struct progress *progress, uint64_t now_ns, uint64_t elapsed_ns,
                    const struct progress_counts *counts, bool last) {
    if (!progress->lines || (now_ns < progress->next_line_ns && !last))
        return;
    progress->next_line_ns = now_ns + LINE_NS;
    fprintf(progress->lines,
            "{\"seconds\":%.3f,\"accepted\":%" PRIu64 ",\"rejected\":%" PRIu64 ",\"unknown\":%" PRIu64
            ",\"p50_us\":%" PRIu64 ",\"p99_us\":%" PRIu64 "}\n",
            (double)elapsed_ns / 1e9, counts->accepted, counts->rejected, counts->unknown,
            histogram_quantile(&progress->latencies, 0.5) / 1000,
            histogram_quantile(&progress->latencies, 0.99) / 1000);
    fflush(progress->lines);
    memset(&progress->latencies, 0, sizeof progress->latencies);
}
