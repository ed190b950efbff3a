/* The log: lines for people on standard error, with time, level and text. It must contain no secrets. */
#ifndef SERVICE_LOG_H
#define SERVICE_LOG_H

#define log_info(...)    log_write("info ", __VA_ARGS__)
#define log_warning(...) log_write("warn ", __VA_ARGS__)
#define log_error(...)   log_write("error", __VA_ARGS__)

void log_write(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
