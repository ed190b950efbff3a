#include "lock/libetcd/transport/unary.h"

#include <grpc/byte_buffer.h>
#include <grpc/support/alloc.h>
#include <stdatomic.h>

static void done(struct etcd_tag *tag, bool ok) {
    struct etcd_unary *unary = (struct etcd_unary *)((char *)tag - offsetof(struct etcd_unary, tag));
    (void)ok; /* a batch that receives the status cannot fail */
    unary->text = grpc_slice_to_c_string(unary->details);
    unary->on_done(unary);
}

void etcd_unary_start(struct etcd_unary *unary, struct etcd_transport *transport, int endpoint,
                      const char *path, grpc_slice request, grpc_metadata *metadata, size_t metadata_count,
                      int64_t deadline_ns) {
    unary->tag.done = done;
    unary->transport = transport;
    unary->details = grpc_empty_slice();
    grpc_metadata_array_init(&unary->initial);
    grpc_metadata_array_init(&unary->trailing);
    unary->request = grpc_raw_byte_buffer_create(&request, 1);
    unary->call = etcd_transport_call(transport, endpoint, path, deadline_ns);
    grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA,
         .data.send_initial_metadata = {.count = metadata_count, .metadata = metadata}},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = unary->request},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
         .data.recv_initial_metadata.recv_initial_metadata = &unary->initial},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &unary->answer},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &unary->trailing,
                                        .status = &unary->code,
                                        .status_details = &unary->details}},
    };
    pthread_mutex_lock(&transport->mutex);
    unary->next = transport->unaries;
    transport->unaries = unary;
    pthread_mutex_unlock(&transport->mutex);
    /* A call that is cancelled here, or by etcd_unary_close_all(), ends as soon as it begins. */
    if (atomic_load(&transport->closing))
        etcd_unary_cancel(unary);
    etcd_loop_begin(unary->call, ops, sizeof ops / sizeof *ops, &unary->tag);
}

void etcd_unary_cancel(struct etcd_unary *unary) {
    grpc_call_cancel(unary->call, NULL);
}

void etcd_unary_free(struct etcd_unary *unary) {
    struct etcd_transport *transport = unary->transport;
    pthread_mutex_lock(&transport->mutex);
    struct etcd_unary **at = &transport->unaries;
    while (*at != unary)
        at = &(*at)->next;
    *at = unary->next;
    if (!transport->unaries)
        pthread_cond_broadcast(&transport->idle);
    pthread_mutex_unlock(&transport->mutex);
    grpc_call_unref(unary->call);
    grpc_byte_buffer_destroy(unary->request);
    grpc_byte_buffer_destroy(unary->answer);
    grpc_metadata_array_destroy(&unary->initial);
    grpc_metadata_array_destroy(&unary->trailing);
    grpc_slice_unref(unary->details);
    gpr_free(unary->text);
}

void etcd_unary_close_all(struct etcd_transport *transport) {
    pthread_mutex_lock(&transport->mutex);
    atomic_store(&transport->closing, true);
    for (struct etcd_unary *unary = transport->unaries; unary; unary = unary->next)
        etcd_unary_cancel(unary);
    while (transport->blocked > 0 || transport->unaries)
        pthread_cond_wait(&transport->idle, &transport->mutex);
    pthread_mutex_unlock(&transport->mutex);
}
