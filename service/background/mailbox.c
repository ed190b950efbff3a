#include "service/background/mailbox.h"

#include <stddef.h>

void mailbox_open(struct mailbox *mailbox, uv_loop_t *loop, uv_async_cb on_wake, void *ctx) {
    pthread_mutex_init(&mailbox->mutex, NULL);
    mailbox->posts = NULL;
    mailbox->wake.data = ctx;
    uv_async_init(loop, &mailbox->wake, on_wake);
}

void mailbox_put(struct mailbox *mailbox, struct mailbox_post *post) {
    pthread_mutex_lock(&mailbox->mutex);
    post->next = mailbox->posts;
    mailbox->posts = post;
    /* With the mutex held: once the loop has seen the post, it may end, and the handle with it. */
    uv_async_send(&mailbox->wake);
    pthread_mutex_unlock(&mailbox->mutex);
}

void mailbox_wake(struct mailbox *mailbox) {
    uv_async_send(&mailbox->wake);
}

void mailbox_run(struct mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->mutex);
    struct mailbox_post *posts = mailbox->posts;
    mailbox->posts = NULL;
    pthread_mutex_unlock(&mailbox->mutex);
    while (posts) {
        struct mailbox_post *post = posts;
        posts = post->next;
        post->run(post);
    }
}

void mailbox_close(struct mailbox *mailbox) {
    uv_close((uv_handle_t *)&mailbox->wake, NULL);
}

void mailbox_free(struct mailbox *mailbox) {
    pthread_mutex_destroy(&mailbox->mutex);
}
