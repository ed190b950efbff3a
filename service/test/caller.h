/* A client for threads of a test. It asks the harness for no memory: that of a failed test is freed while its
 * threads still run. */
#ifndef SERVICE_TEST_CALLER_H
#define SERVICE_TEST_CALLER_H

#include "test/harness.h"

struct caller {
    struct web_conn conn;
    int port;                     /* of the connection, if it is open */
    char head[2048], body[12288]; /* of the last answer */
};

/* `fd` -1: it is not connected. */
#define CALLER_NEW                                                                                           \
    { .conn.fd = -1 }

/* Calls with the admin's token and this Idempotency-Key (NULL: none). Returns the status; 0: there was no
 * answer, and the connection is closed. */
int caller_call(struct caller *caller, int port, const char *method, const char *path, const char *key,
                const char *body);
/* The text between `name` and the next quotation mark in the answer's JSON, which has no escapes. False: it
 * is not there, or too long. */
bool caller_text(const struct caller *caller, const char *name, char *out, size_t out_size);
bool caller_has_header(const struct caller *caller, const char *line);
void caller_close(struct caller *caller);

#endif
