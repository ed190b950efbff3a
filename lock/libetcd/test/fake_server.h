/* A fake server: silent, closing, answering garbage, or answering gRPC as told. */
#ifndef LOCK_LIBETCD_TEST_FAKE_SERVER_H
#define LOCK_LIBETCD_TEST_FAKE_SERVER_H

#include <stddef.h>

enum fake_server_kind {
    FAKE_SILENT,  /* accepts a connection and sends nothing */
    FAKE_CLOSES,  /* closes the connection at once */
    FAKE_RUBBISH, /* sends bytes that are not HTTP/2 */
    FAKE_GRPC,    /* answers each request as told */
};

struct fake_server_answer {
    enum { FAKE_ANSWER, FAKE_CLOSE, FAKE_WAIT } how; /* an answer, a closed connection, or no answer */
    const char *http;                                /* NULL: 200 */
    int code;                                        /* gRPC's status */
    const char *message;                             /* its message; NULL: none */
    const void *data;                                /* the answer; NULL: none */
    size_t size;
};

struct fake_server;

/* Runs until the test ends. Repeats the last answer. */
struct fake_server *fake_server_start(enum fake_server_kind kind, const struct fake_server_answer *answers,
                                      size_t count);
/* 127.0.0.1:PORT */
const char *fake_server_endpoint(const struct fake_server *server);
/* The number of requests so far. */
int fake_server_requests(struct fake_server *server);

#endif
