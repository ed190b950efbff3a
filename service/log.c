#include "service/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "service/rfc3339.h"

/* Writes each line by one call, so that lines of several threads do not mix. */
void log_write(const char *level, const char *format, ...) {
    char line[1024], now[RFC3339_SIZE];
    rfc3339_print(clock_wall_ms(&clock_system), now);
    int length = snprintf(line, sizeof line, "%s %s ", now, level);
    va_list list;
    va_start(list, format);
    vsnprintf(line + length, sizeof line - (size_t)length, format, list);
    va_end(list);
    fprintf(stderr, "%s\n", line);
}
