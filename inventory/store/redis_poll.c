#include "inventory/store/redis_poll.h"

#include <hiredis/async.h>
#include <stdlib.h>

/* It outlives its connection by one turn of the loop, hence its own memory. */
struct redis_poll {
    uv_poll_t handle;
    redisAsyncContext *hiredis; /* NULL: it was freed */
    int events;
    bool want_write;
};

static void on_poll(uv_poll_t *handle, int status, int events);

static void update(struct redis_poll *poll) {
    int events = UV_READABLE | (poll->want_write ? UV_WRITABLE : 0);
    if (poll->events != events && uv_poll_start(&poll->handle, events, on_poll) == 0)
        poll->events = events;
}

static void on_poll(uv_poll_t *handle, int status, int events) {
    struct redis_poll *poll = handle->data;
    /* An error of the socket shows when hiredis reads or writes. */
    if (status < 0)
        events = UV_READABLE | UV_WRITABLE;
    if ((events & UV_READABLE) && poll->hiredis)
        redisAsyncHandleRead(poll->hiredis);
    /* This also writes what callbacks queued, which redis_poll_flush() left. */
    if (((events & UV_WRITABLE) || poll->want_write) && poll->hiredis)
        redisAsyncHandleWrite(poll->hiredis);
    if (poll->hiredis)
        update(poll);
}

static void want_write(void *data) {
    ((struct redis_poll *)data)->want_write = true;
}

static void want_no_write(void *data) {
    ((struct redis_poll *)data)->want_write = false;
}

static void on_closed(uv_handle_t *handle) {
    free(handle->data);
}

static void stop(void *data) {
    struct redis_poll *poll = data;
    poll->hiredis = NULL;
    uv_poll_stop(&poll->handle);
    uv_close((uv_handle_t *)&poll->handle, on_closed);
}

struct redis_poll *redis_poll_start(uv_loop_t *loop, redisAsyncContext *hiredis) {
    struct redis_poll *poll = calloc(1, sizeof *poll);
    if (!poll || uv_poll_init(loop, &poll->handle, hiredis->c.fd) != 0) {
        free(poll);
        return NULL;
    }
    poll->handle.data = poll;
    poll->hiredis = hiredis;
    hiredis->ev.data = poll;
    hiredis->ev.addWrite = want_write;
    hiredis->ev.delWrite = want_no_write;
    hiredis->ev.cleanup = stop;
    poll->want_write = true; /* a socket that is connected is writable */
    update(poll);
    return poll;
}

void redis_poll_flush(struct redis_poll *poll) {
    /* Within a callback a failed write would free the context that hiredis uses afterwards; the loop writes
     * then. */
    if (!poll->want_write ||
        (poll->hiredis->c.flags & (REDIS_CONNECTED | REDIS_IN_CALLBACK)) != REDIS_CONNECTED)
        return;
    redisAsyncHandleWrite(poll->hiredis);
    if (poll->hiredis)
        update(poll);
}
