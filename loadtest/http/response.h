/* Reads one HTTP/1.x response out of bytes that arrive in pieces of any size. Knows no sockets.
 * Bounded: a head line of RESPONSE_LINE, RESPONSE_HEAD bytes of head or trailer in all, a body of
 * RESPONSE_BODY. Interim (1xx) responses are passed over. It does not do responses without a body to HEAD or
 * CONNECT. */
#ifndef LOADTEST_HTTP_RESPONSE_H
#define LOADTEST_HTTP_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RESPONSE_LINE 4096
#define RESPONSE_HEAD 16384
#define RESPONSE_BODY 16384

enum response_status {
    RESPONSE_MORE, /* not complete yet */
    RESPONSE_DONE,
    RESPONSE_BAD, /* not HTTP, or beyond the bounds: the connection is of no further use */
};

enum response_state {
    RESPONSE_AT_STATUS,
    RESPONSE_AT_HEADER,
    RESPONSE_AT_BODY,
    RESPONSE_AT_CHUNK_SIZE,
    RESPONSE_AT_CHUNK,
    RESPONSE_AT_CHUNK_END,
    RESPONSE_AT_TRAILER,
    RESPONSE_AT_EOF, /* the body runs until the peer closes */
    RESPONSE_AT_END,
};

struct response {
    /* For the reader, once it is done. */
    unsigned status;
    bool keep_alive;
    bool replayed; /* Idempotent-Replayed: true */
    size_t body_length;
    char body[RESPONSE_BODY];

    /* The parser's own. */
    enum response_state state;
    bool chunked;
    bool has_length;
    uint64_t left; /* of the body or of this chunk */
    size_t head_length;
    size_t line_length;
    char line[RESPONSE_LINE];
};

void response_reset(struct response *r);

/* Takes up to `length` bytes and says in *used how many belonged to this response. */
enum response_status response_feed(struct response *r, const char *bytes, size_t length, size_t *used);

/* The peer has closed: that ends a body without a length, and cuts off any other. */
enum response_status response_close(struct response *r);

#endif
