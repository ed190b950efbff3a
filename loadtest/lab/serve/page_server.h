/* The page server: HTTP by libmicrohttpd, with a thread for each connection, since an event stream blocks its
 * own. It serves the files of the page, the API, and the event streams; it never calls the stage. */
#ifndef LOADTEST_LAB_SERVE_PAGE_SERVER_H
#define LOADTEST_LAB_SERVE_PAGE_SERVER_H

#include <stdbool.h>

#include "loadtest/lab/serve/guard.h"
#include "loadtest/lab/serve/lab_api.h"

enum { PAGE_SERVER_CONNECTIONS = 64, PAGE_SERVER_ERROR_SIZE = 200 };

struct page_server {
    struct guard guard;
    struct lab_api api;
};

/* Listens at an IPv4 or IPv6 address, and fills in the port and the loopback of `server->guard`; port 0: any
 * free port. `server` must live until the process ends, since the server cannot be stopped. Returns false,
 * and the reason in `error`, if it cannot listen. */
bool page_server_open(struct page_server *server, const char *address, int port,
                      char error[PAGE_SERVER_ERROR_SIZE]);

#endif
