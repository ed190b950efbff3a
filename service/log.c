#include "service/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "service/rfc3339.h"

/* One write a line, so that lines of several threads do not mix. */
static void write_line(const char *level, const char *format, va_list list)
    __attribute__((format(printf, 2, 0)));

static void write_line(const char *level, const char *format, va_list list) {
    char line[1024], now[RFC3339_SIZE];
    rfc3339_print(clock_wall_ms(&clock_system), now);
    int length = snprintf(line, sizeof line, "%s %s ", now, level);
    vsnprintf(line + length, sizeof line - (size_t)length, format, list);
    fprintf(stderr, "%s\n", line);
}

void log_info(const char *format, ...) {
    va_list list;
    va_start(list, format);
    write_line("info ", format, list);
    va_end(list);
}

void log_warning(const char *format, ...) {
    va_list list;
    va_start(list, format);
    write_line("warn ", format, list);
    va_end(list);
}

void log_error(const char *format, ...) {
    va_list list;
    va_start(list, format);
    write_line("error", format, list);
    va_end(list);
}
