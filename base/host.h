/* HOST[:PORT], as in URLs: a name, an IPv4 address, or an IPv6 address in brackets. */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include <stddef.h>

struct host {
    const char *name; /* within the text, without brackets */
    size_t length;
    int port;
};

/* Reads `length` bytes of a text. `port`: if it has none; 0: it must have one. Returns NULL, or what is wrong
 * with it, as the end of a sentence: "is empty". */
const char *host_read(struct host *host, const char *text, size_t length, int port);

#endif
