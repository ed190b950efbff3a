/* The endpoints of a client: a channel to each member, its credentials, and the choice of a member. */
#include <errno.h>
#include <grpc/grpc_security.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url_parts.h"
#include "lock/libetcd/etcd_client.h"

enum { PEM_MAX = 1 << 20, SHUN_MS = 5000 };

/* ---- addresses ---- */

/* Reads HOST[:PORT]. The target names its scheme, dns, since gRPC would take a host called "unix" for one. */
static bool endpoint_read(struct etcd_endpoint *endpoint, const char *text, size_t length) {
    static const char scheme[] = "dns:///";
    struct host host;
    if (length > ETCD_TARGET_SIZE - sizeof "dns:///:2379" || host_read(&host, text, length, 2379))
        return false;
    snprintf(endpoint->target, ETCD_TARGET_SIZE, text[0] == '[' ? "%s[%.*s]:%d" : "%s%.*s:%d", scheme,
             (int)host.length, host.name, host.port);
    endpoint->address = endpoint->target + strlen(scheme);
    return true;
}

/* False and `error`: the list is wrong. */
static bool endpoints_read(struct etcd_endpoints *endpoints, const char *text, char *error, size_t size) {
    for (const char *at = text ? text : "";; at++) {
        size_t length = strcspn(at, ",");
        if (endpoints->count == ETCD_ENDPOINTS_MAX) {
            snprintf(error, size, "more than %d endpoints", ETCD_ENDPOINTS_MAX);
            return false;
        }
        if (!endpoint_read(&endpoints->each[endpoints->count++], at, length)) {
            snprintf(error, size, "endpoint %zu is not HOST[:PORT] or [ADDRESS]:PORT", endpoints->count);
            return false;
        }
        at += length;
        if (!*at)
            return true;
    }
}

/* ---- credentials ---- */

/* Returns the text of the file; the caller frees it. NULL and `error`: it cannot be read. */
static char *endpoints_read_pem(const char *file, char *error, size_t size) {
    char *text = NULL;
    errno = 0;
    FILE *stream = fopen(file, "re");
    if (!stream || !(text = calloc(1, PEM_MAX)) || fread(text, 1, PEM_MAX - 1, stream) == 0 ||
        ferror(stream) || !strstr(text, "-----BEGIN ")) {
        snprintf(error, size, "%s: %s", file, errno ? strerror(errno) : "is not a PEM file");
        free(text);
        text = NULL;
    }
    if (stream)
        fclose(stream);
    return text;
}

/* NULL and `error`: the files cannot be used. */
static grpc_channel_credentials *endpoints_read_credentials(const struct etcd_config *config, char *error,
                                                            size_t size) {
    const char *const files[] = {config->ca_file, config->cert_file, config->key_file};
    char *pems[3] = {NULL};
    grpc_channel_credentials *credentials = NULL;
    bool read = true;
    if (!config->ca_file && !config->cert_file && !config->key_file)
        return grpc_insecure_credentials_create();
    if (!config->ca_file || !config->cert_file != !config->key_file) {
        snprintf(error, size, "TLS needs ca_file, and cert_file and key_file both or none");
        return NULL;
    }
    for (int i = 0; i < 3 && read; i++)
        read = !files[i] || (pems[i] = endpoints_read_pem(files[i], error, size));
    if (read) {
        grpc_ssl_pem_key_cert_pair pair = {.cert_chain = pems[1], .private_key = pems[2]};
        credentials = grpc_ssl_credentials_create(pems[0], pems[1] ? &pair : NULL, NULL, NULL);
        if (!credentials)
            snprintf(error, size, "the certificates of %s cannot be used", config->ca_file);
    }
    for (int i = 0; i < 3; i++)
        free(pems[i]);
    return credentials;
}

/* ---- channels ---- */

static grpc_arg channel_arg(const char *key, int value) {
    return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value.integer = value};
}

static grpc_channel *channel_open(const char *target, grpc_channel_credentials *credentials) {
    grpc_arg args[] = {
        channel_arg(GRPC_ARG_ENABLE_RETRIES, 0), /* rpc.c decides what is repeated */
        channel_arg(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        channel_arg(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
        channel_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
                    1), /* share no connection or backoff with other clients */
        channel_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1),
        channel_arg(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100),
        channel_arg(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000), /* how long one attempt to connect may take */
        channel_arg(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000),
        /* Streams notice a member that vanished. etcd closes connections that ping more often than every five
         * seconds. */
        channel_arg(GRPC_ARG_KEEPALIVE_TIME_MS, 7000),
        channel_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3000),
        channel_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
    };
    grpc_channel_args all = {.num_args = sizeof args / sizeof *args, .args = args};
    return grpc_channel_create(target, credentials, &all);
}

bool etcd_endpoints_open(struct etcd_endpoints *endpoints, const struct etcd_config *config, char *error,
                         size_t error_size) {
    if (!endpoints_read(endpoints, config->endpoints, error, error_size))
        return false;
    grpc_channel_credentials *credentials = endpoints_read_credentials(config, error, error_size);
    if (!credentials)
        return false;
    for (size_t i = 0; i < endpoints->count; i++)
        endpoints->each[i].channel = channel_open(endpoints->each[i].target, credentials);
    grpc_channel_credentials_release(credentials);
    return true;
}

void etcd_endpoints_close(struct etcd_endpoints *endpoints) {
    for (size_t i = 0; i < endpoints->count; i++) {
        if (endpoints->each[i].channel)
            grpc_channel_destroy(endpoints->each[i].channel);
    }
}

/* ---- the choice of an endpoint ---- */

bool etcd_endpoint_is_ready(struct etcd_endpoint *endpoint) {
    return grpc_channel_check_connectivity_state(endpoint->channel, 1) == GRPC_CHANNEL_READY;
}

int etcd_endpoints_pick(struct etcd_endpoints *endpoints) {
    size_t current = atomic_load_explicit(&endpoints->current, memory_order_relaxed);
    int64_t now_ns = endpoints->count > 1 ? clock_now_ns() : 0;
    int fallback = -1; /* connected, but silent lately */
    for (size_t i = 0; i < endpoints->count; i++) {
        size_t at = (current + i) % endpoints->count;
        struct etcd_endpoint *endpoint = &endpoints->each[at];
        if (!etcd_endpoint_is_ready(endpoint))
            continue;
        if (atomic_load_explicit(&endpoint->shunned_until_ns, memory_order_relaxed) <= now_ns) {
            if (i > 0)
                atomic_store_explicit(&endpoints->current, at, memory_order_relaxed);
            return (int)at;
        }
        if (fallback < 0)
            fallback = (int)at;
    }
    return fallback;
}

void etcd_endpoints_fail(struct etcd_endpoints *endpoints, int at, bool silent) {
    size_t failed = (size_t)at;
    if (endpoints->count < 2)
        return;
    if (silent)
        atomic_store(&endpoints->each[at].shunned_until_ns, clock_now_ns() + (int64_t)SHUN_MS * 1000000);
    atomic_compare_exchange_strong(&endpoints->current, &failed, (failed + 1) % endpoints->count);
}

bool etcd_endpoints_should_leave(struct etcd_endpoints *endpoints, int at) {
    return atomic_load(&endpoints->each[at].shunned_until_ns) > clock_now_ns() &&
           etcd_endpoints_pick(endpoints) != at;
}
