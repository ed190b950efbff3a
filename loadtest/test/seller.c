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
#include "test/harness.h"

enum { THREADS = 40, ORDERS_MAX = 4000, KEYS_MAX = 100000, EXTRA = 5 };

struct item {
    char name[32];
    unsigned faults;
    int stock;
    int available; /* below zero once oversold */
    int audits;
    int sold;        /* orders acknowledged; numbers them */
    int order_count; /* of these: written */
    int units;       /* in them */
};

struct order {
    struct item *item;
    int number;
    int quantity;
    char key[64];
    char user[64];
};

struct seller {
    unsigned faults;
    int port;
    int listener;
    pthread_t threads[THREADS];
    pthread_mutex_t lock; /* of all that follows */
    bool ending;
    int fds[THREADS]; /* of each thread's connection, -1: none */
    int started;
    int requests;
    int answers;
    struct item *items;
    int item_count;
    int order_count;
    struct order orders[ORDERS_MAX];
    unsigned char tries[KEYS_MAX];
};

struct worker {
    struct seller *seller;
    int index;
};

struct answer {
    int status;
    bool replayed;
    char body[512];
};

/* What is to be done instead of answering as one should. */
enum mischief { NONE, DROP, GARBLE, SILENCE };

static void say(struct answer *answer, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say(struct answer *answer, int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(answer->body, sizeof answer->body, format, arguments);
    va_end(arguments);
    answer->status = status;
}

static void say_order(struct answer *answer, int status, const struct order *order) {
    say(answer, status,
        "{\"order\":\"%s:%d\",\"item\":\"%s\",\"user\":\"%s\",\"quantity\":%d,\"state\":\"confirmed\"}",
        order->item->name, order->number, order->item->name, order->user, order->quantity);
}

static void say_sold_out(const struct item *item, struct answer *answer) {
    say(answer, 409, "{\"type\":\"/problems/sold-out\",\"available\":%d}",
        item->available > 0 ? item->available : 0);
}

static void write_order(struct seller *seller, struct order *order) {
    if (seller->order_count == ORDERS_MAX)
        return;
    seller->orders[seller->order_count++] = *order;
    order->item->order_count++;
    order->item->units += order->quantity;
}

static void sell(struct seller *seller, struct order *order, struct answer *answer) {
    struct item *item = order->item;
    item->available -= order->quantity;
    order->number = ++item->sold;
    say_order(answer, 201, order);
    bool tenth = order->number % 10 == 0;
    if (tenth && (item->faults & SELLER_LOSES))
        return;
    if (tenth && (item->faults & SELLER_ALTERS))
        snprintf(order->user, sizeof order->user, "somebody-else");
    write_order(seller, order);
    if (tenth && (item->faults & SELLER_PHANTOM) && item->available >= order->quantity) {
        order->number = ++item->sold;
        order->key[0] = '\0';
        item->available -= order->quantity;
        write_order(seller, order);
    }
}

static int to_int(const char *digits) {
    return (int)strtol(digits, NULL, 10);
}

static void copy_after(const char *text, const char *before, const char *end, char *value, size_t size) {
    const char *at = strstr(text, before);
    at = at != NULL ? at + strlen(before) : "";
    snprintf(value, size, "%.*s", (int)strcspn(at, end), at);
}

/* The item whose name stands after `before`, up to `end`; NULL if there is none. */
static struct item *find_item(struct seller *seller, const char *request, const char *before,
                              const char *end) {
    char name[64];
    copy_after(request, before, end, name, sizeof name);
    for (int i = 0; i < seller->item_count; i++) {
        if (strcmp(seller->items[i].name, name) == 0)
            return &seller->items[i];
    }
    return NULL;
}

static const struct order *find_order(const struct seller *seller, const char *key) {
    const struct order *known = NULL;
    for (int i = 0; i < seller->order_count; i++) {
        if (strcmp(seller->orders[i].key, key) == 0)
            known = &seller->orders[i];
    }
    return known;
}

static enum mischief buy(struct seller *seller, struct item *item, const char *request,
                         struct answer *answer) {
    struct order order = {.item = item};
    char quantity[16];
    copy_after(request, "Idempotency-Key: ", "\r", order.key, sizeof order.key);
    copy_after(request, "\"user\":\"", "\"", order.user, sizeof order.user);
    copy_after(request, "\"quantity\":", "}", quantity, sizeof quantity);
    order.quantity = to_int(quantity);
    int key = strlen(order.key) > 10 ? to_int(order.key + strlen(order.key) - 10) % KEYS_MAX : 0;
    bool early = seller->tries[key]++ < 2;
    seller->requests++;
    if (key % 3 == 0 && (item->faults & SELLER_SILENT))
        return SILENCE;

    const struct order *known = item->faults & SELLER_SELLS_TWICE ? NULL : find_order(seller, order.key);
    int least = item->faults & SELLER_OVERSELLS ? -EXTRA : item->faults & SELLER_UNDERSELLS ? EXTRA : 0;
    if (known != NULL && known->item != item) {
        say(answer, 422, "{\"type\":\"/problems/key-reused\"}");
    } else if (known != NULL && !(item->faults & SELLER_FORGETS)) {
        say_order(answer, 201, known);
        answer->replayed = true;
    } else if (known != NULL || item->available - order.quantity < least) {
        say_sold_out(item, answer);
    } else {
        sell(seller, &order, answer);
    }
    if (!early || key % 3 != 0)
        return NONE;
    if (item->faults & SELLER_SAYS_503)
        say(answer, 503, "{\"type\":\"/problems/overloaded\"}");
    return item->faults & SELLER_DROPS_REPLIES ? DROP : item->faults & SELLER_GARBLES ? GARBLE : NONE;
}

static void audit(struct item *item, const char *request, struct answer *answer) {
    item->audits++;
    if (strstr(request, "Authorization: Bearer test-token\r\n") == NULL) {
        say(answer, 401, "{\"type\":\"/problems/unauthorized\"}");
        return;
    }
    if (item->audits > 1 && (item->faults & SELLER_AUDITS_ONCE)) {
        say(answer, 503, "{\"type\":\"/problems/store-unavailable\"}");
        return;
    }
    bool lies = (item->faults & SELLER_LIES) != 0;
    say(answer, 200,
        "{\"conserved\":%s,\"stock\":%d,\"available\":%d,\"held\":0,\"sold\":%d,\"orders\":%d,\"oversold\":%"
        "d}",
        item->faults & SELLER_UNBALANCED ? "false" : "true", item->stock,
        item->available > 0 ? item->available : 0, lies ? item->sold : item->units,
        lies ? item->sold : item->order_count, lies || item->available > 0 ? 0 : -item->available);
}

static void show_order(const struct seller *seller, const struct item *item, const char *request,
                       struct answer *answer) {
    int number = to_int(strchr(request, ':') + 1);
    say(answer, 404, "{\"type\":\"/problems/unknown-order\"}");
    for (int i = 0; i < seller->order_count; i++) {
        if (seller->orders[i].item == item && seller->orders[i].number == number)
            say_order(answer, 200, &seller->orders[i]);
    }
}

static enum mischief decide(struct seller *seller, const char *request, struct answer *answer) {
    struct item *item = NULL;
    if (strncmp(request, "POST /v1/purchases ", 19) == 0) {
        item = find_item(seller, request, "\"item\":\"", "\"");
        if (item != NULL)
            return buy(seller, item, request, answer);
    } else if (strncmp(request, "GET /v1/orders/", 15) == 0) {
        item = find_item(seller, request, "GET /v1/orders/", ":");
        if (item != NULL)
            show_order(seller, item, request, answer);
    } else {
        item = find_item(seller, request, "GET /v1/items/", "/");
        if (item != NULL)
            audit(item, request, answer);
    }
    if (item == NULL)
        say(answer, 404, "{\"type\":\"/problems/unknown-item\"}");
    return NONE;
}

static bool send_text(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool send_text(int fd, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return send(fd, text, (size_t)length, MSG_NOSIGNAL) == length;
}

/* True if the connection goes on. */
static bool reply(int fd, const struct answer *answer, bool awkward, int number) {
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

/* A whole request, ended by a NUL; false when the connection has ended. */
static bool receive(int fd, char *request, size_t size) {
    size_t held = 0;
    for (;;) {
        request[held] = '\0';
        const char *body = strstr(request, "\r\n\r\n");
        if (body != NULL) {
            char length[16];
            copy_after(request, "Content-Length: ", "\r", length, sizeof length);
            if (strlen(body + 4) >= (size_t)to_int(length))
                return true;
        }
        ssize_t got = recv(fd, request + held, size - held - 1, 0);
        if (got <= 0)
            return false;
        held += (size_t)got;
    }
}

static bool serve_one(struct seller *seller, int fd) {
    char request[4096];
    struct answer answer = {.status = 0};
    if (!receive(fd, request, sizeof request))
        return false;
    pthread_mutex_lock(&seller->lock);
    enum mischief mischief = decide(seller, request, &answer);
    int number = seller->answers++;
    pthread_mutex_unlock(&seller->lock);
    switch (mischief) {
    case DROP: return false;
    case GARBLE: send_text(fd, "HTTP/1.1 two hundred\r\n\r\n"); return false;
    case SILENCE: return receive(fd, request, sizeof request); /* until the other side has had enough */
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
}

static struct seller *start(struct item *items, int item_count, unsigned faults) {
    struct seller *seller = harness_alloc(sizeof *seller);
    struct worker *workers = harness_alloc(THREADS * sizeof *workers);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    seller->faults = faults;
    seller->items = items;
    seller->item_count = item_count;
    pthread_mutex_init(&seller->lock, NULL);
    seller->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(seller->listener, (const struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(seller->listener, 256) == 0);
    CHECK(getsockname(seller->listener, (struct sockaddr *)&address, &size) == 0);
    seller->port = ntohs(address.sin_port);
    harness_defer(end, seller);
    for (int i = 0; i < THREADS; i++)
        seller->fds[i] = -1;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.seller = seller, .index = i};
        CHECK_INT(pthread_create(&seller->threads[i], NULL, serve, &workers[i]), 0);
        seller->started++;
    }
    return seller;
}

struct seller *seller_start(unsigned faults, int stock) {
    struct item *item = harness_alloc(sizeof *item);
    *item = (struct item){.name = "demo", .faults = faults, .stock = stock, .available = stock};
    return start(item, 1, faults);
}

struct seller *seller_start_many(int items, int faulty, unsigned faults, int stock) {
    struct item *many = harness_alloc((size_t)items * sizeof *many);
    for (int i = 0; i < items; i++) {
        many[i] = (struct item){.faults = i == faulty ? faults : 0, .stock = stock, .available = stock};
        snprintf(many[i].name, sizeof many[i].name, "demo-%d", i);
    }
    return start(many, items, faults);
}

int seller_port(const struct seller *seller) {
    return seller->port;
}

int seller_requests(struct seller *seller) {
    pthread_mutex_lock(&seller->lock);
    int requests = seller->requests;
    pthread_mutex_unlock(&seller->lock);
    return requests;
}

int seller_orders(struct seller *seller) {
    pthread_mutex_lock(&seller->lock);
    int orders = seller->order_count;
    pthread_mutex_unlock(&seller->lock);
    return orders;
}
