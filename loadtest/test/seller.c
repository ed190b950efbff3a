#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loadtest/test/seller.h"
#include "loadtest/test/seller_books.h"
#include "test/harness.h"

enum { THREADS = 40 };

struct seller {
    unsigned faults;
    int port;
    int listener;
    pthread_t threads[THREADS];
    pthread_mutex_t lock; /* of all that follows */
    bool ending;
    int fds[THREADS]; /* the connection of each thread; -1: none */
    int started;
    int answers;
    void (*before_answer)(void);
    struct books books;
};

struct worker {
    struct seller *seller;
    int index;
};

static bool send_text(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool send_text(int fd, const char *format, ...) {
    char text[2 * ANSWER];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return send(fd, text, (size_t)length, MSG_NOSIGNAL) == length;
}

/* True: the connection stays open. */
static bool reply(int fd, const struct books_answer *answer, bool awkward, int number) {
    int length = (int)strlen(answer->body);
    int half = length / 2;
    const char *replayed = answer->replayed ? "Idempotent-Replayed: true\r\n" : "";
    if (!awkward || number % 5 == 0)
        return send_text(fd, "HTTP/1.1 %d X\r\n%sContent-Length: %d\r\n\r\n%s", answer->status, replayed,
                         length, answer->body);
    switch (number % 5) {
    case 1:
        return send_text(fd, "HTTP/1.1 %d X\r\n%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%.*s",
                         answer->status, replayed, (unsigned)half, half, answer->body) &&
               send_text(fd, "\r\n%X;a=b\r\n%s\r\n0\r\n\r\n", (unsigned)(length - half), answer->body + half);
    case 2:
        return send_text(fd, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 %d X\r", answer->status) &&
               send_text(fd, "\n%scontent-length:%d\r\n\r\n%.*s", replayed, length, half, answer->body) &&
               send_text(fd, "%s", answer->body + half);
    case 3:
        send_text(fd, "HTTP/1.1 %d X\r\n%sConnection: close\r\nContent-Length: %d\r\n\r\n%s", answer->status,
                  replayed, length, answer->body);
        return false;
    default: send_text(fd, "HTTP/1.0 %d X\r\n%s\r\n%s", answer->status, replayed, answer->body); return false;
    }
}

/* Reads a whole request, and adds a NUL; false: the connection has ended. */
static bool receive(int fd, char *request, size_t size) {
    size_t held = 0;
    for (;;) {
        request[held] = '\0';
        const char *body = strstr(request, "\r\n\r\n");
        if (body) {
            char length[16];
            books_copy_after(request, "Content-Length: ", "\r", length, sizeof length);
            if (strlen(body + 4) >= (size_t)strtol(length, NULL, 10))
                return true;
        }
        ssize_t got = recv(fd, request + held, size - held - 1, 0);
        if (got <= 0)
            return false;
        held += (size_t)got;
    }
}

static bool serve_one(struct seller *seller, int fd) {
    char request[8192];
    struct books_answer answer = {.status = 0};
    if (!receive(fd, request, sizeof request))
        return false;
    pthread_mutex_lock(&seller->lock);
    enum books_mischief mischief = books_decide(&seller->books, request, &answer);
    int number = seller->answers++;
    void (*before_answer)(void) = seller->before_answer;
    pthread_mutex_unlock(&seller->lock);
    if (before_answer)
        before_answer();
    switch (mischief) {
    case BOOKS_DROP: return false;
    case BOOKS_GARBLE: send_text(fd, "HTTP/1.1 two hundred\r\n\r\n"); return false;
    case BOOKS_SILENCE: return receive(fd, request, sizeof request); /* until the other side closes */
    default: return reply(fd, &answer, (seller->faults & SELLER_AWKWARD) != 0, number);
    }
}

static void *serve(void *arg) {
    struct worker *worker = arg;
    struct seller *seller = worker->seller;
    for (;;) {
        int fd = accept(seller->listener, NULL, NULL);
        int on = 1;
        pthread_mutex_lock(&seller->lock);
        bool ending = seller->ending;
        seller->fds[worker->index] = ending ? -1 : fd;
        pthread_mutex_unlock(&seller->lock);
        if (ending || fd < 0) {
            if (fd >= 0)
                close(fd);
            return NULL;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        while (serve_one(seller, fd)) {
        }
        pthread_mutex_lock(&seller->lock);
        seller->fds[worker->index] = -1;
        close(fd);
        pthread_mutex_unlock(&seller->lock);
    }
}

static void end(void *arg) {
    struct seller *seller = arg;
    pthread_mutex_lock(&seller->lock);
    seller->ending = true;
    shutdown(seller->listener, SHUT_RDWR);
    for (int i = 0; i < THREADS; i++) {
        if (seller->fds[i] >= 0)
            shutdown(seller->fds[i], SHUT_RDWR);
    }
    pthread_mutex_unlock(&seller->lock);
    for (int i = 0; i < seller->started; i++)
        pthread_join(seller->threads[i], NULL);
    close(seller->listener);
    books_close(&seller->books);
}

struct seller *seller_start_many(int items, int faulty, unsigned faults, int stock) {
    struct seller *seller = harness_alloc(sizeof *seller);
    struct worker *workers = harness_alloc(THREADS * sizeof *workers);
    struct books_item *many = harness_alloc((size_t)items * sizeof *many);
    for (int i = 0; i < items; i++) {
        many[i] = (struct books_item){
            .faults = faulty == items || i == faulty ? faults : 0, .stock = stock, .available = stock};
        snprintf(many[i].name, sizeof many[i].name, "demo%s", items > 1 ? harness_format("-%d", i) : "");
    }
    seller->faults = faults;
    seller->books = (struct books){.faults = faults, .items = many, .item_count = items};
    pthread_mutex_init(&seller->lock, NULL);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    seller->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(seller->listener, (const struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(seller->listener, 256) == 0);
    CHECK(getsockname(seller->listener, (struct sockaddr *)&address, &size) == 0);
    seller->port = ntohs(address.sin_port);
    harness_defer(end, seller);
    for (int i = 0; i < THREADS; i++)
        seller->fds[i] = -1;
    for (; seller->started < THREADS; seller->started++) {
        struct worker *worker = &workers[seller->started];
        *worker = (struct worker){.seller = seller, .index = seller->started};
        CHECK_INT(pthread_create(&seller->threads[seller->started], NULL, serve, worker), 0);
    }
    return seller;
}

struct seller *seller_start(unsigned faults, int stock) {
    return seller_start_many(1, 1, faults, stock);
}

int seller_port(const struct seller *seller) {
    return seller->port;
}

void seller_before_answer(struct seller *seller, void (*call)(void)) {
    pthread_mutex_lock(&seller->lock);
    seller->before_answer = call;
    pthread_mutex_unlock(&seller->lock);
}

static int read_locked(struct seller *seller, const int *number) {
    pthread_mutex_lock(&seller->lock);
    int now = *number;
    pthread_mutex_unlock(&seller->lock);
    return now;
}

int seller_requests(struct seller *seller) {
    return read_locked(seller, &seller->books.requests);
}

int seller_orders(struct seller *seller) {
    return read_locked(seller, &seller->books.order_count);
}
