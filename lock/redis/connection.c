#include "lock/redis/connection.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "lock/core/waiter.h"
#include "lock/redis/dial.h"

enum { NUMBER_SIZE = 32 }; /* a mark, digits, and two ends of lines */

/* After a failed connect calls fail at once for so long. */
static const int64_t retry_ns = 100000000;
static const int64_t idle_ns = 50000000;
/* Who waits looks for so long before it sleeps, if the store has answered that quickly the last time: to be
 * woken costs more than most answers take, where processors sleep deeply. Who could run meanwhile does. */
static const int64_t look_ns = 200000;

struct redis_link {
    struct redis_target target;
    const struct lock_env *env; /* may be NULL */
    int timeout_ms;
    pthread_mutex_t mutex; /* not held while the socket is read or written */
    redisContext *hiredis; /* NULL: not connected */
    bool reading;          /* there is a leader, if perhaps it does not know yet */
    bool writing;          /* somebody is at it */
    _Atomic bool quick;    /* the store answers within look_ns */
    bool broken;           /* to be closed by the last who reads or writes */
    bool leaving;          /* broken as soon as all that is under way is answered; nothing more is sent */
    int64_t retry_at_ns, used_ns;
    struct redis_call *oldest, *newest;
    uint64_t queued, written, answered; /* bytes of commands */
    char *out;                          /* queued and not yet being written */
    size_t out_length, out_size;
};

static int64_t now_ns(void) {
    return clock_mono_ns(&clock_system);
}

struct redis_link *redis_link_open(const struct redis_target *target, int timeout_ms,
                                   const struct lock_env *env) {
    struct redis_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->target = *target;
    link->env = env;
    link->timeout_ms = timeout_ms;
    pthread_mutex_init(&link->mutex, NULL);
    return link;
}

void redis_link_close(struct redis_link *link) {
    if (!link)
        return;
    redisFree(link->hiredis);
    while (link->oldest) { /* left */
        struct redis_call *next = link->oldest->next;
        free(link->oldest);
        link->oldest = next;
    }
    pthread_mutex_destroy(&link->mutex);
    free(link->out);
    free(link);
}

void redis_link_tell(const struct redis_link *link, const char *why) {
    char server[sizeof link->target.host + 16];
    snprintf(server, sizeof server, strchr(link->target.host, ':') ? "[%s]:%d" : "%s:%d", link->target.host,
             link->target.port);
    lock_env_failed(link->env, server, why);
}

/* ---- all below: with the mutex held, unless it says otherwise ---- */

static void post(struct redis_call *call) {
    atomic_fetch_add(&call->posts, 1);
    sem_post(&call->ready);
}

static void close_if_unused(struct redis_link *link) {
    if (!link->broken || link->reading || link->writing)
        return;
    redisFree(link->hiredis);
    link->hiredis = NULL;
    link->broken = link->leaving = false;
    link->out_length = 0;
    link->queued = link->written = link->answered = 0;
}

/* A call that ends by another thread's hand, as all do but the `leader`'s own (NULL: nobody's), must be
 * posted. NULL: its caller has left. */
static struct redis_call *finish_oldest(struct redis_link *link, enum lock_status status,
                                        const struct redis_call *leader) {
    struct redis_call *call = link->oldest;
    link->oldest = call->next;
    if (!link->oldest)
        link->newest = NULL;
    link->answered = call->ends_at;
    if (call->left) {
        free(call);
        return NULL;
    }
    call->next = NULL;
    call->status = status;
    call->told = call != leader;
    call->done = true;
    return call;
}

static void append(struct redis_link *link, struct redis_call *call) {
    call->ends_at = link->queued;
    if (link->newest)
        link->newest->next = call;
    else
        link->oldest = call;
    link->newest = call;
}

/* A command that was not written to its end was not carried out. `why`: an errno, 0: the other side closed
 * it. */
