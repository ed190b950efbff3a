#include "lock/libetcd/transport/transport.h"

bool etcd_transport_open(struct etcd_transport *transport, const struct etcd_config *config, char *error,
                         size_t error_size) {
    pthread_mutex_init(&transport->mutex, NULL);
    pthread_cond_init(&transport->idle, NULL);
    etcd_loop_open(&transport->loop);
    return etcd_endpoints_open(&transport->endpoints, config, error, error_size);
}

void etcd_transport_close(struct etcd_transport *transport) {
    etcd_endpoints_close(&transport->endpoints);
    etcd_loop_close(&transport->loop);
    pthread_cond_destroy(&transport->idle);
    pthread_mutex_destroy(&transport->mutex);
}

void etcd_transport_enter(struct etcd_transport *transport) {
    pthread_mutex_lock(&transport->mutex);
    transport->blocked++;
    pthread_mutex_unlock(&transport->mutex);
}

void etcd_transport_leave(struct etcd_transport *transport) {
    pthread_mutex_lock(&transport->mutex);
    if (--transport->blocked == 0)
        pthread_cond_broadcast(&transport->idle);
    pthread_mutex_unlock(&transport->mutex);
}

void etcd_transport_wake(struct etcd_transport *transport) {
    etcd_loop_wake(&transport->loop, transport->endpoints.each[0].channel);
}

grpc_call *etcd_transport_call(struct etcd_transport *transport, int endpoint, const char *path,
                               int64_t deadline_ns) {
    return etcd_loop_call(&transport->loop, transport->endpoints.each[endpoint].channel, path, deadline_ns);
}
