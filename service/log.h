/* Lines for people on standard error: time, level, text. Nothing secret goes here. */
#ifndef SERVICE_LOG_H
#define SERVICE_LOG_H

void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
