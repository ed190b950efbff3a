/* One connection to a Redis, shared by all threads that call over it.
 *
 * Answers come in the order of the commands. One of the waiting threads, the leader, reads for all of them
 * (D. C. Schmidt et al., "Leader/Followers", PLoP 2000). While answers are in flight commands gather, and are
 * then written together. So a lone caller costs one write and one read, with no other thread in between, and
 * many callers share both. */
#ifndef BASE_REDIS_BLOCKING_CONNECTION_H
#define BASE_REDIS_BLOCKING_CONNECTION_H

#include "base/redis/redirect.h"
#include "base/redis/url.h"
#include "base/waiter.h"

/* ---- what all units of the driver share ---- */

/* What became of a call. */
enum redis_status {
    REDIS_ANSWERED,    /* perhaps with an error */
    REDIS_UNKNOWN,     /* it was sent, and no answer came: it may have been carried out or not */
    REDIS_UNAVAILABLE, /* it was not carried out: the server cannot be used */
    REDIS_NOMEM,       /* it was not carried out: out of memory */
};

enum { REDIS_ANSWER_TEXT_SIZE = 160 };

struct redis_answer {
    enum redis_type type;              /* the elements of an ARRAY are not kept */
    int64_t integer;                   /* INTEGER; otherwise 0 */
    char text[REDIS_ANSWER_TEXT_SIZE]; /* STRING and ERROR, cut off if longer; otherwise "" */
};

/* What an error means; REDIS_REFUSED for all other answers. The rest as in redis_error_read(). */
static inline enum redis_meaning redis_answer_meaning(const struct redis_answer *answer, const char *asked,
                                                      struct redis_redirect *redirect) {
    return answer->type == REDIS_ERROR ? redis_error_read(answer->text, asked, redirect) : REDIS_REFUSED;
}

/* What the driver tells its user, and asks of it. Any thread may call the functions. Members may be NULL, but
 * a subscriber needs its own. The hooks must outlive what is opened with them. */
struct redis_hooks {
    void *ctx; /* of failed() and moved() */
    /* A server could not be used. `server` is HOST:PORT; `why` is for people, and never has a password. */
    void (*failed)(void *ctx, const char *server, const char *why);
    /* Another server has the data from now on, or had it in between, so that earlier writes may be gone.
     * Called before anything is sent there. */
    void (*moved)(void *ctx);
    /* For subscribers: a text was published to `channel`. NULL: it is subscribed to anew, so texts may have
     * been lost. */
    void (*message)(void *message_ctx, const char *text);
    void *message_ctx;
    const char *channel;
    _Atomic uint64_t *requests; /* counts the commands of calls, without those that connect */
};

/* Call a hook, if there is one; `hooks` may be NULL. A user may report what only it notices. */
void redis_report(const struct redis_hooks *hooks, const struct redis_target *server, const char *why);
void redis_report_move(const struct redis_hooks *hooks);

/* ---- the connection ---- */

struct redis_connection;

/* Connects with the first call, to the first server of the URL, or to the master that its Sentinels name. A
 * call that is not answered within `timeout_ms` closes the connection, and fails all calls behind it. `hooks`
 * may be NULL. NULL when out of memory. */
struct redis_connection *redis_connection_open(const struct redis_url *url, int timeout_ms,
                                               const struct redis_hooks *hooks);
/* No thread may be inside a call. NULL does nothing. */
void redis_connection_close(struct redis_connection *connection);

/* Blocks for the timeout at most, which includes connecting: if less than a third of it is left then, the
 * command is not sent. Soon after `cancel` (which may be NULL) is called, a call that was sent is
 * REDIS_UNKNOWN: another thread reads its answer then.
 *
 * An answer that the server is a replica closes the connection once no thread waits on it, since the host
 * name may mean another server by now. */
enum redis_status redis_connection_call(struct redis_connection *connection, int argc,
                                        const char *const argv[], struct redis_answer *answer,
                                        struct cancel *cancel);

/* A call in flight; the caller's own. Its members are the connection's. */
struct redis_request {
    STAILQ_ENTRY(redis_request) next;
    struct redis_answer *answer;
    int64_t until_ns; /* not answered by then: the connection is closed */
    uint64_t ends_at; /* position of its command's end in all bytes ever queued */
    enum redis_status status;
    bool done;      /* its thread is woken, unless it finished the call itself */
    bool leads;     /* the leader before it has appointed it, and woken its thread */
    bool abandoned; /* its caller has gone, and this is a copy; the answer is thrown away */
    struct waiter waiter;
};

/* The two halves of a call, for a thread that has several commands to send at once: they are written with the
 * first redis_connection_end(). Each call that was begun must be ended, in the same order. `until_ns`: when
 * it must be answered, including connecting; 0: a timeout after connecting, which may take another. */
void redis_connection_begin(struct redis_connection *connection, struct redis_request *call, int argc,
                            const char *const argv[], struct redis_answer *answer, int64_t until_ns);
enum redis_status redis_connection_end(struct redis_connection *connection, struct redis_request *call,
                                       struct cancel *cancel);

#endif
