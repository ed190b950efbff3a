/* Opening and closing a client. */
#include "lock/libetcd/client.h"

#include <grpc/support/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 5000, TIMEOUT_MAX_MS = 1000000000 };

static bool copy(char **out, const char *text) {
    *out = text ? strdup(text) : NULL;
    return *out || !text;
}

static int64_t timeout_ns(int64_t ms) {
    return (ms <= 0 ? TIMEOUT_MS : ms > TIMEOUT_MAX_MS ? TIMEOUT_MAX_MS : ms) * 1000000;
}

/* All in order but the thread. */
static enum etcd_status build(struct etcd *etcd, const struct etcd_config *config, char *error, size_t size) {
    enum etcd_status status = etcd_endpoints_open(&etcd->endpoints, config, error, size);
    if (status != ETCD_OK)
        return status;
    etcd->timeout_ns = timeout_ns(config->timeout_ms);
    etcd->on_error = config->on_error;
    etcd->ctx = config->ctx;
    etcd->loop = etcd_loop_new();
    if (!etcd->loop || !copy(&etcd->user, config->user) || !copy(&etcd->password, config->password))
        return ETCD_NOMEM;
    etcd->keeper = etcd_keeper_new(etcd);
    etcd->watcher = etcd_watcher_new(etcd);
    return etcd->keeper && etcd->watcher && etcd_loop_start(etcd->loop) ? ETCD_OK : ETCD_NOMEM;
}

static void destroy(struct etcd *etcd) {
    etcd_keeper_free(etcd->keeper);
    etcd_watcher_free(etcd->watcher);
    etcd_endpoints_close(&etcd->endpoints);
    etcd_loop_free(etcd->loop);
    free(etcd->token);
    free(etcd->password);
    free(etcd->user);
    pthread_cond_destroy(&etcd->authenticated);
    pthread_cond_destroy(&etcd->quiet);
    pthread_mutex_destroy(&etcd->mutex);
    free(etcd);
    grpc_shutdown_blocking();
}

/* gRPC tells standard error of each connection that fails. That is for who asks for it. */
static void silence(void) {
    if (!getenv("GRPC_VERBOSITY"))
        gpr_set_log_verbosity((gpr_log_severity)(GPR_LOG_SEVERITY_ERROR + 1));
}

enum etcd_status etcd_open(const struct etcd_config *config, struct etcd **etcd, char *error,
                           size_t error_size) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!config->user != !config->password) {
        snprintf(error, error_size, "a user wants a password, and a password a user");
        return ETCD_CONFIG;
    }
    struct etcd *opened = calloc(1, sizeof *opened);
    if (!opened) {
        snprintf(error, error_size, "out of memory");
        return ETCD_NOMEM;
    }
    pthread_once(&once, silence);
    grpc_init();
    pthread_mutex_init(&opened->mutex, NULL);
    pthread_cond_init(&opened->quiet, NULL);
    pthread_cond_init(&opened->authenticated, NULL);
    enum etcd_status status = build(opened, config, error, error_size);
    if (status == ETCD_OK) {
        *etcd = opened;
        return ETCD_OK;
    }
    if (status == ETCD_NOMEM)
        snprintf(error, error_size, "out of memory");
    if (opened->loop)
        etcd_loop_stop(opened->loop);
    destroy(opened);
    return status;
}

void etcd_close(struct etcd *etcd) {
    if (!etcd)
        return;
    etcd_keeper_stop(etcd->keeper);
    etcd_watcher_stop(etcd->watcher);
    etcd_rpc_close(etcd);
    etcd_loop_stop(etcd->loop);
    destroy(etcd);
}
