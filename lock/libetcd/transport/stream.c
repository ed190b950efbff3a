#include "lock/libetcd/transport/stream.h"

#include <grpc/byte_buffer.h>
#include <stdlib.h>
#include <string.h>

struct message {
    struct message *next;
    grpc_byte_buffer *buffer;
};

struct etcd_stream {
    struct etcd_stream_user *user;
    grpc_call *call;
    struct etcd_tag received, ended, sent; /* one batch of each in flight */
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *incoming;
    grpc_status_code code;
    grpc_slice details;
    pthread_mutex_t mutex; /* for what follows */
    int pending;           /* batches in flight */
    bool over;             /* send nothing any more */
    struct message *first, **last;
};

#define STREAM_OF(tag, member) ((struct etcd_stream *)((char *)(tag)-offsetof(struct etcd_stream, member)))

/* ---- batches of operations; the loop calls on_…() once for each ---- */

static void receive(struct etcd_stream *stream) {
    grpc_op next = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &stream->incoming};
    etcd_loop_begin(stream->call, &next, 1, &stream->received);
}

/* With the mutex held, and no other message in flight. */
static void send_first(struct etcd_stream *stream, struct message *first) {
    grpc_op sending = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = first->buffer};
    stream->pending++;
    etcd_loop_begin(stream->call, &sending, 1, &stream->sent);
}

static void drop_first(struct etcd_stream *stream) {
    struct message *message = stream->first;
    stream->first = message->next;
    if (!stream->first)
        stream->last = &stream->first;
    grpc_byte_buffer_destroy(message->buffer);
    free(message);
}

static void destroy(struct etcd_stream *stream) {
    while (stream->first)
        drop_first(stream);
    grpc_call_unref(stream->call);
    grpc_metadata_array_destroy(&stream->initial);
    grpc_metadata_array_destroy(&stream->trailing);
    grpc_byte_buffer_destroy(stream->incoming);
    grpc_slice_unref(stream->details);
    pthread_mutex_destroy(&stream->mutex);
    free(stream);
}

static void end(struct etcd_stream *stream) {
    char text[ETCD_ERROR_SIZE];
    size_t size = GRPC_SLICE_LENGTH(stream->details);
    if (size >= sizeof text)
        size = sizeof text - 1;
    memcpy(text, GRPC_SLICE_START_PTR(stream->details), size);
    text[size] = '\0';
    /* The stream is still needed when a server ends it without an error. */
    int code = stream->code == GRPC_STATUS_OK ? GRPC_STATUS_UNAVAILABLE : (int)stream->code;
    struct etcd_verdict verdict = etcd_status_judge(code, text);
    stream->user->on_end(stream->user, &verdict);
    destroy(stream);
}

/* Called with the mutex held, which it unlocks. A batch is done; with the last one the stream has ended. */
static void settle(struct etcd_stream *stream) {
    bool ends = --stream->pending == 0;
    pthread_mutex_unlock(&stream->mutex);
    if (ends)
        end(stream);
}

static void on_received(struct etcd_tag *tag, bool ok) {
    struct etcd_stream *stream = STREAM_OF(tag, received);
    struct etcd_answer answer;
    bool goes_on = ok && etcd_answer_read(&answer, stream->incoming);
    grpc_byte_buffer_destroy(stream->incoming);
    stream->incoming = NULL;
    if (goes_on) {
        stream->user->on_message(stream->user, &answer);
        etcd_answer_clear(&answer);
        receive(stream);
        return;
    }
    pthread_mutex_lock(&stream->mutex);
    settle(stream); /* on_ended() follows */
}

static void on_sent(struct etcd_tag *tag, bool ok) {
    struct etcd_stream *stream = STREAM_OF(tag, sent);
    pthread_mutex_lock(&stream->mutex);
    drop_first(stream);
    if (ok && !stream->over && stream->first)
        send_first(stream, stream->first);
    settle(stream);
}

static void on_ended(struct etcd_tag *tag, bool ok) {
    struct etcd_stream *stream = STREAM_OF(tag, ended);
    (void)ok;
    pthread_mutex_lock(&stream->mutex);
    stream->over = true;
    settle(stream);
}

/* ---- the interface ---- */

static void open_call(struct etcd_stream *stream, grpc_metadata *metadata, size_t metadata_count) {
    const grpc_op whole[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA,
         .data.send_initial_metadata = {.count = metadata_count, .metadata = metadata}},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
         .data.recv_initial_metadata.recv_initial_metadata = &stream->initial},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &stream->trailing,
                                        .status = &stream->code,
                                        .status_details = &stream->details}},
    };
    stream->pending = 2; /* before the first one can be done */
    etcd_loop_begin(stream->call, whole, sizeof whole / sizeof *whole, &stream->ended);
    receive(stream);
}

struct etcd_stream *etcd_stream_open(struct etcd_transport *transport, int endpoint, const char *path,
                                     grpc_metadata *metadata, size_t metadata_count,
                                     struct etcd_stream_user *user) {
    struct etcd_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    *stream = (struct etcd_stream){.user = user,
                                   .received.done = on_received,
                                   .ended.done = on_ended,
                                   .sent.done = on_sent,
                                   .details = grpc_empty_slice()};
    stream->last = &stream->first;
    pthread_mutex_init(&stream->mutex, NULL);
    grpc_metadata_array_init(&stream->initial);
    grpc_metadata_array_init(&stream->trailing);
    stream->call = etcd_transport_call(transport, endpoint, path, INT64_MAX);
    open_call(stream, metadata, metadata_count);
    return stream;
}

void etcd_stream_send(struct etcd_stream *stream, const ProtobufCMessage *message) {
    struct message *queued = calloc(1, sizeof *queued);
    if (!queued) {
        etcd_stream_cancel(stream); /* the user must not take the message for sent */
        return;
    }
    grpc_slice packed = etcd_message_pack(message);
    queued->buffer = grpc_raw_byte_buffer_create(&packed, 1);
    grpc_slice_unref(packed);
    pthread_mutex_lock(&stream->mutex);
    bool first = !stream->first;
    *stream->last = queued;
    stream->last = &queued->next;
    if (first && !stream->over)
        send_first(stream, queued);
    pthread_mutex_unlock(&stream->mutex);
}

void etcd_stream_cancel(struct etcd_stream *stream) {
    grpc_call_cancel(stream->call, NULL);
}
