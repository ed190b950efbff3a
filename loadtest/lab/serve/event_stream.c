/* An event stream: follows the file of a run, and sends its lines as Server-Sent Events. */
#include "loadtest/lab/serve/page_server.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { STREAMS_MAX = 16, PERIOD_MS = 20, COMMENT_MS = 5000, READ_SIZE = 65536 };

struct event_stream {
    struct run_control *control;
    struct lab_run run;
    int fd;        /* -1: the file is not there yet */
    int64_t next;  /* the number of the line to be read next */
    int64_t after; /* lines up to this one are not sent */
    char *text;    /* the part of a line that was read */
    size_t text_length, text_size;
    char *out; /* lines to be sent */
    size_t out_from, out_length, out_size;
    bool told_end;
    int64_t sent_ns;
};

static atomic_int streams;

struct event_stream *event_stream_open(struct run_control *control, const struct lab_run *run,
                                       int64_t after) {
    struct event_stream *s = NULL;
    if (atomic_fetch_add(&streams, 1) >= STREAMS_MAX || !(s = calloc(1, sizeof *s))) {
        atomic_fetch_sub(&streams, 1);
        return NULL;
    }
    *s = (struct event_stream){
        .control = control, .run = *run, .fd = -1, .after = after, .sent_ns = clock_now_ns()};
    return s;
}

void event_stream_close(struct event_stream *s) {
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    free(s->text);
    free(s->out);
    free(s);
    atomic_fetch_sub(&streams, 1);
}

/* ---- writing ---- */

/* Returns false when out of memory. */
static bool make_room(char **text, size_t *size, size_t wanted) {
    if (wanted <= *size)
        return true;
    size_t larger = wanted * 2;
    char *grown = realloc(*text, larger);
    if (!grown)
        return false;
    *text = grown;
    *size = larger;
    return true;
}

static bool put(struct event_stream *s, const char *text, size_t length) {
    if (!make_room(&s->out, &s->out_size, s->out_length + length))
        return false;
    memcpy(s->out + s->out_length, text, length);
    s->out_length += length;
    return true;
}

static bool put_line(struct event_stream *s, const char *line, size_t length) {
    char head[64];
    int64_t number = s->next++;
    if (number <= s->after)
        return true;
    int head_length = snprintf(head, sizeof head, "id: %lld\ndata: ", (long long)number);
    return put(s, head, (size_t)head_length) && put(s, line, length) && put(s, "\n\n", 2);
}

/* ---- reading ---- */

/* Moves the whole lines of what was read to the output. */
static bool move_lines(struct event_stream *s) {
    size_t from = 0;
    const char *end;
    while ((end = memchr(s->text + from, '\n', s->text_length - from))) {
        size_t length = (size_t)(end - s->text) - from;
        if (!put_line(s, s->text + from, length))
            return false;
        from += length + 1;
    }
    memmove(s->text, s->text + from, s->text_length - from);
    s->text_length -= from;
    return true;
}

/* Returns false if there is nothing new, or when out of memory. */
static bool read_more(struct event_stream *s) {
    if (s->fd < 0 && (s->fd = open(s->run.events, O_RDONLY | O_CLOEXEC)) < 0)
        return false;
    if (!make_room(&s->text, &s->text_size, s->text_length + READ_SIZE))
        return false;
    ssize_t got = read(s->fd, s->text + s->text_length, READ_SIZE);
    if (got <= 0)
        return false;
    s->text_length += (size_t)got;
    return move_lines(s);
}

/* Returns whether the run has ended, or is not kept any more. */
static bool has_ended(struct event_stream *s) {
    struct lab_run run;
    return !run_control_find(s->control, s->run.id, &run) || run.ended;
}

/* Waits until there is something to send. */
static void fill_output(struct event_stream *s) {
    const struct timespec period = {.tv_nsec = PERIOD_MS * 1000000L};
    s->out_from = s->out_length = 0;
    while (s->out_length == 0) {
        bool ended = has_ended(s); /* asked before the read, so that the last lines are not missed */
        if (read_more(s))
            continue;
        if (ended) {
            s->told_end = put(s, "event: end\ndata: {}\n\n", 21);
            return;
        }
        if (clock_now_ns() - s->sent_ns > COMMENT_MS * INT64_C(1000000))
            put(s, ": waiting\n\n", 11);
        else
            nanosleep(&period, NULL);
    }
    s->sent_ns = clock_now_ns();
}

size_t event_stream_read(struct event_stream *s, char *out, size_t size) {
    if (s->out_from == s->out_length && !s->told_end)
        fill_output(s);
    size_t left = s->out_length - s->out_from, length = left < size ? left : size;
    memcpy(out, s->out + s->out_from, length);
    s->out_from += length;
    return length;
}
