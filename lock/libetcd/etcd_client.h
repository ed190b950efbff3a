/* The parts of a client, and what the files of libetcd offer each other: endpoints.c, grpc_status.c, auth.c
 * and rpc.c. Not for users. */
#ifndef LOCK_LIBETCD_ETCD_CLIENT_H
#define LOCK_LIBETCD_ETCD_CLIENT_H

#include "lock/libetcd/etcd.h"
#include "lock/libetcd/grpc_loop.h"
#include "lock/libetcd/message.h"

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

/* ---- grpc_status.c: what gRPC's status of a call means for its caller ---- */

struct etcd_verdict {
    enum etcd_status status;
    bool harmless;  /* the server did nothing */
    bool elsewhere; /* another member may succeed */
    bool silent;    /* the member did not answer at all */
    bool new_token; /* the call may succeed with another token */
};

/* `code` and `text` are gRPC's status code and its description. */
struct etcd_verdict etcd_status_judge(int code, const char *text);

/* ---- the client ---- */

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

struct etcd {
    struct etcd_endpoints endpoints;
    struct etcd_loop loop;
    struct etcd_auth auth;
    struct etcd_shared_stream *watches, *keepalives;
    int64_t timeout_ns;                                               /* of calls without a deadline */
    void (*on_error)(void *ctx, const char *member, const char *why); /* may be NULL */
    void *ctx;
};

/* ---- auth.c: logins ---- */

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

#endif
