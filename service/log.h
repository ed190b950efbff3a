/* The log: lines for people on standard error, with time, level and text. It must contain no secrets. */
#ifndef SERVICE_LOG_H
#define SERVICE_LOG_H

void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
