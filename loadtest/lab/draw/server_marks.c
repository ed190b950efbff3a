/* Marks in the lanes of lock servers and of items, and the order of all marks. */
#include "loadtest/lab/draw/marks.h"

#include <inttypes.h>
#include <string.h>

#include "loadtest/lab/draw/svg.h"

/* ---- lock servers ---- */

/* What a release did to the key is seen within so many events. */
enum { OWNER_PX = 22, ABOVE_PX = 7, SEEN_WITHIN = 1000 };

static void server_marks_owner(struct canvas *canvas, const struct event *key) {
    const struct lane *lane = lanes_of_key(&canvas->lanes, key->server, key->key);
    if (!lane)
        return;
    double left = canvas_x(canvas, key->t_ns), right = canvas_end_x(canvas, key);
    double middle = lane->top_px + ABOVE_PX + OWNER_PX / 2.0;
    canvas_begin_mark(canvas, key);
    if (*key->owner == '\0') {
        svg_line(canvas->out, "tick", left, middle - 5, left, middle + 5);
        canvas_end_mark(canvas);
        return;
    }
    const struct lane *client = canvas_client(canvas, key->owner);
    canvas_bar(canvas, "owner", client ? client->number : 5, left, lane->top_px + ABOVE_PX, right, OWNER_PX);
    canvas_end_mark(canvas);
    struct label label = {
        .class = "small name", .bold = true, .place = LABELS_AT, .rank = CANVAS_BAR, .y = middle + 4};
    snprintf(label.text, sizeof label.text - 4, "%s", key->owner);
    double width = svg_text_width(label.text, 12, true);
    label.x = (left + right - width) / 2;
    if (width < right - left - 4)
        labels_ask(&canvas->labels, &label);
}

static const char *name_news(const struct event *event, char text[80]) {
    switch (event->kind) {
    case EVENT_SERVER_DOWN: return "down";
    case EVENT_SERVER_UP: return "up";
    case EVENT_SERVER_ROLE: snprintf(text, 80, "%.70s", event->role); break;
    default:
        if (event->jump_ms % 1000 == 0)
            snprintf(text, 80, "clock %+" PRId64 " s", event->jump_ms / 1000);
        else
            snprintf(text, 80, "clock %+" PRId64 " ms", event->jump_ms);
        break;
    }
    return text;
}

/* A server may have a lane for each key: it is down in all of them, and the first says so. */
static void server_marks_news(struct canvas *canvas, const struct event *event) {
    double left = canvas_x(canvas, event->t_ns), right = canvas_end_x(canvas, event);
    const struct lane *first = lanes_of(&canvas->lanes, LANE_SERVER, event->server);
    char text[80];
    if (!first)
        return;
    canvas_begin_mark(canvas, event);
    for (const struct lane *lane = first; lane < canvas->lanes.lanes + canvas->lanes.count; lane++) {
        if (lane->kind != LANE_SERVER || strcmp(lane->name, event->server) != 0)
            continue;
        if (event->kind == EVENT_SERVER_DOWN)
            canvas_bar(canvas, "down", -1, left, lane->top_px + 4, right, lane->height_px - 8);
        svg_line(canvas->out, event->kind == EVENT_SERVER_CLOCK ? "cross" : "tick", left, lane->top_px + 2,
                 left, lane->top_px + lane->height_px - 2);
    }
    canvas_end_mark(canvas);
    bool bad = event->kind == EVENT_SERVER_CLOCK || event->kind == EVENT_SERVER_DOWN;
    struct label label = {.class = bad ? "small bad" : "small",
                          .bold = bad,
                          .place = LABELS_AT,
                          .rank = event->kind == EVENT_SERVER_UP ? CANVAS_BAR : CANVAS_FAULT,
                          .x = left + 4,
                          .y = first->top_px + first->height_px - 5};
    snprintf(label.text, sizeof label.text, "%s", name_news(event, text));
    double edge = canvas->labels.right_px - svg_text_width(label.text, 12, bad) - 2;
    label.x = label.x < edge ? label.x : edge;
    labels_ask(&canvas->labels, &label);
}

/* Whom the server had named before; NULL: nobody, or the client itself. */
static const char *owner_before(const struct canvas *canvas, const struct event *key, const char *who) {
    for (const struct event *event = key; event-- > canvas->log->events;) {
        if (event->kind != EVENT_STORE_KEY || strcmp(event->server, key->server) != 0 ||
            strcmp(event->key, key->key) != 0)
            continue;
        const struct lane *owner = canvas_client(canvas, event->owner);
        bool other = *event->owner != '\0' && owner != lanes_of(&canvas->lanes, LANE_CLIENT, who);
        return other && owner ? event->owner : NULL;
    }
    return NULL;
}

/* In a crowd only the arrows that should not be. */
static void draw_arrow(struct canvas *canvas, const struct event *sent, const struct event *key,
                       const struct lane *from, double y) {
    const struct lane *to = lanes_of_key(&canvas->lanes, key->server, key->key);
    if (!to)
        return;
    const char *other = owner_before(canvas, key, sent->who);
    if (!other && lanes_is_thin(from))
        return;
    svg_line(canvas->out, other ? "theft" : "arrow", canvas_x(canvas, sent->t_ns), y,
             canvas_x(canvas, key->t_ns), to->top_px + 4);
    if (!other)
        return;
    struct label label = {.class = "small bad",
                          .bold = true,
                          .place = LABELS_BESIDE,
                          .rank = CANVAS_FAULT,
                          .x = canvas_x(canvas, key->t_ns),
                          .y = to->top_px - 5,
                          .away_px = 4};
    snprintf(label.text, sizeof label.text, "releases %.60s's lock", other);
    labels_ask(&canvas->labels, &label);
}

