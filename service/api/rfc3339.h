/* Instants as RFC 3339 text, in UTC with milliseconds when written. */
#ifndef SERVICE_API_RFC3339_H
#define SERVICE_API_RFC3339_H

#include <stdbool.h>
#include <stdint.h>

enum { INSTANT_SIZE = 32 };

/* Reads e.g. 2026-11-21T20:00:00Z, with any fraction and offset; false where it is none (a leap second
 * included). */
bool instant_read(const char *text, int64_t *ms);
void instant_print(int64_t ms, char out[INSTANT_SIZE]);

#endif
