/* Instants as RFC 3339 text; written in UTC with milliseconds. */
#ifndef SERVICE_RFC3339_H
#define SERVICE_RFC3339_H

#include <stdbool.h>
#include <stdint.h>

enum { RFC3339_SIZE = 32 };

/* Reads e.g. 2026-11-21T20:00:00Z, with any fraction and offset, as milliseconds since 1970. False: the text
 * is no instant, or a leap second; `ms` is untouched then. */
bool rfc3339_read(const char *text, int64_t *ms);
void rfc3339_print(int64_t ms, char out[RFC3339_SIZE]);

#endif