static void break_link(struct redis_link *link, int why) {
    char text[128];
    if (!link->broken && link->hiredis) {
        link->broken = true;
        if (why == ETIMEDOUT)
            snprintf(text, sizeof text, "no answer within %d ms", link->timeout_ms);
        else
            snprintf(text, sizeof text, "%s", why ? strerror(why) : "it closed the connection");
        if (link->oldest) /* otherwise it was closed while nobody wanted anything of it */
            redis_link_tell(link, text);
        shutdown(link->hiredis->fd, SHUT_RDWR);
        while (link->oldest) {
            bool written = link->oldest->ends_at <= link->written;
            struct redis_call *call = finish_oldest(link, written ? LOCK_UNKNOWN : LOCK_UNAVAILABLE, NULL);
            if (call)
                post(call);
        }
    }
    close_if_unused(link);
}

/* Others wait meanwhile: they need the connection too. */
static bool connect_link(struct redis_link *link) {
    if (now_ns() < link->retry_at_ns)
        return false;
    char why[LOCK_ERROR_SIZE];
    link->hiredis = redis_dial(&link->target, link->timeout_ms, why, sizeof why);
    if (!link->hiredis) {
        link->retry_at_ns = now_ns() + retry_ns;
        redis_link_tell(link, why);
    }
    return link->hiredis != NULL;
}

static int64_t time_out_ns(const struct redis_link *link) {
    return now_ns() + (int64_t)link->timeout_ms * 1000000;
}

/* True: a third of the time-out is left at least, which is as much as one answer took where there were two to
 * connect. Otherwise the connection is there for the next. */
static bool has_time(const struct redis_link *link, int64_t until_ns) {
    bool has = until_ns - now_ns() >= (int64_t)link->timeout_ms * 1000000 / 3;
    if (!has)
        redis_link_tell(link, "connected, but too late for what was to be sent");
    return has;
}

/* The other side may have closed a connection that nobody used for a while; noticed now, the next command
 * need not end as unknown. */
