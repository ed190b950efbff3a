/* The log, and what of a lock may stand in it and in answers. Neither must contain a secret, and the URL of
 * a lock may have a password. */
#ifndef SERVICE_LOG_H
#define SERVICE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Has each line be a JSON object, from now on; to be called before there are threads. Until then lines are
 * text. */
void log_use_json(void);
bool log_is_json(void);

/* Write a line for people to standard error, with time, level and text. In JSON the members are time, level
 * and message; the text may have any bytes. */
#define log_info(...)    log_write(LOG_INFO, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, __VA_ARGS__)
#define log_error(...)   log_write(LOG_ERROR, __VA_ARGS__)

enum log_level { LOG_INFO, LOG_WARNING, LOG_ERROR };

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A call that was answered. No text has more than 511 bytes. */
struct log_call {
    const char *who; /* the name of the caller's token; "": none */
    const char *method, *path;
    const char *problem; /* NULL: none */
    const char *request_id, *trace_id;
    int status;
    int64_t took_ns;
};

/* Writes a line of the request log. There is one only in JSON. */
void log_call(const struct log_call *call);

enum { LOG_LOCK_SIZE = 256 };

/* Prints SCHEME://ADDRESS[?variant=NAME][&ttl=MS] of a lock's URL, for the log and for answers: never its
 * password, and only characters that need no escaping anywhere. */
void log_print_lock(char out[LOG_LOCK_SIZE], const char *url);
/* Prints any text in characters that need no escaping in JSON. */
void log_print_plain(char *out, size_t size, const char *text);

#endif
