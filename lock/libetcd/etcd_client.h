/* A client of etcd: its parts, and what the files of libetcd offer each other. Not for users. */
#ifndef LOCK_LIBETCD_ETCD_CLIENT_H
#define LOCK_LIBETCD_ETCD_CLIENT_H

#include <grpc/grpc.h>
#include <pthread.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "lock/libetcd/message.h"

/* ---- grpc_loop.c: the one thread of a client, and the unary calls in flight ----
 *
 * gRPC core needs a thread inside its completion queue at all times, since that thread also reads the
 * sockets. */

/* The tag of a batch of gRPC operations. The loop calls `done` once for each batch that was started with the
 * tag; `ok`: gRPC reports success. */
struct etcd_tag {
    void (*done)(struct etcd_tag *tag, bool ok);
};

/* What a thread wrote before it started a batch, the loop sees when the batch is done. gRPC guarantees that.
 * gRPC is not built with ThreadSanitizer, so __tsan_release(tag) before grpc_call_start_batch() tells it. */
#ifdef __SANITIZE_THREAD__
void __tsan_release(void *tag);
#else
#define __tsan_release(tag) ((void)(tag))
#endif

/* Timed work. */
struct etcd_ticker {
    /* The loop calls it. Returns when to call it next; INT64_MAX: when the loop is woken. */
    int64_t (*tick)(struct etcd_ticker *ticker, int64_t now_ns);
    int64_t next_ns;
    struct etcd_ticker *next;
};

struct etcd_loop {
    grpc_completion_queue *queue;
    pthread_t thread;
    bool started;
    struct etcd_ticker *tickers;
    grpc_channel *wake_channel; /* any channel; the owner sets it before the first wake */
    struct etcd_tag wake;
    _Atomic bool waking; /* the wake tag is in flight */

    _Atomic bool closing;
    pthread_mutex_t mutex; /* protects the next three members, and is held to set `closing` */
    pthread_cond_t idle;   /* no unary call is in flight, and no thread is blocked */
    LIST_HEAD(etcd_unaries, etcd_unary) unaries; /* in flight */
    size_t blocked;                              /* threads inside a blocking call; rpc.c counts them */
};

void etcd_loop_open(struct etcd_loop *loop);
/* Adds a ticker, before the loop is started. */
void etcd_loop_add(struct etcd_loop *loop, struct etcd_ticker *ticker);
/* False: the thread could not be started. */
bool etcd_loop_start(struct etcd_loop *loop);
/* Cancels all unary calls, and also those that start later. Blocks until none is in flight and no thread is
 * blocked. */
void etcd_loop_cancel_calls(struct etcd_loop *loop);
/* Blocks until all batches are done. No batch may be started any more: gRPC would abort the process. Not from
 * the loop. */
void etcd_loop_stop(struct etcd_loop *loop);
/* After the loop has been stopped. */
void etcd_loop_close(struct etcd_loop *loop);

/* Makes all tickers run soon. Any thread may call it. */
void etcd_loop_wake(struct etcd_loop *loop);

/* A call without operations yet. */
grpc_call *etcd_loop_new_call(struct etcd_loop *loop, grpc_channel *channel, const char *path,
                              int64_t deadline_ns);

/* What gRPC's status of a call means for its caller. */
struct etcd_verdict {
    enum etcd_status status;
    bool harmless;  /* the server did nothing */
    bool elsewhere; /* another member may succeed */
    bool silent;    /* the member did not answer at all */
    bool new_token; /* the call may succeed with another token */
};

/* `code` and `text` are gRPC's status code and its description. */
struct etcd_verdict etcd_status_judge(int code, const char *text);

/* A unary call: one request to one member, and one answer. */
enum { ETCD_UNARY_OPS = 6, ETCD_METADATA_MAX = 2 };

struct etcd_unary {
    /* The loop calls it when the call has ended. It can read the next three members. It calls
     * etcd_unary_free(), or leaves that to another thread. */
    void (*on_done)(struct etcd_unary *unary);
    struct etcd_verdict verdict;
    char *text;               /* the server's description of the status */
    grpc_byte_buffer *answer; /* NULL: none */

    grpc_metadata metadata[ETCD_METADATA_MAX]; /* sent with the request */
    size_t metadata_count;

    /* What starts the call: grpc_call_start_batch(call, ops, ETCD_UNARY_OPS, &tag, NULL). */
    grpc_call *call;
    grpc_op ops[ETCD_UNARY_OPS];
    struct etcd_tag tag;

    /* Private to grpc_loop.c. */
    struct etcd_loop *loop;
    LIST_ENTRY(etcd_unary) in_flight;
    grpc_byte_buffer *request;
    grpc_metadata_array initial, trailing;
    grpc_status_code code;
    grpc_slice details;
};

/* Prepares a call to a connected member; the caller must start it then. The caller has set `on_done` and the
 * metadata, and zeroed the rest; it keeps its reference to `request`. If the client is closing, the call ends
 * as soon as it is started. */
