#include "inventory/test/fake_cluster.h"

#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/harness.h"

enum { CLIENTS = 32, ARGS_MAX = 64 };

struct fake_inside {
    pthread_t thread;
    int wake[2];
    int listener[FAKE_SERVERS];
    struct {
        int fd, server;
        bool greeted; /* later questions for the history are answered by the script, like all else */
        redisReader *reader;
    } client[CLIENTS];
};

/* INFO replication of a master that was never promoted. */
static const char *history(struct fake_cluster *fake) {
    const char *info = harness_format("role:master\r\nmaster_replid:%040d\r\nmaster_replid2:%040d\r\n", 1, 0);
    snprintf(fake->text, sizeof fake->text, "$%zu\r\n%s\r\n", strlen(info), info);
    return fake->text;
}

static const char *epoch(struct fake_cluster *fake, int server) {
    const char *info = harness_format("cluster_current_epoch:%d\r\n", fake->epoch[server]);
    snprintf(fake->text, sizeof fake->text, "$%zu\r\n%s\r\n", strlen(info), info);
    return fake->text;
}

static void reply_to(struct fake_cluster *fake, int client, const redisReply *command) {
    int fd = fake->inside->client[client].fd, server = fake->inside->client[client].server;
    bool *greeted = &fake->inside->client[client].greeted;
    const char *argv[ARGS_MAX], *text = NULL;
    int argc = 0;
    for (size_t i = 0; i < command->elements && i < ARGS_MAX; i++)
        argv[argc++] = command->element[i]->str;
    if (argc > 0 && strcmp(argv[0], "SELECT") == 0) {
        text = "+OK\r\n";
    } else if (argc > 0 && strcmp(argv[0], "INFO") == 0 && !*greeted) {
        *greeted = true;
        text = history(fake);
    } else if (fake->epoch[server] && argc > 1 && strcmp(argv[1], "INFO") == 0) {
        text = epoch(fake, server);
    } else if (argc > 3 && strstr(argv[3], "{sellers}")) {
        text = ":1\r\n"; /* who lives, and has shown what it has */
    } else {
        fake->commands++;
        fake->maps += argc > 1 && strcmp(argv[1], "SLOTS") == 0;
        text = fake->answer(fake, server, argc, argv);
    }
    if (text && write(fd, text, strlen(text)) < 0)
        return; /* the seller has left; that shows when it is read */
}

static void leave(struct fake_inside *inside, int i) {
    close(inside->client[i].fd);
    redisReaderFree(inside->client[i].reader);
    inside->client[i].fd = -1;
}

static void serve(struct fake_cluster *fake, int i) {
    struct fake_inside *inside = fake->inside;
    char bytes[4096];
    void *command = NULL;
    ssize_t n = read(inside->client[i].fd, bytes, sizeof bytes);
    redisReader *reader = inside->client[i].reader;
    if (n <= 0 || redisReaderFeed(reader, bytes, (size_t)n) != REDIS_OK) {
        leave(inside, i);
        return;
    }
    while (redisReaderGetReply(reader, &command) == REDIS_OK && command) {
        reply_to(fake, i, command);
        freeReplyObject(command);
        command = NULL;
    }
}

static void let_in(struct fake_inside *inside, int server) {
    int fd = accept4(inside->listener[server], NULL, NULL, SOCK_CLOEXEC), i = 0;
    while (i < CLIENTS && inside->client[i].fd >= 0)
        i++;
    if (i == CLIENTS) {
        close(fd);
        return;
    }
    inside->client[i].fd = fd;
    inside->client[i].server = server;
    inside->client[i].greeted = false;
    inside->client[i].reader = redisReaderCreate();
}

static void *run(void *arg) {
    struct fake_cluster *fake = arg;
    struct fake_inside *inside = fake->inside;
    struct pollfd polled[1 + FAKE_SERVERS + CLIENTS] = {{.fd = inside->wake[0], .events = POLLIN}};
    while (!polled[0].revents) {
        for (int i = 0; i < FAKE_SERVERS; i++)
            polled[1 + i] = (struct pollfd){.fd = inside->listener[i], .events = POLLIN};
        for (int i = 0; i < CLIENTS; i++)
            polled[1 + FAKE_SERVERS + i] = (struct pollfd){.fd = inside->client[i].fd, .events = POLLIN};
        if (poll(polled, 1 + FAKE_SERVERS + CLIENTS, -1) < 0)
            continue;
        for (int i = 0; i < CLIENTS; i++) {
            if (polled[1 + FAKE_SERVERS + i].revents)
                serve(fake, i);
        }
        for (int i = 0; i < FAKE_SERVERS; i++) {
            if (polled[1 + i].revents)
                let_in(inside, i);
        }
    }
    return NULL;
}

static void stop(void *arg) {
    struct fake_inside *inside = ((struct fake_cluster *)arg)->inside;
    close(inside->wake[1]);
    pthread_join(inside->thread, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        if (inside->client[i].fd >= 0)
            leave(inside, i);
    }
    for (int i = 0; i < FAKE_SERVERS; i++)
        close(inside->listener[i]);
    close(inside->wake[0]);
}

void fake_cluster_start(struct fake_cluster *fake, fake_answer_fn *answer) {
    struct fake_inside *inside = harness_alloc(sizeof *inside);
    *fake = (struct fake_cluster){.answer = answer, .inside = inside};
    CHECK_INT(pipe(inside->wake), 0);
    for (int i = 0; i < FAKE_SERVERS; i++) {
        fake->port[i] = harness_free_port();
        struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)fake->port[i]),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int on = 1;
        inside->listener[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(setsockopt(inside->listener[i], SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
        CHECK(bind(inside->listener[i], (struct sockaddr *)&at, sizeof at) == 0 &&
              listen(inside->listener[i], 16) == 0);
    }
    for (int i = 0; i < CLIENTS; i++)
        inside->client[i].fd = -1;
    CHECK_INT(pthread_create(&inside->thread, NULL, run, fake), 0);
    harness_defer(stop, fake);
}

const char *fake_cluster_map(struct fake_cluster *fake, int server) {
    snprintf(fake->text, sizeof fake->text, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n",
             fake->port[server]);
    return fake->text;
}
