/* The guard: decides which requests may be answered. It refuses what another site's page could send from the
 * user's browser: to this address (the Origin is wrong, or the token is missing), or to a name of its own
 * that it has pointed at this address (DNS rebinding: the Host is wrong). Pure: no I/O. */
#ifndef LOADTEST_LAB_SERVE_GUARD_H
#define LOADTEST_LAB_SERVE_GUARD_H

#include <stdbool.h>

enum { GUARD_TOKEN_SIZE = 33 };

struct guard {
    int port;                     /* of the server */
    bool loopback;                /* the server listens on a loopback address */
    char token[GUARD_TOKEN_SIZE]; /* a request that changes something must carry it */
};

/* A header that the request does not have is NULL. */
struct guard_request {
    const char *method, *path;
    const char *host, *origin, *fetch_site, *content_type, *token;
};

struct guard_refusal {
    int status; /* of HTTP; 0: the request may be answered */
    const char *title, *detail;
};

struct guard_refusal guard_check(const struct guard *guard, const struct guard_request *request);

#endif
