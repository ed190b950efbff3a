/* libetcd: a client of etcd, for its v3 API (3.4 and newer), on gRPC core.
 *
 *     #include <etcd/etcd.h>
 *     #include <stdio.h>
 *
 *     int main(int argc, char **argv) {
 *         char error[ETCD_ERROR_SIZE] = "which etcd?";
 *         struct etcd_config config = {.endpoints = argc > 1 ? argv[1] : ""};
 *         struct etcd *etcd;
 *         if (etcd_open(&config, &etcd, error, sizeof error) != ETCD_OK)
 *             return fprintf(stderr, "%s\n", error), 2;
 *         struct etcd_call call = {.error = error, .error_size = sizeof error};
 *         struct etcd_put put = {.key = etcd_text("lamp"), .value = etcd_text("on")};
 *         struct etcd_range range = {.key = etcd_text("lamp")};
 *         struct etcd_reply *reply = NULL;
 *         enum etcd_status status = etcd_put(etcd, &put, &call, NULL);
 *         if (status == ETCD_OK)
 *             status = etcd_range(etcd, &range, &call, &reply);
 *         if (status == ETCD_OK && reply->kv_count == 1)
 *             printf("%.*s\n", (int)reply->kvs[0].value.size, (const char *)reply->kvs[0].value.data);
 *         if (status != ETCD_OK)
 *             fprintf(stderr, "%s: %s\n", etcd_status_text(status), error);
 *         etcd_reply_free(reply);
 *         etcd_close(etcd);
 *         return status != ETCD_OK;
 *     }
 *
 * Members. A client has one or several endpoints, which are members of one cluster.
 * - It uses one member as long as it is connected to it; otherwise it connects to all.
 * - It leaves a member that cannot be reached, has no leader, or does not answer.
 * - A client that only watches notices within ten seconds that its member has vanished. One that keeps leases
 *   alive notices it within a quarter of their time to live.
 * - It repeats a read at other members until the deadline.
 * - It never repeats a write that may have reached a member, unless the caller marks the write idempotent.
 *   Such a write ends as ETCD_UNKNOWN.
 * - It repeats a write that did nothing: no member was connected, or the member answered that it has no
 *   leader.
 *
 * Threads.
 * - Any thread may call any function, except etcd_close(). A signal handler may call none.
 * - A call that takes a struct etcd_call blocks until it is answered or its deadline passes.
 * - A client has one thread of its own, the loop. gRPC has some more, which all clients share. None of them
 *   takes signals, with one exception: under load gRPC can add threads within a call, and these take the
 *   signals that the calling thread takes. (If the program itself has started gRPC before, gRPC's threads are
 *   as the program started them.)
 * - The loop calls the callbacks of watches and keepalives, one at a time. A callback may start and cancel
 *   watches, and drop keepalives. It must not block, since the loop does nothing else meanwhile, and must not
 *   make blocking calls of the same client, which would wait for themselves.
 * - A process that forks opens its clients after the fork.
 *
 * Memory. A call reads its arguments only while it runs. The arguments of a callback live until the callback
 * returns. Every pointer that is freed or closed may be NULL.
 *
 * The library never logs or exits. gRPC would log; the library silences it for the whole process unless
 * GRPC_VERBOSITY is set.
 *
 * To link: -letcd; or with libetcd.a: -letcd -lgrpc -lgpr -lprotobuf-c -pthread. Times are nanoseconds of
 * CLOCK_MONOTONIC, unless a name says otherwise. */
#ifndef LIBETCD_ETCD_H
#define LIBETCD_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* libetcd.so exports what is declared from here on, and hides the rest (-fvisibility=hidden). */
#pragma GCC visibility push(default)

enum { ETCD_ERROR_SIZE = 512 };

enum etcd_status {
    ETCD_OK,
    ETCD_UNKNOWN, /* a write was sent, and no answer that can be read has come: the server did it, did not, or
                     will do it */
    ETCD_UNAVAILABLE, /* no member that has a leader can be reached; nothing was done */
    ETCD_TIMEOUT,     /* the deadline passed; nothing was done */
    ETCD_CANCELLED,   /* etcd_close() ended the call; a write may have been done */
    ETCD_NOT_FOUND,   /* the lease does not exist, or has expired */
    ETCD_EXISTS,      /* the lease exists already */
    ETCD_COMPACTED,   /* the store has forgotten the revision */
    ETCD_FUTURE,      /* the revision is newer than the store's */
    ETCD_DENIED,      /* wrong user or password, or the user lacks the permission */
    ETCD_INVALID,     /* the request itself is wrong */
    ETCD_EXHAUSTED,   /* no space left in the store, or too many requests */
    ETCD_FAILED,      /* any other error */
    ETCD_CONFIG,      /* the configuration is wrong */
    ETCD_NOMEM,
    ETCD_STATUSES
};

