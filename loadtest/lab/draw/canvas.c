#include "loadtest/lab/draw/canvas.h"

#include <inttypes.h>
#include <string.h>

#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/svg.h"

enum { COLOURS = 8 };

double canvas_x(const struct canvas *canvas, int64_t t_ns) {
    int64_t end_ns = canvas->scale->end_ns;
    return scale_x(canvas->scale, t_ns < 0 ? 0 : t_ns < end_ns ? t_ns : end_ns);
}

double canvas_end_x(const struct canvas *canvas, const struct event *event) {
    return canvas_x(canvas, canvas->shown->to_ns[event - canvas->log->events]);
}

bool canvas_shows(const struct canvas *canvas, const struct event *event) {
    return canvas->shown->shown[event - canvas->log->events];
}

struct canvas_row canvas_row(const struct canvas *canvas, const struct lane *lane, const char *key) {
    const struct lanes *lanes = &canvas->lanes;
    double margin = lane->height_px / 5, height = lane->height_px - 2 * margin;
    if (lanes->key_count < 2 || lanes_is_thin(lane))
        key = NULL;
    for (int i = 0; key != NULL && i < lanes->key_count; i++) {
        double share = (lane->height_px - 6) / lanes->key_count;
        if (strcmp(lanes->keys[i], key) == 0)
            return (struct canvas_row){lane->top_px + 3 + i * share, share - 1};
    }
    return (struct canvas_row){lane->top_px + margin, height};
}

void canvas_begin_mark(const struct canvas *canvas, const struct event *event) {
    char id[32], title[DESCRIBE_SIZE], what[DESCRIBE_SIZE];
    describe_id(canvas->log, event->n, id);
    describe_whole(event, title);
    snprintf(what, sizeof what, "event %" PRIu64 ", %s", event->n, event_kind_name(event->kind));
    svg_mark_begin(canvas->out, id, title, what);
}

void canvas_end_mark(const struct canvas *canvas) {
    svg_mark_end(canvas->out);
}

void canvas_bar(struct canvas *canvas, const char *class, int client, double left, double top, double right,
                double height) {
    char all[CANVAS_CLASS];
    double width = right - left > 1 ? right - left : 1;
    if (client >= 0)
        snprintf(all, sizeof all, "c%d%s%.30s", client % COLOURS, *class != '\0' ? " " : "", class);
    else
        snprintf(all, sizeof all, "%.30s", class);
    svg_rect(canvas->out, all, left, top, width, height, height < 8 ? 0 : 2);
    labels_take(&canvas->labels, left, top, left + width, top + height);
}

const struct lane *canvas_client(const struct canvas *canvas, const char *name) {
    char whole[80];
    snprintf(whole, sizeof whole, "client-%.64s", name);
    const struct lane *lane = lanes_of(&canvas->lanes, LANE_CLIENT, name);
    return lane != NULL ? lane : lanes_of(&canvas->lanes, LANE_CLIENT, whole);
}
