/* Authentication: a login gets a token, every call sends it, and a refused token is replaced by another
 * login. Not for users. */
#ifndef LOCK_LIBETCD_CALLS_AUTH_H
#define LOCK_LIBETCD_CALLS_AUTH_H

#include "lock/libetcd/transport/status.h"
#include "lock/libetcd/transport/unary.h"

struct etcd_auth {
    struct etcd_transport *transport;
    char *user, *password; /* NULL: none */
    pthread_mutex_t mutex; /* for what follows */
    pthread_cond_t login_ended;
    char *token;           /* NULL: none yet, or the server needs none */
    uint64_t token_number; /* logins that succeeded */
    uint64_t logins;       /* that have ended */
    bool logging_in;
    struct etcd_unary login;     /* the one in flight */
    int endpoint;                /* … its member */
    int64_t began_ns;            /* … and when it began */
    struct etcd_verdict verdict; /* of the last one that ended */
    char error[ETCD_ERROR_SIZE];
};

/* `user` and `password` are copied. False: out of memory. To be closed in any case. */
bool etcd_auth_open(struct etcd_auth *auth, struct etcd_transport *transport, const char *user,
                    const char *password);
void etcd_auth_close(struct etcd_auth *auth);

/* Writes the metadata of a call: `leader`: only a member that knows a leader shall answer; and the token, if
 * there is one, and its number (NULL: send no token). Returns how many were written, to be freed. */
size_t etcd_auth_metadata(struct etcd_auth *auth, bool leader, grpc_metadata metadata[2], uint64_t *number);
void etcd_auth_metadata_free(const grpc_metadata *metadata, size_t count);

/* Needs a login if the client has a user, and its newest token is still `refused` (0: it has none yet). Then
 * true, and a login at the member at `endpoint` begins, unless one is in flight. Does not block; the tickers
 * run when it ends. */
bool etcd_auth_begin_login(struct etcd_auth *auth, uint64_t refused, int endpoint, int64_t deadline_ns);
/* The same, and waits for the end; ETCD_OK also if no login is needed. A login that another thread began is
 * waited for until `wait_until_ns`. On failure `error` says why. The verdict is harmless: a login changes
 * nothing. */
struct etcd_verdict etcd_auth_log_in(struct etcd_auth *auth, uint64_t refused, int endpoint,
                                     int64_t deadline_ns, int64_t wait_until_ns, char error[ETCD_ERROR_SIZE]);

#endif
