/* A server that is none: what libetcd makes of anything that may listen on a port. */
#ifndef LOCK_LIBETCD_TEST_ROGUE_H
#define LOCK_LIBETCD_TEST_ROGUE_H

#include <stddef.h>

enum rogue_kind {
    ROGUE_SILENT,  /* accepts, and says nothing */
    ROGUE_CLOSES,  /* at once */
    ROGUE_RUBBISH, /* says what is not HTTP/2 */
    ROGUE_ANSWERS, /* as it was told, each request */
};

struct rogue_answer {
    enum { ROGUE_SAYS, ROGUE_CUTS, ROGUE_WAITS } how; /* an answer; a closed connection; none at all */
    const char *http;                                 /* NULL: 200 */
    int code;                                         /* of gRPC */
    const char *message;                              /* with it; NULL: none */
    const void *data;                                 /* NULL: no message of the answer's */
    size_t size;
};

struct rogue;

/* Until the test ends. The last answer is given again and again. */
struct rogue *rogue_start(enum rogue_kind kind, const struct rogue_answer *answers, size_t count);
/* 127.0.0.1:PORT */
const char *rogue_endpoint(const struct rogue *rogue);
/* How many requests there were. */
int rogue_asked(struct rogue *rogue);

#endif