static void check_idle(struct redis_link *link) {
    char byte;
    int64_t now = now_ns();
    bool idle = link->hiredis && !link->oldest && now - link->used_ns > idle_ns;
    link->used_ns = now;
    if (idle && (recv(link->hiredis->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN))
        break_link(link, 0);
}

/* The mark, a number, and the end of a line. */
static char *put_number(char *at, char mark, size_t number) {
    char digits[NUMBER_SIZE];
    int count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    *at++ = mark;
    while (count)
        *at++ = digits[--count];
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

/* As the protocol has it (RESP, "arrays of bulk strings"). hiredis would do it with printf and a copy, which
 * cost more than all else that is done for a call here. */
static bool queue_command(struct redis_link *link, int argc, const char *const argv[]) {
    size_t most = NUMBER_SIZE;
    for (int i = 0; i < argc; i++)
        most += NUMBER_SIZE + strlen(argv[i]);
    if (link->out_length + most > link->out_size) {
        char *out = realloc(link->out, 2 * (link->out_length + most));
        if (!out)
            return false;
        link->out = out;
        link->out_size = 2 * (link->out_length + most);
    }
    char *begin = link->out + link->out_length, *at = put_number(begin, '*', (size_t)argc);
    for (int i = 0; i < argc; i++) {
        size_t length = strlen(argv[i]);
        at = put_number(at, '$', length);
        memcpy(at, argv[i], length);
        at += length;
        *at++ = '\r';
        *at++ = '\n';
    }
    link->out_length += (size_t)(at - begin);
    link->queued += (uint64_t)(at - begin);
    return true;
}

/* Without the mutex. 0, or an errno: broken, or not taken before the time is up. `*sent` counts what was. */
static int write_all(int fd, const char *bytes, size_t length, int64_t until_ns, size_t *sent) {
    while (*sent < length) {
        ssize_t n = send(fd, bytes + *sent, length - *sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) {
            *sent += (size_t)n;
            continue;
        }
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        int64_t left_ms = (until_ns - now_ns()) / 1000000;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            return errno;
        if (left_ms <= 0)
            return ETIMEDOUT;
        poll(&ready, 1, (int)left_ms);
    }
    return 0;
}

/* What gathered leaves when nothing is under way, or as a second lot when it is as large as the first: the
 * store works on one while the answers to the other travel, and neither is small. */
static bool may_leave(const struct redis_link *link) {
    return link->out_length > 0 && !link->broken && link->out_length >= link->written - link->answered;
}

/* Writes what is queued, of all callers, unless somebody is at it already, who then does. */
static void flush_commands(struct redis_link *link, int64_t until_ns) {
    if (link->writing || !may_leave(link))
        return;
    link->writing = true;
    while (may_leave(link)) {
        char *bytes = link->out;
        size_t length = link->out_length, size = link->out_size, sent = 0;
        int fd = link->hiredis->fd;
        link->out = NULL;
        link->out_length = link->out_size = 0;
        link->written += length; /* of what is being written nobody knows; whoever breaks it must not */
        pthread_mutex_unlock(&link->mutex);
        int why = write_all(fd, bytes, length, until_ns, &sent);
        pthread_mutex_lock(&link->mutex);
        link->written -= length - sent;
        if (link->out) {
            free(bytes);
        } else {
            link->out = bytes; /* for the next */
            link->out_size = size;
        }
        if (why)
            break_link(link, why);
    }
    link->writing = false;
    close_if_unused(link);
}

static void read_answer(struct redis_answer *answer, const redisReply *reply) {
    answer->type = REDIS_ANSWER_NIL;
    answer->integer = 0;
    answer->text[0] = '\0';
    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        answer->type = REDIS_ANSWER_INTEGER;
        answer->integer = reply->integer;
        break;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
        answer->type = reply->type == REDIS_REPLY_ERROR ? REDIS_ANSWER_ERROR : REDIS_ANSWER_TEXT;
        snprintf(answer->text, sizeof answer->text, "%s", reply->str);
        break;
    case REDIS_REPLY_ARRAY: answer->type = REDIS_ANSWER_LIST; break;
    default: break;
    }
}

/* Before 7.0 what a script meets stands within the error. */
bool redis_answer_is_replica(const struct redis_answer *answer) {
    return answer->type == REDIS_ANSWER_ERROR &&
           (strstr(answer->text, "READONLY ") || strncmp(answer->text, "MASTERDOWN", 10) == 0);
}

/* That it does not have a script is no failure: it is sent then. */
static void note_error(struct redis_link *link, const struct redis_answer *answer) {
    if (answer->type == REDIS_ANSWER_ERROR && strncmp(answer->text, "NOSCRIPT", 8) != 0)
        redis_link_tell(link, answer->text);
    link->leaving = link->leaving || redis_answer_is_replica(answer);
}

static void leave(struct redis_link *link) {
    if (!link->leaving || link->oldest)
        return;
    link->retry_at_ns = now_ns() + retry_ns; /* it may be a replica still */
    break_link(link, 0);
}

/* Hands out the answers that are there, and lists in `*done` the calls that are still to be posted. False:
 * not the protocol, or an answer to nothing. */
static bool deal(struct redis_link *link, const char *bytes, size_t length, const struct redis_call *leader,
                 struct redis_call **done) {
    redisReader *reader = link->hiredis->reader;
    void *reply = NULL;
    bool good = redisReaderFeed(reader, bytes, length) == REDIS_OK;
    while (good && (good = redisReaderGetReply(reader, &reply) == REDIS_OK) && reply) {
        good = link->oldest != NULL;
        if (good) {
            read_answer(link->oldest->answer, reply);
            note_error(link, link->oldest->answer);
            struct redis_call *call = finish_oldest(link, LOCK_OK, leader);
            if (call && call->told) {
                *done = call;
                done = &call->next;
            }
        }
        freeReplyObject(reply);
        reply = NULL;
    }
    return good;
}

/* Without the mutex, so that those who are told do not run into it. A call is gone once it was posted. */
static void post_all(struct redis_call *done) {
    while (done) {
        struct redis_call *call = done;
        done = call->next;
        post(call);
    }
}

/* Whoever leads has to name the next: the one whose answer comes next, which it then reads itself. */
static void name_leader(struct redis_link *link) {
    struct redis_call *next = link->oldest;
    while (next && next->left)
        next = next->next;
    link->reading = next != NULL;
    if (next) {
        next->leads = true;
        post(next);
    }
    close_if_unused(link);
}

/* A copy takes the place of the call, which has no answer yet, so that its caller may go. False when out of
 * memory. */
static bool leave_call(struct redis_link *link, struct redis_call *call) {
    struct {
        struct redis_call call;
        struct redis_answer answer;
    } *copy = malloc(sizeof *copy);
    if (!copy)
        return false;
    copy->call = (struct redis_call){
        .next = call->next, .answer = &copy->answer, .ends_at = call->ends_at, .left = true};
    struct redis_call **at = &link->oldest;
    while (*at && *at != call)
        at = &(*at)->next;
    *at = &copy->call;
    if (link->newest == call)
        link->newest = &copy->call;
    call->status = LOCK_UNKNOWN;
    call->done = true;
    return true;
}

/* Without the mutex. ETIMEDOUT: the time is up. */
static ssize_t receive(struct redis_link *link, int fd, char *bytes, size_t size, int64_t until_ns) {
    int64_t since_ns = now_ns(), sleep_ns = atomic_load(&link->quick) ? since_ns + look_ns : since_ns;
    ssize_t n;
    while ((n = recv(fd, bytes, size, MSG_DONTWAIT)) < 0 && errno == EAGAIN && now_ns() < sleep_ns)
        sched_yield();
    if (n < 0 && errno == EAGAIN) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int64_t left_ms = (until_ns - now_ns()) / 1000000;
        if (left_ms <= 0)
            errno = ETIMEDOUT;
        else if (poll(&ready, 1, (int)left_ms) >= 0)
            n = recv(fd, bytes, size, MSG_DONTWAIT);
        atomic_store(&link->quick, now_ns() - since_ns < look_ns);
    }
    return n;
}

