/* How a lock is called in answers, logs and metrics. */
#ifndef SERVICE_BACKGROUND_LOCK_NAME_H
#define SERVICE_BACKGROUND_LOCK_NAME_H

#include <stddef.h>

enum { LOCK_NAME_SIZE = 256 };

/* SCHEME://ADDRESS[?variant=NAME][&ttl=MS] of a lock's URL: without its password, whatever the URL, and of
 * characters that need no escaping anywhere. */
void lock_name_print(char out[LOCK_NAME_SIZE], const char *url);
/* Words that may have anything in them: of characters that JSON needs no escapes for. */
void lock_name_print_plain(char *out, size_t size, const char *text);

#endif
