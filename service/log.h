/* The log, and what of a lock may stand in it and in answers. Neither must contain a secret, and the URL of
 * a lock may have a password. */
#ifndef SERVICE_LOG_H
#define SERVICE_LOG_H

#include <stddef.h>

/* Write a line for people to standard error, with time, level and text. */
#define log_info(...)    log_write("info ", __VA_ARGS__)
#define log_warning(...) log_write("warn ", __VA_ARGS__)
#define log_error(...)   log_write("error", __VA_ARGS__)

void log_write(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum { LOG_LOCK_SIZE = 256 };

/* Prints SCHEME://ADDRESS[?variant=NAME][&ttl=MS] of a lock's URL, for the log and for answers: never its
 * password, and only characters that need no escaping anywhere. */
void log_print_lock(char out[LOG_LOCK_SIZE], const char *url);
/* Prints any text in characters that need no escaping in JSON. */
void log_print_plain(char *out, size_t size, const char *text);

#endif
