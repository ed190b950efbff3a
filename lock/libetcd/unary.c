#include "lock/libetcd/unary.h"

#include <grpc/byte_buffer.h>
#include <string.h>

static void forget(struct etcd_unary *unary) {
    struct etcd *etcd = unary->etcd;
    pthread_mutex_lock(&etcd->mutex);
    struct etcd_unary **at = &etcd->calls;
    while (*at && *at != unary)
        at = &(*at)->next;
    if (*at)
        *at = unary->next;
    if (!etcd->calls)
        pthread_cond_broadcast(&etcd->quiet);
    pthread_mutex_unlock(&etcd->mutex);
}

static void done(struct etcd_tag *tag, bool ok) {
    struct etcd_unary *unary = (struct etcd_unary *)((char *)tag - offsetof(struct etcd_unary, tag));
    size_t size = GRPC_SLICE_LENGTH(unary->details);
    (void)ok; /* with the status in it a batch cannot fail */
    if (size >= sizeof unary->text)
        size = sizeof unary->text - 1;
    memcpy(unary->text, GRPC_SLICE_START_PTR(unary->details), size);
    unary->text[size] = '\0';
    unary->on_done(unary);
}

bool etcd_unary_start(struct etcd_unary *unary, struct etcd *etcd, int endpoint, const char *path,
                      grpc_slice request, grpc_metadata *metadata, size_t metadata_count,
                      int64_t deadline_ns) {
    unary->tag.done = done;
    unary->etcd = etcd;
    unary->answer = NULL;
    unary->details = grpc_empty_slice();
    grpc_metadata_array_init(&unary->initial);
    grpc_metadata_array_init(&unary->trailing);
    unary->request = grpc_raw_byte_buffer_create(&request, 1);
    unary->call = grpc_channel_create_call(
        etcd->endpoints.each[endpoint].channel, NULL, GRPC_PROPAGATE_DEFAULTS, etcd_loop_queue(etcd->loop),
        grpc_slice_from_static_string(path), NULL, etcd_loop_deadline(deadline_ns), NULL);
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
    pthread_mutex_lock(&etcd->mutex);
    bool begins = !etcd->closing;
    if (begins) {
        unary->next = etcd->calls;
        etcd->calls = unary;
    }
    pthread_mutex_unlock(&etcd->mutex);
    /* Cancelled in between it ends at once. */
    if (begins)
        etcd_loop_begin(unary->call, ops, sizeof ops / sizeof *ops, &unary->tag);
    else
        etcd_unary_free(unary);
    return begins;
}

void etcd_unary_free(struct etcd_unary *unary) {
    forget(unary);
    grpc_call_unref(unary->call);
    grpc_byte_buffer_destroy(unary->request);
    grpc_byte_buffer_destroy(unary->answer);
    grpc_metadata_array_destroy(&unary->initial);
    grpc_metadata_array_destroy(&unary->trailing);
    grpc_slice_unref(unary->details);
}
