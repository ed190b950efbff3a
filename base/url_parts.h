/* The parts of URLs: HOST[:PORT], and texts with %XX in them. No I/O: a host is read, not resolved. */
#ifndef BASE_URL_PARTS_H
#define BASE_URL_PARTS_H

#include <stdbool.h>
#include <stddef.h>

/* A name, an IPv4 address, or an IPv6 address (which stands in brackets in the text). */
struct host {
    const char *name; /* points into the text that was read, without brackets; no NUL ends it */
    size_t length;
    int port;
};

/* Reads `length` bytes of a text. `port`: the port of a text without one; 0: the text must have one. Returns
 * NULL, or what is wrong, as the end of a sentence: "is empty". */
const char *host_read(struct host *host, const char *text, size_t length, int port);

/* Copies `length` bytes, and resolves %XX. False if the result does not fit or has a zero byte in it, or if a
 * % is not followed by two hexadecimal digits. */
bool percent_decode(char *out, size_t out_size, const char *in, size_t length);

#endif
