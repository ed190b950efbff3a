/* The name that may have been meant by a misspelt one. */
#ifndef SERVICE_SPELLING_H
#define SERVICE_SPELLING_H

#include <stddef.h>

enum { SPELLING_MAX = 63 };

/* How many letters must be added, taken away, changed, or swapped with their neighbour to make `name` of
 * `typed`. SPELLING_MAX where `name` is longer than that. */
size_t spelling_distance(const char *typed, const char *name);

#endif