/* "ok", "unknown", … */
const char *etcd_status_text(enum etcd_status status);

struct etcd;

/* Any bytes; `size` may be 0. */
struct etcd_bytes {
    const void *data;
    size_t size;
};

/* The bytes of a text, without its NUL. */
static inline struct etcd_bytes etcd_text(const char *text) {
    struct etcd_bytes bytes = {text, strlen(text)};
    return bytes;
}

/* ---- clients ---- */

struct etcd_config {
    /* HOST[:PORT],HOST[:PORT],…, at most 16. The default port is 2379; an IPv6 address is [ADDRESS]:PORT. */
    const char *endpoints;
    /* NULL: no authentication. */
    const char *user, *password;
    /* `ca_file` turns TLS on: its authorities sign the members' certificates. The other two, both or none,
     * are this client's certificate and its key. All are PEM files, and etcd_open() reads them. */
    const char *ca_file, *cert_file, *key_file;
    /* For calls without a deadline; 0: 5,000. */
    int64_t timeout_ms;
    /* May be NULL. The calling thread runs it when a call ends because no member could be reached, answered,
     * or carried it out. `member` is the member that was asked last, as HOST:PORT. */
    void (*on_error)(void *ctx, const char *member, const char *why);
    void *ctx;
};

/* Opens a client; copies `config`. No member needs to run yet. On failure ETCD_CONFIG or ETCD_NOMEM: `*etcd`
 * is untouched, and `error` says what is wrong (never the password). */
enum etcd_status etcd_open(const struct etcd_config *config, struct etcd **etcd, char *error,
                           size_t error_size);

/* Ends the calls of other threads with ETCD_CANCELLED, and waits for them; no call may begin any more.
 * Watches and keepalives end without a callback, and are freed; the leases expire at the server. Not from a
 * callback. */
void etcd_close(struct etcd *etcd);

/* Options of a call. A function that takes one takes NULL too. */
struct etcd_call {
    int64_t deadline_ns; /* 0: now plus the client's time-out */
    bool idempotent;     /* a write that may be done twice: it is repeated like a read */
    char *error;         /* may be NULL; says what went wrong; untouched on success */
    size_t error_size;
    /* May be NULL. Called every few milliseconds while the call blocks. True ends the call: a write that was
     * sent as ETCD_UNKNOWN, anything else as ETCD_TIMEOUT. (The wait for a login ends only with the
     * deadline.) */
    bool (*gives_up)(void *ctx);
    /* May be NULL. Called when the call has read its arguments: the caller may free the operation. */
    void (*on_read)(void *ctx);
    void *ctx; /* for both */
};

/* ---- keys and values ----
 *
 * A key range is one key (`end` is empty), [key, end), or with `prefix` all keys that begin with `key` (all
 * keys of the store, if `key` is empty). */

enum etcd_order { ETCD_ORDER_NONE, ETCD_ASCENDING, ETCD_DESCENDING };
enum etcd_target { ETCD_KEY, ETCD_VERSION, ETCD_CREATE_REVISION, ETCD_MOD_REVISION, ETCD_VALUE, ETCD_LEASE };

struct etcd_range {
    struct etcd_bytes key, end;
    bool prefix;
    int64_t limit;         /* 0: none */
    int64_t revision;      /* read at this revision; 0: the newest */
    enum etcd_order order; /* by `sort_by`, any but ETCD_LEASE */
    enum etcd_target sort_by;
    bool serializable; /* read what this member has, which may be old; needs no leader */
    bool keys_only, count_only;
    int64_t min_mod_revision, max_mod_revision, min_create_revision, max_create_revision; /* 0: none */
};

struct etcd_put {
    struct etcd_bytes key, value;
    int64_t lease;                   /* the key is deleted with it; 0: none */
    bool prev;                       /* reply with the previous value */
    bool ignore_value, ignore_lease; /* keep the present one; the key must exist */
};

struct etcd_delete {
    struct etcd_bytes key, end;
    bool prefix;
    bool prev; /* reply with what was deleted */
};

enum etcd_relation { ETCD_EQUAL, ETCD_GREATER, ETCD_LESS, ETCD_NOT_EQUAL };

