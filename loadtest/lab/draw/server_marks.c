#include "loadtest/lab/draw/server_marks.h"

#include <inttypes.h>
#include <string.h>

#include "loadtest/lab/draw/svg.h"

/* What a release did to the key is seen within so many events. */
enum { OWNER_PX = 22, ABOVE_PX = 7, SEEN_WITHIN = 1000 };

void server_marks_owner(struct canvas *canvas, const struct event *key) {
    const struct lane *lane = lanes_of_key(&canvas->lanes, key->server, key->key);
    if (lane == NULL)
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
    canvas_bar(canvas, "owner", client != NULL ? client->number : 5, left, lane->top_px + ABOVE_PX, right,
               OWNER_PX);
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
void server_marks_news(struct canvas *canvas, const struct event *event) {
    double left = canvas_x(canvas, event->t_ns), right = canvas_end_x(canvas, event);
    const struct lane *first = lanes_of(&canvas->lanes, LANE_SERVER, event->server);
    char text[80];
    if (first == NULL)
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
        return other && owner != NULL ? event->owner : NULL;
    }
    return NULL;
}

/* In a crowd only the arrows that should not be. */
static void draw_arrow(struct canvas *canvas, const struct event *sent, const struct event *key,
                       const struct lane *from, double y) {
    const struct lane *to = lanes_of_key(&canvas->lanes, key->server, key->key);
    if (to == NULL)
        return;
    const char *other = owner_before(canvas, key, sent->who);
    if (other == NULL && lanes_is_thin(from))
        return;
    svg_line(canvas->out, other != NULL ? "theft" : "arrow", canvas_x(canvas, sent->t_ns), y,
             canvas_x(canvas, key->t_ns), to->top_px + 4);
    if (other == NULL)
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

void server_marks_release(struct canvas *canvas, const struct event *sent) {
    const struct lane *lane = lanes_of(&canvas->lanes, LANE_CLIENT, sent->who);
    const struct event *end = canvas->log->events + canvas->log->count;
    if (lane == NULL)
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
