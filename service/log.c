/* The log, and the names of locks without their passwords. */
#include "service/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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

/* Returns the option NAME= among the options of a URL, which begin with ?; "" if there is none. */
static const char *log_find_option(const char *options, const char *name) {
    for (const char *at = options; at; at = strchr(at, '&')) {
        at++;
        if (strncmp(at, name, strlen(name)) == 0)
            return at;
    }
    return "";
}

/* Shows nothing that stands before the last @, wherever that is. */
void log_print_lock(char out[LOG_LOCK_SIZE], const char *url) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:,/_-[]?=&";
    const char *scheme_end = strchr(url, ':'), *at = strrchr(url, '@'), *options = strchr(url, '?');
    size_t length = scheme_end ? (size_t)(scheme_end - url) + 1 : 0;
    const char *address = url + length, *end = options ? options : url + strlen(url);
    if (!scheme_end)
        end = address; /* not a URL */
    if (strncmp(address, "//", 2) == 0)
        address += 2, length += 2;
    if (at && at >= end)
        end = address; /* everything before an @ may be a password */
    else if (at)
        address = at + 1;
    bool shows = options && !(at && at > options);
    const char *variant = shows ? log_find_option(options, "variant=") : "";
    const char *ttl = shows ? log_find_option(options, "ttl=") : "";
    snprintf(out, LOG_LOCK_SIZE, "%.*s%.*s%s%.*s%s%.*s", (int)length, url,
             (int)(end > address ? end - address : 0), address, *variant ? "?" : "",
             (int)strcspn(variant, "&"), variant,
             !*ttl      ? ""
             : *variant ? "&"
                        : "?",
             (int)strcspn(ttl, "&"), ttl);
    for (char *c = out; *(c += strspn(c, plain));)
        *c = '_';
}

void log_print_plain(char *out, size_t size, const char *text) {
    size_t length = 0;
    for (const char *c = text; *c && length < size - 1; c++) {
        if (strncmp(c, "…", 3) == 0 && length < size - 3) {
            memcpy(out + length, "...", 3);
            length += 3;
            c += 2;
        } else {
            out[length++] = (char)(*c < ' ' || *c > '~' || *c == '"' || *c == '\\' ? '?' : *c);
        }
    }
    out[length] = '\0';
}
