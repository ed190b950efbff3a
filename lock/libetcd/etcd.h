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
 * Members. A client knows one or several endpoints, members of one cluster, and talks to one of them at a
 * time, as long as it is connected to it; when it is not, it connects to all. A member that cannot be
 * reached, has no leader, or does not answer is left for the next one; a watch alone notices that a member
 * has gone without a word within ten seconds, a kept lease within a quarter of its time to live. What reads
 * is asked again elsewhere until its deadline. A write that may have reached a member is never repeated by
 * itself: it is ETCD_UNKNOWN, unless the caller says that it is idempotent. A write that surely did nothing
 * (no member was connected, or the one asked said that it has no leader) is tried again.
 *
 * Threads. Every function may be called from any thread, but for etcd_close(); none from a signal handler. A
 * client has one thread of its own, the loop, which takes no signals; gRPC has some more. Calls that take a
 * struct etcd_call block until they are answered or their deadline passes. Callbacks (of watches and of
 * leases that are kept) come from the loop, one at a time: they must not block, since nothing else is heard
 * meanwhile, and must not make blocking calls to the same client, which would wait for themselves. They may
 * begin and cancel watches and drop leases. Nothing here logs or exits; gRPC, which would log, is silenced
 * for the whole process unless GRPC_VERBOSITY is set. A process that forks opens its clients after that.
 *
 * Memory. What is given to a call is only looked at during the call. What a callback is given is gone when it
 * returns.
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
    ETCD_UNKNOWN,     /* a write was sent and not answered, or its answer cannot be read: it was done, or was
                         not, or will be */
    ETCD_UNAVAILABLE, /* no member can be reached that has a leader; nothing was done */
    ETCD_TIMEOUT,     /* the deadline passed; nothing was done */
    ETCD_CANCELLED,   /* etcd_close() came first; of a write it is not known whether it was done */
    ETCD_NOT_FOUND,   /* there is no such lease, or it has run out */
    ETCD_EXISTS,      /* there is such a lease already */
    ETCD_COMPACTED,   /* the revision is older than what the store keeps */
    ETCD_FUTURE,      /* the revision is newer than the store's */
    ETCD_DENIED,      /* the user, the password, or what the user may do */
    ETCD_INVALID,     /* a request that the server refuses as such */
    ETCD_EXHAUSTED,   /* no space left in the store, or too many requests */
    ETCD_FAILED,      /* any other answer that is an error */
    ETCD_CONFIG,      /* a configuration that is not valid */
    ETCD_NOMEM,
    ETCD_STATUSES
};

/* "ok", "unknown", … */
const char *etcd_status_text(enum etcd_status status);

struct etcd;

/* Any bytes, also none. */
struct etcd_bytes {
    const void *data;
    size_t size;
};

/* A text without its end. */
static inline struct etcd_bytes etcd_text(const char *text) {
    struct etcd_bytes bytes = {text, strlen(text)};
    return bytes;
}

/* ---- clients ---- */

struct etcd_config {
    /* HOST[:PORT],HOST[:PORT],…, with port 2379 unless said, and [ADDRESS]:PORT for IPv6; at most 16. */
    const char *endpoints;
    /* NULL: no authentication. */
    const char *user, *password;
    /* TLS where `ca_file` is set: who may have signed the members' certificates. The other two, both or none:
     * this client's own certificate and its key. All are PEM files, read by etcd_open(). */
    const char *ca_file, *cert_file, *key_file;
    /* Of calls without a deadline of their own; 0: 5,000. */
    int64_t timeout_ms;
    /* If not NULL, called by the thread whose call ends since no member could be reached, or answered, or
     * would do it: the one that was asked last, as HOST:PORT, and why. */
    void (*on_error)(void *ctx, const char *member, const char *why);
    void *ctx;
};

/* Opens a client; `config` is copied. No member needs to be there yet. On failure ETCD_CONFIG or ETCD_NOMEM,
 * `*etcd` untouched, and in `error` what is wrong (never the password). */
enum etcd_status etcd_open(const struct etcd_config *config, struct etcd **etcd, char *error,
                           size_t error_size);

/* Calls of other threads that are under way end with ETCD_CANCELLED, and are waited for; none may begin any
 * more. Watches and kept leases end without a callback, and are freed; the leases themselves run out by
 * themselves. Not from a callback. NULL is fine. */
void etcd_close(struct etcd *etcd);

/* How a call is made; wherever one is taken it may be NULL. */
struct etcd_call {
    int64_t deadline_ns; /* 0: as the client is configured */
    bool idempotent;     /* a write that may be done twice: it is repeated as a read is */
    char *error;         /* if not NULL: what went wrong, in words; untouched if nothing did */
    size_t error_size;
    /* If not NULL, asked every few milliseconds while the call blocks: true ends it, a write that was sent as
     * ETCD_UNKNOWN, anything else as ETCD_TIMEOUT. (A login that is waited for ends with the deadline.) */
    bool (*gives_up)(void *ctx);
    /* If not NULL, of an operation on keys: called when what it was given has been read, and may go. */
    void (*on_read)(void *ctx);
    void *ctx; /* of both */
};