void etcd_unary_prepare(struct etcd_unary *unary, struct etcd_loop *loop, grpc_channel *channel,
                        const char *path, grpc_slice request, int64_t deadline_ns);
/* Frees what the call holds, and its metadata. After the call has ended. */
void etcd_unary_free(struct etcd_unary *unary);

/* ---- endpoints.c: a channel to each member, and the choice of one ---- */

enum {
    ETCD_ENDPOINTS_MAX = 16,
    ETCD_TARGET_SIZE = 272,
    ETCD_FAIR_MS = 300, /* a member that had less time to answer does not count as silent */
};

struct etcd_endpoint {
    char target[ETCD_TARGET_SIZE];
    const char *address; /* HOST:PORT, a part of `target` */
    grpc_channel *channel;
    _Atomic int64_t shunned_until_ns; /* it did not answer: others are preferred */
};

struct etcd_endpoints {
    size_t count;
    _Atomic size_t current; /* the one in use; it stays as long as it answers */
    struct etcd_endpoint each[ETCD_ENDPOINTS_MAX];
};

/* Does not connect; the first pick does. False and `error`: the configuration is wrong. The caller closes the
 * endpoints in either case. */
bool etcd_endpoints_open(struct etcd_endpoints *endpoints, const struct etcd_config *config, char *error,
                         size_t error_size);
void etcd_endpoints_close(struct etcd_endpoints *endpoints);
/* Returns a connected endpoint, counted from 0; -1: none is connected, and all of them are connecting. Does
 * not block. */
int etcd_endpoints_pick(struct etcd_endpoints *endpoints);
/* True: it is connected. False: it is connecting. */
bool etcd_endpoint_is_ready(struct etcd_endpoint *endpoint);
/* The endpoint failed: the next pick prefers another one. `silent`: it did not answer at all, and all picks
 * of the next five seconds prefer others. */
void etcd_endpoints_fail(struct etcd_endpoints *endpoints, int at, bool silent);
/* True: the endpoint was silent lately, and another one is connected. */
bool etcd_endpoints_should_leave(struct etcd_endpoints *endpoints, int at);

/* ---- auth.c: logins ---- */

/* Authentication: a login yields a token, every call sends the token, and another login replaces a token that
 * a member refused. */
struct etcd_auth {
    char *user, *password; /* NULL: no authentication */
    pthread_mutex_t mutex; /* protects the rest */
    pthread_cond_t login_ended;
    char *token;                 /* NULL: none yet, or the server needs none */
    uint64_t token_number;       /* logins that succeeded */
    uint64_t logins;             /* logins that ended */
    bool logging_in;             /* a login is in flight: */
    struct etcd_unary login;     /* its call, */
    int endpoint;                /* its member, */
    int64_t began_ns;            /* and its start */
    struct etcd_verdict verdict; /* of the login that ended last */
    char error[ETCD_ERROR_SIZE]; /* likewise */
};

/* Fills `metadata` for one call. `leader`: only a member that knows a leader shall answer. Adds the token, if
 * there is one, and stores its number. Returns the count; the caller unrefs the values. */
size_t etcd_auth_metadata(struct etcd_auth *auth, bool leader, grpc_metadata metadata[ETCD_METADATA_MAX],
                          uint64_t *number);

/* A client that has a user needs a login while its newest token is the `refused` one (0: it has no token
 * yet). The function returns true if that is so, and begins a login at the member at `endpoint` unless one is
 * in flight. Does not block; the end of the login wakes the loop. */
bool etcd_auth_begin_login(struct etcd *etcd, uint64_t refused, int endpoint, int64_t deadline_ns);
/* Logs in if a login is needed, and blocks until it ends; but until `wait_until_ns` at most for a login that
 * another thread began. On failure `error` says why. The verdict is harmless: a login changes nothing. */
struct etcd_verdict etcd_auth_log_in(struct etcd *etcd, uint64_t refused, int endpoint, int64_t deadline_ns,
                                     int64_t wait_until_ns, char error[ETCD_ERROR_SIZE]);

/* ---- rpc.c: blocking calls ---- */

struct etcd_method {
    const char *path;
    const ProtobufCMessageDescriptor *response;
    size_t result_size; /* size of `result` in the answer */
    size_t only_member; /* ask only this endpoint, counted from 1; 0: any */
    bool reads;         /* changes nothing, so it may be repeated at any member */
    bool leaderless;    /* members that know no leader answer it too */
    bool waits;         /* may rightly take until the deadline: a silent member is not at fault */
};

/* Calls `method` with `request`: chooses members, repeats what may be repeated, and knows when the outcome is
 * unknown. Blocks until the end. On ETCD_OK `*answer` has the unpacked message, and the caller frees it with
 * etcd_answer_free(). `answer` NULL: the caller does not want it. */
enum etcd_status etcd_rpc(struct etcd *etcd, const struct etcd_method *method,
                          const ProtobufCMessage *request, const struct etcd_call *call,
                          struct etcd_answer **answer);
