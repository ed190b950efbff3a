/* Posts: work that other threads hand to the thread of a loop. */
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

/* `on_wake` is called on the loop's thread after a post, or after mailbox_wake(), with `ctx` as the data of
 * the handle. It must call mailbox_run(). */
void mailbox_open(struct mailbox *mailbox, uv_loop_t *loop, uv_async_cb on_wake, void *ctx);
/* From any thread: hands over a post. */
void mailbox_put(struct mailbox *mailbox, struct mailbox_post *post);
void mailbox_wake(struct mailbox *mailbox);
/* On the loop's thread: runs the posts. */
void mailbox_run(struct mailbox *mailbox);
/* mailbox_close() closes the handle, on the loop's thread. mailbox_free() follows when the handle is closed
 * and no thread posts any more. */
void mailbox_close(struct mailbox *mailbox);
void mailbox_free(struct mailbox *mailbox);

#endif
