/* A target: the address of one --url. */
#ifndef LOADTEST_HTTP_TARGET_H
#define LOADTEST_HTTP_TARGET_H

#include <netinet/in.h>
#include <stdbool.h>

struct target {
    char host[300]; /* as in the Host header: name:port */
    struct sockaddr_storage address;
    bool accepts; /* it accepted a connection when it was resolved */
};

/* Resolves http://HOST[:PORT][/] to the first address that accepts a connection now, or else to the first
 * address. Returns NULL, or what is wrong with the URL. */
const char *target_resolve(const char *url, struct target *target);

#endif
