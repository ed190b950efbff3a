/* The site: HTTP by libmicrohttpd, with a thread for each connection, since a watcher's waits. It knows the
 * guard, the files of the page, the API, and the streams of events; it never calls the stage. */
#ifndef LOADTEST_LAB_SERVE_SITE_H
#define LOADTEST_LAB_SERVE_SITE_H

#include <stdbool.h>

#include "loadtest/lab/serve/api.h"
#include "loadtest/lab/serve/guard.h"

enum { SITE_CONNECTIONS = 64, SITE_ERROR_SIZE = 200 };

struct site {
    struct guard guard;
    struct api api;
};

/* Listens at an IPv4 or IPv6 address; port 0: any that is free; `site->guard` learns which. `site` must stay:
 * there is no end but that of the process. False: `error` says why. */
bool site_open(struct site *site, const char *address, int port, char error[SITE_ERROR_SIZE]);

#endif