/* Writes `text` into the call's `error`, if it has one. */
void etcd_call_explain(const struct etcd_call *call, const char *text);
/* The status of a call whose answer cannot be unpacked, perhaps for want of memory: ETCD_FAILED; for a write
 * ETCD_UNKNOWN, since the server may have done it. */
enum etcd_status etcd_rpc_unreadable(const struct etcd_method *method, const struct etcd_call *call);

/* ---- shared_stream.c: one stream for all watches of a client, and one for all its keepalives ----
 *
 * When a stream breaks, the client opens another one, at another member if it can. */

struct etcd_shared_stream;

/* What a stream carries. The loop calls all but destroy(), with the mutex held. */
struct etcd_shared_stream_kind {
    const char *path;
    size_t size; /* size of the kind's struct, which begins with the shared stream */
    void (*on_open)(struct etcd_shared_stream *shared); /* nothing has been sent on the stream yet */
    void (*on_broken)(struct etcd_shared_stream *shared);
    /* May release the mutex meanwhile. */
    void (*on_message)(struct etcd_shared_stream *shared, struct etcd_answer *answer);
    /* Does what is due, and returns when to call it next. May be NULL. May release the mutex meanwhile. */
    int64_t (*tick)(struct etcd_shared_stream *shared, int64_t now_ns);
    void (*destroy)(struct etcd_shared_stream *shared); /* frees the data of the kind */
};

extern const struct etcd_shared_stream_kind etcd_watch_stream_kind, etcd_keepalive_stream_kind;

struct etcd_shared_stream {
    const struct etcd_shared_stream_kind *kind;
    struct etcd *etcd;
    struct etcd_ticker ticker;
    pthread_mutex_t mutex;  /* protects what follows, and the data of the kind */
    pthread_cond_t changed; /* the stream, or a callback to the user, has ended */
    const void *calling;    /* the watch or keepalive whose callback is running */
    size_t wanted;          /* watches or keepalives that need the stream; the kind counts them */
    bool stopping;
    int endpoint;           /* of the stream */
    uint64_t token_number;  /* the token that the stream was opened with */
    uint64_t refused_token; /* not to be used again; 0: none */
    int64_t retry_ns;       /* open no stream before then */
    int64_t opened_ns;      /* when the newest stream was opened */
    int fails;              /* streams that have failed since one last held for a while */

    /* The stream. Private to shared_stream.c. */
    grpc_call *call;                       /* NULL: there is no stream */
    bool broken;                           /* it is cancelled, and about to end */
    bool over;                             /* the server has ended it: send nothing any more */
    int pending;                           /* batches in flight */
    struct etcd_tag received, ended, sent; /* at most one batch of each is in flight */
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *incoming;
    grpc_status_code code;
    grpc_slice details;
    STAILQ_HEAD(etcd_shared_stream_messages, etcd_shared_stream_message) unsent; /* the first is in flight */
};

/* Returns the kind's struct, zeroed but for its beginning, and adds its ticker to the loop. NULL: out of
 * memory. */
struct etcd_shared_stream *etcd_shared_stream_new(const struct etcd_shared_stream_kind *kind,
                                                  struct etcd *etcd);
/* Ends the stream, and blocks until it and the last callback have ended. Not from the loop. */
void etcd_shared_stream_stop(struct etcd_shared_stream *shared);
/* After the loop has ended. NULL does nothing. */
void etcd_shared_stream_free(struct etcd_shared_stream *shared);

/* The rest is called with the mutex held. */

/* True: there is a stream that takes messages. */
bool etcd_shared_stream_is_open(const struct etcd_shared_stream *shared);
/* Sends a message on the stream, which must exist. Messages leave in the order of these calls. */
void etcd_shared_stream_send(struct etcd_shared_stream *shared, const ProtobufCMessage *message);
/* Leaves the stream, which must exist, for another one. The kind hears no more of the old stream but
 * on_broken(). */
void etcd_shared_stream_break(struct etcd_shared_stream *shared);

/* The loop calls these two before and after the user's callback for `object`, a watch or keepalive: the first
 * releases the mutex, the second locks it again. */
void etcd_shared_stream_enter_user(struct etcd_shared_stream *shared, const void *object);
void etcd_shared_stream_leave_user(struct etcd_shared_stream *shared);
/* Blocks until no callback for `object` is running. Called by the loop it returns at once. */
void etcd_shared_stream_quiesce(struct etcd_shared_stream *shared, const void *object);

/* ---- the client, which etcd_client.c opens and closes ---- */

struct etcd {
    struct etcd_endpoints endpoints;
    struct etcd_loop loop;
    struct etcd_auth auth;
    struct etcd_shared_stream *watches, *keepalives;
    int64_t timeout_ns;                                               /* of calls without a deadline */
    void (*on_error)(void *ctx, const char *member, const char *why); /* may be NULL */
    void *ctx;
};

#endif