/* Reads for all until its own call is done, or left. */
static void lead(struct redis_link *link, struct redis_call *call, const struct lock_cancel *cancel) {
    char bytes[16384];
    bool named = false;
    while (!call->done) {
        struct redis_call *done = NULL;
        assert(link->hiredis); /* whoever breaks it leaves no call that is not done */
        int fd = link->hiredis->fd;
        pthread_mutex_unlock(&link->mutex);
        int64_t until_ns = lock_cancel_poll_ns(cancel, now_ns(), call->until_ns);
        ssize_t n = receive(link, fd, bytes, sizeof bytes, until_ns);
        int why = n < 0 ? errno : 0;
        bool nothing_yet = why == EINTR || why == EAGAIN || (why == ETIMEDOUT && until_ns < call->until_ns);
        pthread_mutex_lock(&link->mutex);
        if (n > 0 && !link->broken && !deal(link, bytes, (size_t)n, call, &done))
            break_link(link, EPROTO);
        else if (n <= 0 && !nothing_yet)
            break_link(link, why);
        flush_commands(link, call->until_ns);
        leave(link);
        if (!call->done && lock_cancel_called(cancel))
            leave_call(link, call);
        named = call->done;
        if (named)
            name_leader(link);
        pthread_mutex_unlock(&link->mutex);
        post_all(done);
        pthread_mutex_lock(&link->mutex);
    }
    if (!named) /* broken while the others were told */
        name_leader(link);
}

/* Without the mutex: waits to be told, and gives up the connection when its time is up. False: cancelled, and
 * the call is left. */
