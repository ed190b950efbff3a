/* The limits of the HTTP server. */
#ifndef SERVICE_HTTP_HTTP_LIMITS_H
#define SERVICE_HTTP_HTTP_LIMITS_H

enum {
    HTTP_BACKLOG = 4096,       /* connections that wait to be accepted, for each worker */
    HTTP_IDLE_MS = 60000,      /* a connection that completes no request for so long is closed */
    HTTP_BODY_MAX = 16 * 1024, /* bytes of a request's body */
    HTTP_PATH_MAX = 512,       /* bytes of a path with its NUL; a longer one is cut, and so not found */

    /* libmicrohttpd keeps the heads of a request and of its answer in one block of memory for each
     * connection, and clears it for each request. It is no larger than the heads of real browsers need:
     * request line and headers may have about 4 KB together. */
    HTTP_CONNECTION_MEMORY = 8 * 1024,

    /* A body that is declared too large is answered before it is read. Of a body that turns out too large, so
     * many bytes are read and thrown away before the server answers in the middle of it. Either way the
     * connection ends with the answer; a client that sends on is cut off after so many bytes. */
    HTTP_DISCARD_MAX = 1024 * 1024,
    HTTP_DISCARD_CUT = 16 * HTTP_DISCARD_MAX,

    /* If only 1/8 of the places for connections is free, a silent connection is closed after 1/12 of the idle
     * time. */
    HTTP_SPARE_SHARE = 8,
    HTTP_HURRY = 12,
};

#endif
