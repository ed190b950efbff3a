/* A client, and how it asks: what the files of libetcd share. Not for users. */
#ifndef LOCK_LIBETCD_CLIENT_H
#define LOCK_LIBETCD_CLIENT_H

#include <pthread.h>

#include "lock/libetcd/arena.h"
#include "lock/libetcd/endpoints.h"
#include "lock/libetcd/loop.h"
#include "lock/libetcd/status.h"

struct etcd {
    struct etcd_loop *loop;
    struct etcd_endpoints endpoints;
    int64_t timeout_ns;
    void (*on_error)(void *ctx, const char *member, const char *why); /* may be NULL */
    void *ctx;
    char *user, *password; /* NULL: none */
    pthread_mutex_t mutex; /* for what follows */
    pthread_cond_t quiet;  /* no call is under way any more */
    bool closing;
    struct etcd_unary *calls; /* under way */
    size_t blocked;           /* threads in etcd_rpc() */
    char *token;              /* NULL: none yet, or it is refused */
    uint64_t token_number;    /* how many there were */
    bool authenticating;      /* somebody gets one; the others wait for it */
    pthread_cond_t authenticated;
    struct etcd_keeper *keeper;
    struct etcd_watcher *watcher;
};

/* ---- rpc.c ---- */

struct etcd_method {
    const char *path;
    bool reads;      /* changes nothing, so may be asked anywhere, again and again */
    bool leaderless; /* asked of members that know no leader too */
    bool anonymous;  /* without a token */
    bool waits;      /* rightly takes as long as it may: who does not answer is not stuck */
};

/* An answer, and the memory for what is made of it. */
struct etcd_answer {
    const uint8_t *data;
    size_t size;
    grpc_slice slice;
    struct etcd_arena arena;
};

/* Asks `method` with the packed `request`. Blocks. On ETCD_OK `*answer` is to be freed. `endpoint` -1:
 * whichever. */
enum etcd_status etcd_rpc(struct etcd *etcd, const struct etcd_method *method, int endpoint,
                          const ProtobufCMessage *request, const struct etcd_call *call,
                          struct etcd_answer *answer);
/* False: there is nothing in `buffer`. */
bool etcd_answer_read(struct etcd_answer *answer, grpc_byte_buffer *buffer);
void etcd_answer_free(struct etcd_answer *answer);
/* The message in it, NULL where it is none. Lives as long as the answer, which must stay where it is. */
void *etcd_answer_unpack(struct etcd_answer *answer, const ProtobufCMessageDescriptor *descriptor);
/* Asks, and unpacks: on ETCD_OK `*response` is the message in `*answer`. Without `descriptor` the answer is
 * not wanted, and `answer` and `response` may be NULL. */
enum etcd_status etcd_rpc_unpack(struct etcd *etcd, const struct etcd_method *method, int endpoint,
                                 const ProtobufCMessage *request, const struct etcd_call *call,
                                 const ProtobufCMessageDescriptor *descriptor, struct etcd_answer *answer,
                                 void **response);

/* All calls that are under way end, and all that come. Blocks until nobody is in one. */
void etcd_rpc_close(struct etcd *etcd);

/* Into a call's `error`, if it has one. */
void etcd_call_explain(const struct etcd_call *call, const char *text);
/* What becomes of a call whose answer cannot be unpacked, also for want of memory: ETCD_FAILED, of a write
 * ETCD_UNKNOWN, since it may have been done. */
enum etcd_status etcd_call_no_sense(const struct etcd_method *method, const struct etcd_call *call);
/* The packed message; the caller unrefs it. */
grpc_slice etcd_pack(const ProtobufCMessage *message);

/* ---- auth.c ---- */

/* The token to send, as metadata; 0 or 1 of it. `*number` is which one. The caller unrefs the value. */
size_t etcd_auth_metadata(struct etcd *etcd, grpc_metadata *metadata, uint64_t *number);
/* Gets a token if the newest is still `number`, which was refused (0: there is none yet). Blocks until
 * `deadline_ns`. ETCD_OK also where no token is needed. */
enum etcd_status etcd_auth_renew(struct etcd *etcd, uint64_t number, int64_t deadline_ns,
                                 const struct etcd_call *call);

/* The same from the loop: true, there is one; false: it is being got from the member at `endpoint`, and the
 * tickers are woken then. */
bool etcd_auth_poll(struct etcd *etcd, uint64_t number, int endpoint);

/* ---- keep.c, watch.c ---- */

/* NULL when out of memory. Each adds its ticker to the loop. */
struct etcd_keeper *etcd_keeper_new(struct etcd *etcd);
struct etcd_watcher *etcd_watcher_new(struct etcd *etcd);
/* Ends the stream; no callback comes any more. */
void etcd_keeper_stop(struct etcd_keeper *keeper);
void etcd_watcher_stop(struct etcd_watcher *watcher);
/* When the loop has ended. NULL is fine. */
void etcd_keeper_free(struct etcd_keeper *keeper);
void etcd_watcher_free(struct etcd_watcher *watcher);

#endif
