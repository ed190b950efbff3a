/* The name of a lock in answers, logs and metrics. */
#ifndef SERVICE_BACKGROUND_LOCK_NAME_H
#define SERVICE_BACKGROUND_LOCK_NAME_H

#include <stddef.h>

enum { LOCK_NAME_SIZE = 256 };

/* Prints SCHEME://ADDRESS[?variant=NAME][&ttl=MS] of a lock's URL: never its password, and only characters
 * that need no escaping anywhere. */
void lock_name_print(char out[LOCK_NAME_SIZE], const char *url);
/* Prints any text in characters that need no escaping in JSON. */
void lock_name_print_plain(char *out, size_t size, const char *text);

#endif
