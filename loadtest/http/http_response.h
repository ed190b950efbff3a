/* Parses one HTTP/1.x response from bytes that arrive in pieces of any size. No I/O.
 * Limits: RESPONSE_LINE bytes for a line of the head, RESPONSE_HEAD for head and trailer together,
 * RESPONSE_BODY for the body. A NUL in the head is an error. Skips interim (1xx) responses. Cannot parse
 * responses to HEAD or CONNECT. */
#ifndef LOADTEST_HTTP_HTTP_RESPONSE_H
#define LOADTEST_HTTP_HTTP_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RESPONSE_LINE 4096
#define RESPONSE_HEAD 16384
#define RESPONSE_BODY 16384

enum response_status {
    RESPONSE_MORE, /* not complete yet */
    RESPONSE_DONE,
    RESPONSE_BAD, /* not HTTP, or beyond the limits: close the connection */
};

enum response_state {
    RESPONSE_AT_STATUS,
    RESPONSE_AT_HEADER,
    RESPONSE_AT_BODY,
    RESPONSE_AT_CHUNK_SIZE,
    RESPONSE_AT_CHUNK,
    RESPONSE_AT_CHUNK_END,
    RESPONSE_AT_TRAILER,
    RESPONSE_AT_EOF, /* the body ends when the peer closes */
    RESPONSE_AT_END,
};

struct response {
    /* The result, with `body` below. */
    unsigned status;
    bool keep_alive;
    bool replayed; /* Idempotent-Replayed: true */
    size_t body_length;

    /* Private to the parser. */
    enum response_state state;
    bool chunked;
    bool has_length;
    uint64_t left; /* of the body or of this chunk */
    size_t head_length;
    size_t line_length;
    char line[RESPONSE_LINE + 1]; /* response_reset() zeroes what is before it */

    char body[RESPONSE_BODY];
};

/* Before each response. */
void response_reset(struct response *r);

/* Parses up to `length` bytes; stores in *used how many of them belong to this response. */
enum response_status response_feed(struct response *r, const char *bytes, size_t length, size_t *used);

/* The peer has closed the connection. RESPONSE_DONE: that was the end of a body without a length;
 * RESPONSE_BAD: the response is truncated. */
enum response_status response_close(struct response *r);

#endif
