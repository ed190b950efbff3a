/* One keep-alive HTTP/1.1 connection on a libuv loop, one request under way at a time.
 * Everything here belongs to the loop's thread. loop->data must point to the loop's own struct client_buffer.
 */
#ifndef LOADTEST_HTTP_CLIENT_H
#define LOADTEST_HTTP_CLIENT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "loadtest/http/response.h"

#define CLIENT_REQUEST 4096 /* the largest is a basket of 32 lines */

struct client_target {
    char host[300]; /* as the Host header has it: name:port */
    struct sockaddr_storage address;
    bool accepts; /* it did when it was resolved */
};

/* What is read is parsed before the next read: one buffer serves all connections of a loop. */
struct client_buffer {
    char bytes[65536];
};

enum client_result {
    CLIENT_ANSWERED,
    CLIENT_NOT_SENT,   /* no connection, or it broke before a byte of the request was taken */
    CLIENT_BROKEN,     /* broke after bytes were sent: it may have been carried out */
    CLIENT_TIMED_OUT,  /* no answer in time, likewise */
    CLIENT_UNREADABLE, /* what came back is not a response, likewise */
};

enum client_state { CLIENT_DOWN, CLIENT_CONNECTING, CLIENT_IDLE, CLIENT_BUSY, CLIENT_CLOSING };

struct client {
    /* For the owner. The request is written into `request` before client_send. */
    char request[CLIENT_REQUEST];
    struct response response; /* of an answered request, until the next client_send */
    uint64_t sent_ns;
    uint64_t answered_ns;
    uint64_t connects; /* how often a connection was established */

    /* The connection's own. */
    uv_loop_t *loop;
    void (*done)(struct client *client, enum client_result result);
    const struct client_target *target;
    const struct client_target *peer; /* what the socket is connected to */
    uv_tcp_t tcp;
    uv_connect_t connecting;
    uv_write_t writing;
    enum client_state state;
    size_t request_length;
    uint64_t deadline_ns;
    bool wanted;   /* a request waits for the old socket to be closed */
    bool finished; /* `result` is to be told once the socket is closed */
    enum client_result result;
};

/* Finds an address for http://HOST[:PORT][/]: the first that accepts a connection now, or else the first.
 * Returns NULL, or a text that says what is wrong with the URL. */
const char *client_resolve(const char *url, struct client_target *target);

void client_init(struct client *client, uv_loop_t *loop,
                 void (*done)(struct client *client, enum client_result result));

/* Sends the first `length` bytes of client->request, connecting where there is no connection to that target.
 * `done` is called once for each call, and never from within it. */
void client_send(struct client *client, const struct client_target *target, size_t length,
                 uint64_t deadline_ns);

/* To be called now and then: ends the request under way if its deadline has passed. */
void client_check(struct client *client, uint64_t now_ns);

/* Closes the socket; `done` is not called any more. The connection is in use until the loop has run dry. */
void client_close(struct client *client);

#endif
