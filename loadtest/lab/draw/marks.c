#include "loadtest/lab/draw/marks.h"

#include <inttypes.h>
#include <string.h>

#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/svg.h"

static void begin_mark(const struct panel *p, const struct event *event) {
    char id[32], title[DESCRIBE_SIZE], what[DESCRIBE_SIZE];
    describe_id(p->log, event->n, id);
    describe_whole(event, title);
    snprintf(what, sizeof what, "event %" PRIu64 ", %s", event->n, event_kind_name(event->kind));
    svg_mark_begin(p->out, id, title, what);
}

/* The first event after `from` of this kind and operation; NULL: none. */
static const struct event *answer_of(const struct panel *p, const struct event *sent) {
    for (const struct event *event = sent + 1; event < p->log->events + p->log->count; event++) {
        if (event->op == sent->op && event->op != 0)
            return event;
    }
    return NULL;
}

/* ---- faults and pauses ---- */

static const struct event *end_of_fault(const struct panel *p, const struct event *start) {
    enum event_kind end = start->kind == EVENT_FAULT_START ? EVENT_FAULT_END : EVENT_HOLDER_RESUMED;
    for (const struct event *event = start + 1; event < p->log->events + p->log->count; event++) {
        if (event->kind == end && strcmp(event->target, start->target) == 0)
            return event;
    }
    return NULL;
}

static void draw_fault(struct panel *p, const struct event *start) {
    const struct event *end = end_of_fault(p, start);
    const struct lane *lane = lanes_of(&p->lanes, LANE_FAULT, "");
    const struct lane *client = lanes_of(&p->lanes, LANE_CLIENT, start->target);
    double left = marks_x(p, start->t_ns), right = marks_x(p, end != NULL ? end->t_ns : p->scale->end_ns);
    char text[DESCRIBE_SIZE];
    describe_event(start, text);
    begin_mark(p, start);
    if (start->kind == EVENT_HOLDER_PAUSED && client != NULL)
        svg_rect(p->out, "pause", left, client->top_px + 4, right - left, client->height_px - 8, 2);
    svg_rect(p->out, "fault", left, lane->top_px + 6, right - left > 3 ? right - left : 3,
             lane->height_px - 12, 3);
    double width = svg_text_width(text, 12, true);
    labels_take(&p->labels, left, lane->top_px, right > left + 3 ? right : left + 3,
                lane->top_px + lane->height_px);
    if (width < right - left - 16)
        labels_write_at(&p->labels, p->out, "on-bar", true, left + 8, lane->top_px + lane->height_px / 2 + 4,
                        text);
    else
        labels_write(&p->labels, p->out, "small", false, right, lane->top_px + lane->height_px / 2, text);
    svg_mark_end(p->out);
}

/* ---- clients ---- */

static void draw_wait(struct panel *p, const struct event *sent) {
    const struct lane *lane = lanes_of(&p->lanes, LANE_CLIENT, sent->who);
    if (lane == NULL)
        return;
    const struct event *answer = answer_of(p, sent);
    double left = marks_x(p, sent->t_ns),
           right = marks_x(p, answer != NULL ? answer->t_ns : p->scale->end_ns);
    double y = lane->top_px + lane->height_px / 2;
    char class[32];
    snprintf(class, sizeof class, "c%d wait", lane->colour);
    begin_mark(p, sent);
    svg_line(p->out, class, left, y, right, y);
    if (right - left > 60)
        labels_write_at(&p->labels, p->out, "small", false, left + 4, y - 7, "waits");
    svg_mark_end(p->out);
}

/* What a client did under a grant after its deadline: the last such event. */
static int64_t last_use_ns(const struct panel *p, const struct hold *hold) {
    int64_t last_ns = hold->until_ns;
    for (const struct event *event = p->log->events; event < p->log->events + p->log->count; event++) {
        if (event->grant == hold->grant && strcmp(event->who, hold->who) == 0 && event->t_ns > last_ns)
            last_ns = event->t_ns;
    }
    return last_ns;
}

