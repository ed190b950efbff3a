/* One keep-alive HTTP/1.1 connection on a libuv loop, with one request in flight at a time. Belongs to the
 * loop's thread; loop->data points to the connection_shared of the loop. */
#ifndef LOADTEST_HTTP_CONNECTION_H
#define LOADTEST_HTTP_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "loadtest/http/response.h"
#include "loadtest/http/target.h"

#define REQUEST_SIZE 4096 /* a basket of 32 lines is the largest request */

/* All connections of a loop share it. */
struct connection_shared {
    char bytes[65536]; /* what is read is parsed before the next read */
    uint64_t connects; /* connections opened */
};

enum connection_result {
    CONNECTION_ANSWERED,
    CONNECTION_NOT_SENT,   /* no connection, or it broke before a byte of the request was sent */
    CONNECTION_BROKEN,     /* it broke after bytes were sent: the seller may have done it */
    CONNECTION_TIMED_OUT,  /* no answer in time: likewise */
    CONNECTION_UNREADABLE, /* the answer is not an HTTP response: likewise */
};

enum connection_state {
    CONNECTION_DOWN,
    CONNECTION_CONNECTING,
    CONNECTION_IDLE,
    CONNECTION_BUSY,
    CONNECTION_CLOSING
};

struct connection {
    /* For the owner, who writes `request` before connection_send(). */
    char request[REQUEST_SIZE];
    struct response response; /* if answered; until the next connection_send() */
    uint64_t sent_ns;
    uint64_t answered_ns;

    /* Private to connection.c. */
    uv_loop_t *loop;
    void (*done)(struct connection *connection, enum connection_result result);
    const struct target *target;
    const struct target *peer; /* the target that the socket is connected to */
    uv_tcp_t tcp;
    uv_connect_t connecting;
    uv_write_t writing;
    enum connection_state state;
    size_t request_length;
    uint64_t deadline_ns;
    bool wanted;   /* a request waits until the old socket is closed */
    bool finished; /* call `done` when the socket is closed */
    enum connection_result result;
};

/* `connection` is zeroed. */
void connection_init(struct connection *connection, uv_loop_t *loop,
                     void (*done)(struct connection *connection, enum connection_result result));

/* Sends the first `length` bytes of `request`, and connects first if there is no connection to `target`. Each
 * call leads to one call of `done`, which never runs inside connection_send(). */
void connection_send(struct connection *connection, const struct target *target, size_t length,
                     uint64_t deadline_ns);

/* Call it regularly: it ends the request in flight if its deadline has passed. */
void connection_check(struct connection *connection, uint64_t now_ns);

/* Closes the socket; `done` is not called any more. The loop uses the connection until it runs dry. */
void connection_close(struct connection *connection);

#endif
