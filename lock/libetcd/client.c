#include "lock/libetcd/client.h"

#include <grpc/support/log.h>
#include <stdio.h>
#include <stdlib.h>

enum { TIMEOUT_MS = 5000, TIMEOUT_MAX_MS = 1000000000 };

static enum etcd_status build(struct etcd *etcd, const struct etcd_config *config, char *error, size_t size) {
    grpc_init();
    bool has_auth = etcd_auth_open(&etcd->auth, &etcd->transport, config->user, config->password);
    if (!etcd_transport_open(&etcd->transport, config, error, size))
        return ETCD_CONFIG;
    int64_t ms = config->timeout_ms <= 0 ? TIMEOUT_MS : config->timeout_ms;
    etcd->timeout_ns = (ms < TIMEOUT_MAX_MS ? ms : TIMEOUT_MAX_MS) * 1000000;
    etcd->on_error = config->on_error;
    etcd->ctx = config->ctx;
    etcd->keepalives = etcd_shared_stream_new(&etcd_keepalive_stream_kind, &etcd->auth);
    etcd->watches = etcd_shared_stream_new(&etcd_watch_stream_kind, &etcd->auth);
    bool starts = has_auth && etcd->keepalives && etcd->watches && etcd_loop_start(&etcd->transport.loop);
    return starts ? ETCD_OK : ETCD_NOMEM;
}

static void destroy(struct etcd *etcd) {
    etcd_loop_stop(&etcd->transport.loop);
    etcd_shared_stream_free(etcd->keepalives);
    etcd_shared_stream_free(etcd->watches);
    etcd_transport_close(&etcd->transport);
    etcd_auth_close(&etcd->auth);
    free(etcd);
    grpc_shutdown_blocking();
}

/* gRPC logs every failed connection to standard error, which is wanted only if GRPC_VERBOSITY is set. */
static void silence_grpc(void) {
    if (!getenv("GRPC_VERBOSITY"))
        gpr_set_log_verbosity((gpr_log_severity)(GPR_LOG_SEVERITY_ERROR + 1));
}

enum etcd_status etcd_open(const struct etcd_config *config, struct etcd **etcd, char *error,
                           size_t error_size) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!config->user != !config->password) {
        snprintf(error, error_size, "a user needs a password, and a password a user");
        return ETCD_CONFIG;
    }
    pthread_once(&once, silence_grpc);
    struct etcd *opened = calloc(1, sizeof *opened);
    enum etcd_status status = opened ? build(opened, config, error, error_size) : ETCD_NOMEM;
    if (status == ETCD_OK) {
        *etcd = opened;
        return ETCD_OK;
    }
    if (status == ETCD_NOMEM)
        snprintf(error, error_size, "out of memory");
    if (opened)
        destroy(opened);
    return status;
}

void etcd_close(struct etcd *etcd) {
    if (!etcd)
        return;
    etcd_shared_stream_stop(etcd->keepalives);
    etcd_shared_stream_stop(etcd->watches);
    etcd_unary_close_all(&etcd->transport);
    destroy(etcd);
}
