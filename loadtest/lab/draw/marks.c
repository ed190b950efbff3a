#include "loadtest/lab/draw/marks.h"

#include "loadtest/lab/draw/client_marks.h"
#include "loadtest/lab/draw/fault_marks.h"
#include "loadtest/lab/draw/server_marks.h"
#include "loadtest/lab/draw/stock_marks.h"

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
    const struct holds *holds = &canvas->judgement->holds;
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