/* ---- keys and values ----
 *
 * A key range is one key (`end` empty), [key, end), or with `prefix` all keys that begin with `key` (with an
 * empty one: all there are). */

enum etcd_order { ETCD_ORDER_NONE, ETCD_ASCENDING, ETCD_DESCENDING };
enum etcd_target { ETCD_KEY, ETCD_VERSION, ETCD_CREATE_REVISION, ETCD_MOD_REVISION, ETCD_VALUE, ETCD_LEASE };

struct etcd_range {
    struct etcd_bytes key, end;
    bool prefix;
    int64_t limit;         /* 0: none */
    int64_t revision;      /* as of then; 0: now */
    enum etcd_order order; /* by `sort_by`, which cannot be ETCD_LEASE */
    enum etcd_target sort_by;
    bool serializable; /* whatever the member asked knows, which may be old; no leader is needed */
    bool keys_only, count_only;
    int64_t min_mod_revision, max_mod_revision, min_create_revision, max_create_revision; /* 0: none */
};

struct etcd_put {
    struct etcd_bytes key, value;
    int64_t lease;                   /* the key goes when it does; 0: stays */
    bool prev;                       /* answer with what was there before */
    bool ignore_value, ignore_lease; /* leave it as it is; the key must be there */
};

struct etcd_delete {
    struct etcd_bytes key, end;
    bool prefix;
    bool prev; /* answer with what was deleted */
};

enum etcd_relation { ETCD_EQUAL, ETCD_GREATER, ETCD_LESS, ETCD_NOT_EQUAL };

/* True where it holds for each key of the range; a key that is not there has 0 for all numbers. */
struct etcd_compare {
    struct etcd_bytes key, end;
    bool prefix;
    enum etcd_target target; /* not ETCD_KEY */
    enum etcd_relation relation;
    int64_t number;          /* what to compare with */
    struct etcd_bytes value; /* … where the target is ETCD_VALUE */
};

/* If all compares hold `then`, or `otherwise`: all of it at one revision. No key may be put twice. What is
 * nested compares before anything is written. */
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
    int64_t revision;                          /* the store's when it answered; of what is inside a txn: 0 */
    uint64_t cluster_id, member_id, raft_term; /* likewise */
    /* Found; or, of a put or delete with `prev`, what was there before. */
    struct etcd_kv *kvs;
    size_t kv_count;
    int64_t count;  /* range: how many there are, whatever the limit; delete: how many there were */
    bool more;      /* range: there are more than the limit */
    bool succeeded; /* txn: `then` was done */
    struct etcd_reply *replies; /* txn: one for each op that was done */
    size_t reply_count;
};

/* Each blocks; `*reply` is untouched unless ETCD_OK, and may be NULL where it is not wanted. */
enum etcd_status etcd_range(struct etcd *etcd, const struct etcd_range *range, const struct etcd_call *call,
                            struct etcd_reply **reply);
enum etcd_status etcd_put(struct etcd *etcd, const struct etcd_put *put, const struct etcd_call *call,
                          struct etcd_reply **reply);
enum etcd_status etcd_delete(struct etcd *etcd, const struct etcd_delete *del, const struct etcd_call *call,
                             struct etcd_reply **reply);
enum etcd_status etcd_txn(struct etcd *etcd, const struct etcd_txn *txn, const struct etcd_call *call,
                          struct etcd_reply **reply);
/* Whichever of the four it is. */
enum etcd_status etcd_do(struct etcd *etcd, const struct etcd_op *op, const struct etcd_call *call,
                         struct etcd_reply **reply);
/* With all that is in it. NULL is fine. */
void etcd_reply_free(struct etcd_reply *reply);

/* Forgets what was before `revision`; `physical`: answers when the space is free. */
enum etcd_status etcd_compact(struct etcd *etcd, int64_t revision, bool physical,
                              const struct etcd_call *call);

/* ---- leases ---- */

/* The server may give more seconds than asked for (3.4: at least 2 with its usual settings). `id` 0: the
 * server chooses. ETCD_EXISTS where the id is taken. */
enum etcd_status etcd_lease_grant(struct etcd *etcd, int64_t ttl_s, int64_t id, const struct etcd_call *call,
                                  int64_t *granted_id, int64_t *granted_ttl_s);
/* All its keys go. ETCD_NOT_FOUND where it had gone. */
enum etcd_status etcd_lease_revoke(struct etcd *etcd, int64_t id, const struct etcd_call *call);

struct etcd_lease_info {
    int64_t ttl_s; /* that is left, in whole seconds: 0 in its last one, until it is revoked */
    int64_t granted_ttl_s;
    struct etcd_bytes *keys; /* if asked for */
    size_t key_count;
};

/* ETCD_NOT_FOUND where it has run out. To be freed with etcd_lease_info_free(). */
enum etcd_status etcd_lease_look(struct etcd *etcd, int64_t id, bool keys, const struct etcd_call *call,
                                 struct etcd_lease_info **info);
void etcd_lease_info_free(struct etcd_lease_info *info);

