/* What other threads want done on the thread of a loop. */
#ifndef SERVICE_BACKGROUND_MAILBOX_H
#define SERVICE_BACKGROUND_MAILBOX_H

#include <pthread.h>
#include <uv.h>

/* Lives in the poster's data. */
struct mailbox_post {
    struct mailbox_post *next;
    void (*run)(struct mailbox_post *post);
};

struct mailbox {
    uv_async_t wake;
    pthread_mutex_t mutex;
    struct mailbox_post *posts;
};

/* `on_wake` is called on the loop's thread when something was posted, or mailbox_wake() called, with `ctx` as
 * the handle's data; it must call mailbox_run(). */
void mailbox_open(struct mailbox *mailbox, uv_loop_t *loop, uv_async_cb on_wake, void *ctx);
/* From any thread: has `post` run. */
void mailbox_put(struct mailbox *mailbox, struct mailbox_post *post);
void mailbox_wake(struct mailbox *mailbox);
/* On the loop's thread: runs what was posted. */
void mailbox_run(struct mailbox *mailbox);
/* The loop's thread closes the handle; when that has ended and nobody posts any more, the rest goes. */
void mailbox_close(struct mailbox *mailbox);
void mailbox_free(struct mailbox *mailbox);

#endif