static void draw_hold(struct panel *p, const struct hold *hold) {
    const struct lane *lane = lanes_of(&p->lanes, LANE_CLIENT, hold->who);
    if (lane == NULL)
        return;
    const struct event *granted = &p->log->events[hold->begun_n - 1];
    double left = marks_x(p, hold->from_ns), right = marks_x(p, hold->to_ns),
           until = marks_x(p, hold->until_ns);
    double margin = lane->height_px / 5, top = lane->top_px + margin, height = lane->height_px - 2 * margin;
    double inside = height - margin;
    char class[32], text[80] = "believes it holds the lock";
    snprintf(class, sizeof class, "c%d lease", lane->colour);
    begin_mark(p, granted);
    svg_rect(p->out, class, left, top, until - left, height, 3);
    snprintf(class, sizeof class, "c%d", lane->colour);
    if (!hold->possible)
        svg_rect(p->out, class, left, top + margin / 2, right - left, inside, 2);
    if (granted->fence != 0)
        snprintf(text, sizeof text, "believes it holds the lock, fence %" PRIu64, granted->fence);
    if (svg_text_width(text, 12, true) > right - left - 12)
        snprintf(text, sizeof text, granted->fence != 0 ? "%" PRIu64 : "holds", granted->fence);
    if (svg_text_width(text, 12, true) < right - left - 8 && !hold->possible)
        labels_write_at(&p->labels, p->out, "on-bar", true, left + 6, top + height / 2 + 4, text);
    labels_take(&p->labels, left, top, right, top + height);
    if (hold->until_ns < last_use_ns(p, hold)) {
        svg_rect(p->out, "after", until, top + margin / 2, marks_x(p, last_use_ns(p, hold)) - until, inside,
                 0);
        svg_line(p->out, "tick", until, top - 6, until, top + height + 6);
        labels_write(&p->labels, p->out, "small", false, until + 2, top - 2, "lease over");
    }
    svg_mark_end(p->out);
}

static void draw_write(struct panel *p, const struct event *write) {
    const struct lane *lane = lanes_of(&p->lanes, LANE_CLIENT, write->who);
    if (lane == NULL)
        return;
    const struct lane *stock = lanes_of(&p->lanes, LANE_STOCK, write->item);
    double x = marks_x(p, write->t_ns), y = lane->top_px + lane->height_px / 2;
    double radius = lane->height_px < 20 ? lane->height_px / 2 - 1 : 9;
    bool accepted = write->kind == EVENT_WRITE_ACCEPTED;
    char text[64];
    begin_mark(p, write);
    if (stock != NULL)
        svg_line(p->out, "drop", x, y + 8, x, stock->top_px + (accepted ? stock->height_px / 2 : 0));
    svg_diamond(p->out, accepted ? "write" : "refused", x, y, radius);
    if (!accepted) {
        svg_line(p->out, "cross", x - 4, y - 4, x + 4, y + 4);
        svg_line(p->out, "cross", x - 4, y + 4, x + 4, y - 4);
    }
    labels_take(&p->labels, x - radius, y - radius, x + radius, y + radius);
    if (accepted)
        snprintf(text, sizeof text, "sells %" PRId64, write->quantity);
    else
        snprintf(text, sizeof text, "%.40s",
                 write->kind == EVENT_WRITE_REFUSED ? write->reason : "no answer");
    labels_write(&p->labels, p->out, accepted ? "small name" : "small bad", true, x, y, text);
    svg_mark_end(p->out);
}

/* An end that is told: a small mark. */
static void draw_end(struct panel *p, const struct event *event, const char *text) {
    const struct lane *lane = lanes_of(&p->lanes, LANE_CLIENT, event->who);
    if (lane == NULL)
        return;
    double x = marks_x(p, event->t_ns), y = lane->top_px + lane->height_px / 2;
    begin_mark(p, event);
    svg_line(p->out, "tick", x, y - 14, x, y + 14);
    labels_write(&p->labels, p->out, "small bad", true, x, y, text);
    svg_mark_end(p->out);
}

/* ---- stores and stock ---- */

static void draw_owner(struct panel *p, const struct event *key) {
    const struct lane *lane = lanes_of(&p->lanes, LANE_SERVER, key->server);
    if (lane == NULL)
        return;
    const struct event *next = key + 1, *end = p->log->events + p->log->count;
    while (next < end && (next->kind != EVENT_STORE_KEY || strcmp(next->server, key->server) != 0 ||
                          strcmp(next->key, key->key) != 0))
        next++;
    double left = marks_x(p, key->t_ns), right = marks_x(p, next < end ? next->t_ns : p->scale->end_ns);
    double middle = lane->top_px + lane->height_px / 2;
    begin_mark(p, key);
    if (*key->owner == '\0') {
        svg_line(p->out, "tick", left, middle - 4, left, middle + 4);
        svg_mark_end(p->out);
        return;
    }
    char client[80], class[32];
    snprintf(client, sizeof client, "client-%.64s", key->owner);
    const struct lane *of = lanes_of(&p->lanes, LANE_CLIENT, key->owner);
    of = of != NULL ? of : lanes_of(&p->lanes, LANE_CLIENT, client);
    snprintf(class, sizeof class, "c%d owner", of != NULL ? of->colour : 0);
    svg_rect(p->out, class, left, lane->top_px + 7, right - left, lane->height_px - 14, 0);
    double width = svg_text_width(key->owner, 12, true);
    if (width < right - left - 4)
        labels_write_at(&p->labels, p->out, "small name", true, (left + right - width) / 2, middle + 4,
                        key->owner);
    svg_mark_end(p->out);
}