static void server_marks_release(struct canvas *canvas, const struct event *sent) {
    const struct lane *lane = lanes_of(&canvas->lanes, LANE_CLIENT, sent->who);
    const struct event *end = canvas->log->events + canvas->log->count;
    if (!lane)
        return;
    end = end - sent > SEEN_WITHIN ? sent + SEEN_WITHIN : end;
    const struct canvas_row row = canvas_row(canvas, lane, sent->key);
    double x = canvas_x(canvas, sent->t_ns), bottom = row.top + row.height;
    canvas_begin_mark(canvas, sent);
    svg_line(canvas->out, "tick", x, bottom - row.height / 3, x, bottom);
    for (const struct event *event = sent + 1; event < end; event++) {
        if (event->kind == EVENT_STORE_KEY && event->cause == sent->n)
            draw_arrow(canvas, sent, event, lane, bottom);
    }
    canvas_end_mark(canvas);
}

/* ---- items ---- */

/* From the top of the lane: where all units are there, where none is, and the lowest line. */
enum { FULL_PX = 20, NONE_PX = 40, LOWEST_PX = 56 };

static double height_of(const struct lane *lane, const struct event *stock) {
    double span = stock->initial > 0 ? (double)stock->initial : 1;
    double y = NONE_PX - (NONE_PX - FULL_PX) * (double)stock->available / span;
    y = y < FULL_PX - 4 ? FULL_PX - 4 : y; /* more than there were at first */
    return lane->top_px + (y > LOWEST_PX ? LOWEST_PX : y);
}

/* The next or the one before of the same item; NULL: there is none. */
static const struct event *neighbour(const struct canvas *canvas, const struct event *stock, int step) {
    const struct event *begin = canvas->log->events, *end = begin + canvas->log->count;
    for (const struct event *event = stock + step; event >= begin && event < end; event += step) {
        if (event->kind == EVENT_SALE_STOCK && strcmp(event->item, stock->item) == 0)
            return event;
    }
    return NULL;
}

static void stock_marks_left(struct canvas *canvas, const struct event *stock) {
    const struct lane *lane = lanes_of(&canvas->lanes, LANE_STOCK, stock->item);
    if (!lane)
        return;
    const struct event *before = neighbour(canvas, stock, -1), *next = neighbour(canvas, stock, 1);
    bool below = stock->available < 0;
    double left = canvas_x(canvas, stock->t_ns), right = canvas_end_x(canvas, stock);
    double y = height_of(lane, stock), next_y = next ? height_of(lane, next) : y;
    canvas_begin_mark(canvas, stock);
    svg_line(canvas->out, below ? "below" : "stock", left, y, right, y);
    if (next_y != y)
        svg_line(canvas->out, "stock", right, y, right, next_y);
    canvas_end_mark(canvas);
    if (before && before->available == stock->available)
        return;
    struct label label = {.class = below ? "small bad" : "small",
                          .bold = below,
                          .place = LABELS_AT,
                          .rank = below || !before || !next ? CANVAS_FAULT : CANVAS_PLAIN,
                          .x = left + 4,
                          .y = y - 5};
    snprintf(label.text, sizeof label.text, below ? "%" PRId64 ": oversold" : "%" PRId64 " left",
             stock->available);
    double edge = canvas->labels.right_px - svg_text_width(label.text, 12, below) - 2;
    label.x = label.x < edge ? label.x : edge;
    labels_ask(&canvas->labels, &label);
}

/* ---- all marks ---- */

/* The ground: what lasts. */
static void draw_lasting(struct canvas *canvas, const struct event *event) {
    switch (event->kind) {
    case EVENT_ACQUIRE_SENT: client_marks_wait(canvas, event); break;
    case EVENT_STORE_KEY: server_marks_owner(canvas, event); break;
    case EVENT_SALE_STOCK: stock_marks_left(canvas, event); break;
    default: break;
    }
}

/* What lies on that. */
static void draw_over(struct canvas *canvas, const struct event *event) {
    switch (event->kind) {
    case EVENT_SERVER_DOWN:
    case EVENT_SERVER_UP:
    case EVENT_SERVER_ROLE:
    case EVENT_SERVER_CLOCK: server_marks_news(canvas, event); break;
    case EVENT_RELEASE_SENT: server_marks_release(canvas, event); break;
    default: break;
    }
}

void marks_draw(struct canvas *canvas) {
    const struct event *begin = canvas->log->events, *end = begin + canvas->log->count;
    const struct lock_holds *holds = &canvas->judgement->holds;
    for (const struct event *event = begin; event < end; event++) {
        if (canvas_shows(canvas, event))
            draw_lasting(canvas, event);
    }
    for (size_t i = 0; i < holds->count; i++) {
        if (canvas_shows(canvas, &begin[holds->holds[i].begun_n - 1]))
            client_marks_hold(canvas, &holds->holds[i]);
    }
    fault_marks_draw(canvas);
    for (const struct event *event = begin; event < end; event++) {
        if (canvas_shows(canvas, event))
            draw_over(canvas, event);
    }
    for (const struct event *event = begin; event < end; event++) {
        if (canvas_shows(canvas, event))
            client_marks_moment(canvas, event);
    }
    labels_write(&canvas->labels, canvas->out);
}