/* True if it holds for each key of the range. A key that does not exist has 0 for all numbers. */
struct etcd_compare {
    struct etcd_bytes key, end;
    bool prefix;
    enum etcd_target target; /* not ETCD_KEY */
    enum etcd_relation relation;
    int64_t number;          /* what to compare with */
    struct etcd_bytes value; /* … if the target is ETCD_VALUE */
};

/* A transaction does `then` if all compares hold, else `otherwise`, at one revision. It must not put a key
 * twice. The server evaluates the compares of nested transactions too before it writes anything. */
struct etcd_txn {
    const struct etcd_compare *compares;
    size_t compare_count;
    const struct etcd_op *then;
    size_t then_count;
    const struct etcd_op *otherwise;
    size_t otherwise_count;
};

enum etcd_kind { ETCD_RANGE, ETCD_PUT, ETCD_DELETE, ETCD_TXN };

struct etcd_op {
    enum etcd_kind kind;
    union {
        struct etcd_range range;
        struct etcd_put put;
        struct etcd_delete del;
        struct etcd_txn txn;
    };
};

struct etcd_kv {
    struct etcd_bytes key, value;
    int64_t create_revision, mod_revision, version, lease;
};

struct etcd_reply {
    enum etcd_kind kind;
    int64_t revision;                          /* the store's at the answer; inside a txn: 0 */
    uint64_t cluster_id, member_id, raft_term; /* likewise */
    /* What was found; for a put or delete with `prev`, what was there before. */
    struct etcd_kv *kvs;
    size_t kv_count;
    int64_t count;              /* range: matching keys, whatever the limit; delete: deleted keys */
    bool more;                  /* range: there are more keys than the limit */
    bool succeeded;             /* txn: `then` was done */
    struct etcd_reply *replies; /* txn: one for each operation that was done */
    size_t reply_count;
};

/* Each blocks. `reply` may be NULL; `*reply` is untouched unless ETCD_OK. */
enum etcd_status etcd_range(struct etcd *etcd, const struct etcd_range *range, const struct etcd_call *call,
                            struct etcd_reply **reply);
enum etcd_status etcd_put(struct etcd *etcd, const struct etcd_put *put, const struct etcd_call *call,
                          struct etcd_reply **reply);
enum etcd_status etcd_delete(struct etcd *etcd, const struct etcd_delete *del, const struct etcd_call *call,
                             struct etcd_reply **reply);
enum etcd_status etcd_txn(struct etcd *etcd, const struct etcd_txn *txn, const struct etcd_call *call,
                          struct etcd_reply **reply);
/* Any of the four. */
enum etcd_status etcd_do(struct etcd *etcd, const struct etcd_op *op, const struct etcd_call *call,
                         struct etcd_reply **reply);
/* Frees a reply with everything in it. */
void etcd_reply_free(struct etcd_reply *reply);

/* Makes the store forget the revisions before `revision`. `physical`: waits until the space is free. */
enum etcd_status etcd_compact(struct etcd *etcd, int64_t revision, bool physical,
                              const struct etcd_call *call);

/* ---- leases ---- */

/* The server may grant more seconds than requested (version 3.4: at least 2 with default settings). `id` 0:
 * the server chooses one. ETCD_EXISTS if the id is taken. */
enum etcd_status etcd_lease_grant(struct etcd *etcd, int64_t ttl_s, int64_t id, const struct etcd_call *call,
                                  int64_t *granted_id, int64_t *granted_ttl_s);
/* Ends a lease, and deletes all its keys. ETCD_NOT_FOUND if the lease did not exist any more. */
enum etcd_status etcd_lease_revoke(struct etcd *etcd, int64_t id, const struct etcd_call *call);

struct etcd_lease_info {
    int64_t ttl_s; /* the seconds that are left, rounded down: 0 in the last second, until it is revoked */
    int64_t granted_ttl_s;
    struct etcd_bytes *keys; /* if requested */
    size_t key_count;
};

/* Reads the time to live. ETCD_NOT_FOUND if the lease has expired. The caller frees `*info` with
 * etcd_lease_info_free(). */
enum etcd_status etcd_lease_time_to_live(struct etcd *etcd, int64_t id, bool keys,
                                         const struct etcd_call *call, struct etcd_lease_info **info);
void etcd_lease_info_free(struct etcd_lease_info *info);

/* A keepalive: the client renews a lease. All keepalives of a client share one stream, which moves to another
 * member when one fails. */
struct etcd_keep;