static const struct event *stock_before(const struct panel *p, const struct event *stock) {
    for (const struct event *event = stock; event-- > p->log->events;) {
        if (event->kind == EVENT_SALE_STOCK && strcmp(event->item, stock->item) == 0)
            return event;
    }
    return NULL;
}

/* From this event of the stock to the next one. The line is the lower, the fewer units are left. */
static void draw_stock(struct panel *p, const struct event *stock) {
    const struct lane *lane = lanes_of(&p->lanes, LANE_STOCK, stock->item);
    if (lane == NULL)
        return;
    const struct event *next = stock + 1, *end = p->log->events + p->log->count;
    const struct event *before = stock_before(p, stock);
    while (next < end && (next->kind != EVENT_SALE_STOCK || strcmp(next->item, stock->item) != 0))
        next++;
    double span = stock->initial > 0 ? (double)stock->initial : 1;
    double zero = lane->top_px + 40, top = lane->top_px + 20;
    double y = zero - (zero - top) * (double)stock->available / span;
    double next_y = next < end ? zero - (zero - top) * (double)next->available / span : y;
    y = y > lane->top_px + 56 ? lane->top_px + 56 : y;
    next_y = next_y > lane->top_px + 56 ? lane->top_px + 56 : next_y;
    double left = marks_x(p, stock->t_ns), right = marks_x(p, next < end ? next->t_ns : p->scale->end_ns);
    char text[48];
    begin_mark(p, stock);
    svg_line(p->out, stock->available < 0 ? "below" : "stock", left, y, right, y);
    if (next_y != y)
        svg_line(p->out, "stock", right, y, right, next_y);
    snprintf(text, sizeof text, stock->available < 0 ? "%" PRId64 ": sold twice" : "%" PRId64 " left",
             stock->available);
    if (before == NULL || before->available != stock->available)
        labels_write_at(&p->labels, p->out, stock->available < 0 ? "small bad" : "small",
                        stock->available < 0, left + 4, y - 5, text);
    svg_mark_end(p->out);
}

/* From the client's request to what it did to the key. */
static void draw_arrow(const struct panel *p, const struct event *key) {
    const struct event *cause = key->cause != 0 ? &p->log->events[key->cause - 1] : NULL;
    const struct lane *from = cause != NULL ? lanes_of(&p->lanes, LANE_CLIENT, cause->who) : NULL;
    const struct lane *to = lanes_of(&p->lanes, LANE_SERVER, key->server);
    if (from != NULL && to != NULL && cause->kind == EVENT_RELEASE_SENT)
        svg_line(p->out, "arrow", marks_x(p, cause->t_ns), from->top_px + from->height_px / 2 + 8,
                 marks_x(p, key->t_ns), to->top_px + 4);
}

/* ---- all of them ---- */

void marks_draw(struct panel *p) {
    const struct event *end = p->log->events + p->log->count;
    for (const struct event *event = p->log->events; event < end; event++) {
        if (event->kind == EVENT_ACQUIRE_SENT)
            draw_wait(p, event);
        else if (event->kind == EVENT_STORE_KEY)
            draw_owner(p, event);
    }
    for (size_t i = 0; i < p->judgement->holds.count; i++)
        draw_hold(p, &p->judgement->holds.holds[i]);
    for (const struct event *event = p->log->events; event < end; event++) {
        switch (event->kind) {
        case EVENT_FAULT_START:
        case EVENT_HOLDER_PAUSED: draw_fault(p, event); break;
        case EVENT_WRITE_ACCEPTED:
        case EVENT_WRITE_REFUSED:
        case EVENT_WRITE_UNKNOWN: draw_write(p, event); break;
        case EVENT_STORE_KEY: draw_arrow(p, event); break;
        default: break;
        }
    }
    for (const struct event *event = p->log->events; event < end; event++) {
        if (event->kind == EVENT_RENEW_LOST)
            draw_end(p, event, "lost");
        else if (event->kind == EVENT_RELEASE_NOT_OWNER)
            draw_end(p, event, "was not the owner");
        else if (event->kind == EVENT_ACQUIRE_TIMEOUT)
            draw_end(p, event, "gives up");
        else if (event->kind == EVENT_SALE_STOCK)
            draw_stock(p, event);
    }
}