static bool follow(struct redis_link *link, struct redis_call *call, const struct lock_cancel *cancel) {
    for (int64_t sleep_ns = now_ns() + look_ns; atomic_load(&link->quick) && now_ns() < sleep_ns;
         sched_yield()) {
        if (sem_trywait(&call->ready) == 0)
            return true;
    }
    for (int64_t late_ns = call->until_ns;;) {
        int64_t until_ns = lock_cancel_poll_ns(cancel, now_ns(), late_ns);
        struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
        if (sem_clockwait(&call->ready, CLOCK_MONOTONIC, &until) == 0)
            return true;
        if (errno != ETIMEDOUT)
            continue;
        bool left = false, late = until_ns == late_ns;
        pthread_mutex_lock(&link->mutex);
        if (!call->done && late)
            break_link(link, ETIMEDOUT);
        else if (!call->done && !call->leads && lock_cancel_called(cancel))
            left = leave_call(link, call);
        pthread_mutex_unlock(&link->mutex);
        if (left)
            return false;
        if (late)
            late_ns += 3600 * INT64_C(1000000000); /* by now, or in a moment, there is a post */
    }
}

/* `until_ns`: to be answered by then, also where it has to connect first; 0: within the time-out once
 * connected. */
static void begin_call(struct redis_link *link, struct redis_call *call, int argc, const char *const argv[],
                       struct redis_answer *answer, int64_t until_ns) {
    *call = (struct redis_call){.answer = answer, .status = LOCK_UNAVAILABLE, .done = true};
    sem_init(&call->ready, 0, 0);
    pthread_mutex_lock(&link->mutex);
    check_idle(link);
    if (link->leaving && !link->reading) /* all who waited have left */
        break_link(link, 0);
    if (!link->broken && !link->leaving && (link->hiredis || connect_link(link)) &&
        (!until_ns || has_time(link, until_ns))) {
        call->until_ns = until_ns ? until_ns : time_out_ns(link);
        if (queue_command(link, argc, argv)) {
            call->done = false;
            append(link, call);
        } else {
            call->status = LOCK_NOMEM;
        }
    }
    pthread_mutex_unlock(&link->mutex);
}

void redis_link_begin(struct redis_link *link, struct redis_call *call, int argc, const char *const argv[],
                      struct redis_answer *answer) {
    begin_call(link, call, argc, argv, answer, 0);
}

static enum lock_status end_call(struct redis_link *link, struct redis_call *call,
                                 const struct lock_cancel *cancel) {
    int posts = 0;
    pthread_mutex_lock(&link->mutex);
    if (!call->done)
        flush_commands(link, call->until_ns);
    if (!call->done && link->reading) {
        pthread_mutex_unlock(&link->mutex);
        bool told = follow(link, call, cancel);
        atomic_load(&call->posts);
        if (!told || !call->leads)
            goto done; /* that was the post, and there is no other; or there is none */
        posts = 1;
        pthread_mutex_lock(&link->mutex);
    }
    if (!call->done) {
        link->reading = true;
        lead(link, call, cancel);
    } else if (call->leads) {
        name_leader(link); /* it was named, and then the connection broke */
    }
    int all = call->leads + call->told;
    pthread_mutex_unlock(&link->mutex);
    while (posts < all) /* whoever posts must be done with it before it goes */
        posts += sem_wait(&call->ready) == 0;
done:
    sem_destroy(&call->ready);
    return call->status;
}

enum lock_status redis_link_end(struct redis_link *link, struct redis_call *call) {
    return end_call(link, call, NULL);
}

enum lock_status redis_link_call(struct redis_link *link, int argc, const char *const argv[],
                                 struct redis_answer *answer, const struct lock_cancel *cancel) {
    struct redis_call call;
    begin_call(link, &call, argc, argv, answer, time_out_ns(link));
    return end_call(link, &call, cancel);
}
