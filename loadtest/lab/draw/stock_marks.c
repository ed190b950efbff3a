#include "loadtest/lab/draw/stock_marks.h"

#include <inttypes.h>
#include <string.h>

#include "loadtest/lab/draw/svg.h"

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

void stock_marks_left(struct canvas *canvas, const struct event *stock) {
    const struct lane *lane = lanes_of(&canvas->lanes, LANE_STOCK, stock->item);
    if (lane == NULL)
        return;
    const struct event *before = neighbour(canvas, stock, -1), *next = neighbour(canvas, stock, 1);
    bool below = stock->available < 0;
    double left = canvas_x(canvas, stock->t_ns), right = canvas_end_x(canvas, stock);
    double y = height_of(lane, stock), next_y = next != NULL ? height_of(lane, next) : y;
    canvas_begin_mark(canvas, stock);
    svg_line(canvas->out, below ? "below" : "stock", left, y, right, y);
    if (next_y != y)
        svg_line(canvas->out, "stock", right, y, right, next_y);
    canvas_end_mark(canvas);
    if (before != NULL && before->available == stock->available)
        return;
    struct label label = {.class = below ? "small bad" : "small",
                          .bold = below,
                          .place = LABELS_AT,
                          .rank = below || before == NULL || next == NULL ? CANVAS_FAULT : CANVAS_PLAIN,
                          .x = left + 4,
                          .y = y - 5};
    snprintf(label.text, sizeof label.text, below ? "%" PRId64 ": oversold" : "%" PRId64 " left",
             stock->available);
    double edge = canvas->labels.right_px - svg_text_width(label.text, 12, below) - 2;
    label.x = label.x < edge ? label.x : edge;
    labels_ask(&canvas->labels, &label);
}