/* Renews the lease `id` every `every_ms` (at least 10) until etcd_keep_drop() or etcd_close(). `granted_ns`:
 * a time before the grant was requested; `ttl_s`: the granted time to live. A renewal counts from when it was
 * sent, once it is answered. The loop calls `on_lost` once, if the lease is gone or if its time to live has
 * passed since the last renewal. ETCD_OK or ETCD_NOMEM; does not block. */
enum etcd_status etcd_keep(struct etcd *etcd, int64_t id, int64_t ttl_s, int64_t granted_ns, int64_t every_ms,
                           void (*on_lost)(void *ctx, int64_t id), void *ctx, struct etcd_keep **keep);
/* Returns the time until which the lease lives: its time to live after the last renewal. 0 once it is lost. A
 * deposed leader can go on renewing beside its successor for an election time-out: leave a margin for that if
 * the lease guards something. */
int64_t etcd_keep_deadline_ns(const struct etcd_keep *keep);
/* Ends the renewals; the lease expires, unless the caller revokes it. No callback follows the return, unless
 * a callback made this call. */
void etcd_keep_drop(struct etcd_keep *keep);

/* ---- watches ---- */

enum etcd_watch_kind {
    ETCD_WATCH_CREATED,  /* the server has the watch: all events after `revision` will come. Comes again
                            after each resume */
    ETCD_WATCH_EVENTS,   /* what changed, in order */
    ETCD_WATCH_PROGRESS, /* all events up to `revision` have come */
    /* These two are the last callback. The watch is over, and still has to be cancelled. */
    ETCD_WATCH_COMPACTED, /* events up to `revision` may be lost: the store has forgotten them. Read the keys
                             again, and watch from the next revision */
    ETCD_WATCH_ENDED,     /* the server has ended it: `status` and `reason` say why */
};

struct etcd_event {
    bool deleted;
    struct etcd_kv kv;          /* of a deleted key: only key and mod_revision */
    const struct etcd_kv *prev; /* what was there before; NULL: nothing, compacted, or not requested */
};

struct etcd_watch_event {
    enum etcd_watch_kind kind;
    int64_t revision;
    const struct etcd_event *events;
    size_t count;
    enum etcd_status status;
    const char *reason;
};

struct etcd_watch_config {
    struct etcd_bytes key, end;
    bool prefix;
    int64_t revision; /* the first one to report; 0: the next one when the watch is created */
    bool prev;
    bool no_puts, no_deletes;
    bool progress; /* report progress every ten minutes or so, also when nothing happens */
    bool fragment; /* let the server split large answers; the client joins them */
    void (*on_event)(void *ctx, const struct etcd_watch_event *event);
    void *ctx;
};

struct etcd_watch;

/* All watches of a client share one stream. When it breaks they are resumed at the next member, after the
 * last revision that they reported: no event is lost, and none comes twice. The server serves a watch from
 * "now" at once, and one from a past revision in a loop that runs every 100 ms. ETCD_OK or ETCD_NOMEM; does
 * not block, and starts once a member is connected. */
enum etcd_status etcd_watch(struct etcd *etcd, const struct etcd_watch_config *config,
                            struct etcd_watch **watch);
/* No callback follows the return, unless a callback made this call. */
void etcd_watch_cancel(struct etcd_watch *watch);

/* ---- the cluster ---- */

struct etcd_member {
    uint64_t id;
    const char *name; /* "": it has not started yet */
    const char **peer_urls, **client_urls;
    size_t peer_url_count, client_url_count;
    bool is_learner;
};

struct etcd_members {
    struct etcd_member *members;
    size_t count;
};

/* Lists the members of the cluster. The caller frees `*members` with etcd_members_free(). */
enum etcd_status etcd_member_list(struct etcd *etcd, const struct etcd_call *call,
                                  struct etcd_members **members);
void etcd_members_free(struct etcd_members *members);

struct etcd_member_status {
    uint64_t member_id, leader_id; /* leader 0: it knows none */
    uint64_t raft_term, raft_index, raft_applied_index;
    int64_t revision, db_size, db_size_in_use;
    bool is_learner;
    char version[32];
};

/* Reads the status of one member, and asks no other. `endpoint`: its place in the configuration, counted
 * from 0. */
enum etcd_status etcd_member_status(struct etcd *etcd, size_t endpoint, const struct etcd_call *call,
                                    struct etcd_member_status *out);
/* The number of endpoints in the configuration. */
size_t etcd_endpoint_count(const struct etcd *etcd);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