/* A lease that is kept alive by the client. All of a client's go over one stream, which moves to another
 * member when one fails. */
struct etcd_keep;

/* Renews the lease `id` every `every_ms` (at least 10) until etcd_keep_drop() or etcd_close(). `on_lost` is
 * called once, from the loop, if the lease is found to be gone, or is not known to live any more by `sent_ns`
 * of the last renewal that was answered plus its time to live. `granted_ns`: from before it was granted,
 * `ttl_s`: what it was granted with. ETCD_OK, ETCD_NOMEM; does not block. */
enum etcd_status etcd_keep(struct etcd *etcd, int64_t id, int64_t ttl_s, int64_t granted_ns, int64_t every_ms,
                           void (*on_lost)(void *ctx, int64_t id), void *ctx, struct etcd_keep **keep);
/* Until then the lease lives: its time to live from before the last renewal that was answered was sent. A
 * leader that has been deposed can go on renewing beside its successor for an election time-out: who must be
 * sure leaves a margin for that. Once it is lost: 0. */
int64_t etcd_keep_deadline_ns(const struct etcd_keep *keep);
/* Renews it no more; no callback comes once this has returned, if it is not called by one. The lease runs
 * out, or is revoked by whoever calls this. NULL is fine. */
void etcd_keep_drop(struct etcd_keep *keep);

/* ---- watches ---- */

enum etcd_watch_kind {
    ETCD_WATCH_CREATED,  /* it is on the server: what comes after `revision` will be seen. Again after each
                            resume */
    ETCD_WATCH_EVENTS,   /* what changed, in order */
    ETCD_WATCH_PROGRESS, /* nothing before `revision` is missing */
    /* The last ones: the watch is over, and is to be cancelled all the same. */
    ETCD_WATCH_COMPACTED, /* events up to `revision` are lost, or may be: the store has forgotten them. Read
                             again, and watch from after what was read */
    ETCD_WATCH_ENDED,     /* the server has ended it: `status` and `reason` say why */
};

struct etcd_event {
    bool deleted;
    struct etcd_kv kv;          /* of what is deleted: its key and mod_revision */
    const struct etcd_kv *prev; /* what was there before; NULL: nothing, it was compacted, or not asked for */
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
    int64_t revision; /* events from then on; 0: from when it is created */
    bool prev;
    bool no_puts, no_deletes;
    bool progress; /* every ten minutes or so, also when nothing happens */
    bool fragment; /* let the server cut large answers up; they are put together again here */
    void (*on_event)(void *ctx, const struct etcd_watch_event *event);
    void *ctx;
};

struct etcd_watch;

/* All of a client's watches go over one stream. When it breaks they are resumed, with the next member, after
 * the last revision that was seen: nothing is lost, and nothing comes twice. A watch from a revision of the
 * past is served by a loop of the server that runs every 100 ms; one from "now" at once. ETCD_OK, ETCD_NOMEM;
 * does not block, and begins once a member is there. */
enum etcd_status etcd_watch(struct etcd *etcd, const struct etcd_watch_config *config,
                            struct etcd_watch **watch);
/* No callback comes once this has returned, if it is not called by one. NULL is fine. */
void etcd_watch_cancel(struct etcd_watch *watch);
/* ---- the cluster ---- */

struct etcd_member {
    uint64_t id;
    const char *name; /* "": not started yet */
    const char **peer_urls, **client_urls;
    size_t peer_url_count, client_url_count;
    bool is_learner;
};

struct etcd_members {
    struct etcd_member *members;
    size_t count;
};

/* To be freed with etcd_members_free(). */
enum etcd_status etcd_member_list(struct etcd *etcd, const struct etcd_call *call,
                                  struct etcd_members **members);
void etcd_members_free(struct etcd_members *members);

struct etcd_member_status {
    uint64_t member_id, leader_id; /* leader 0: it knows of none */
    uint64_t raft_term, raft_index, raft_applied_index;
    int64_t revision, db_size, db_size_in_use;
    bool is_learner;
    char version[32];
};

/* Of the member at `endpoint`, one of the configured, counted from 0; it alone is asked. */
enum etcd_status etcd_member_look(struct etcd *etcd, size_t endpoint, const struct etcd_call *call,
                                  struct etcd_member_status *out);
size_t etcd_endpoint_count(const struct etcd *etcd);

/* ---- the server's own lock service (v3lock), for comparison ----
 *
 * A server of 3.4 grants to a waiter whose lease is gone: check that the key is there. */

/* Blocks until the lock `name` is had with `lease`; `*key` is the ownership key, to be freed with
 * etcd_lock_key_free(), and `*revision` that of the answer. ETCD_TIMEOUT and ETCD_UNKNOWN can leave a key
 * waiting until the lease is gone. */
enum etcd_status etcd_lock(struct etcd *etcd, struct etcd_bytes name, int64_t lease,
                           const struct etcd_call *call, struct etcd_bytes **key, int64_t *revision);
void etcd_lock_key_free(struct etcd_bytes *key);
enum etcd_status etcd_unlock(struct etcd *etcd, struct etcd_bytes key, const struct etcd_call *call);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
