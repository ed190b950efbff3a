/* Marks in the lanes of clients, and in the lane of faults. */
#include "loadtest/lab/draw/marks.h"

#include <inttypes.h>
#include <string.h>

#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/svg.h"

enum { FADE_PX = 40 };

static const char *key_of_grant(const struct canvas *canvas, uint64_t grant) {
    const struct lock_hold *hold = grant != 0 ? lock_holds_of_grant(&canvas->judgement->holds, grant) : NULL;
    return hold ? hold->key : NULL;
}

static void client_marks_ask(struct canvas *canvas, const struct lane *lane, struct label label,
                             const char *text) {
    snprintf(label.text, sizeof label.text, "%.100s", text);
    label.away_px = label.away_px > 0 ? label.away_px : 3;
    if (lanes_is_thin(lane) && label.place == LABELS_BESIDE)
        label.place = LABELS_IN_LINE;
    labels_ask(&canvas->labels, &label);
}

/* ---- what lasts ---- */

void client_marks_wait(struct canvas *canvas, const struct event *sent) {
    const struct lane *lane = lanes_of(&canvas->lanes, LANE_CLIENT, sent->who);
    if (!lane)
        return;
    const struct canvas_row row = canvas_row(canvas, lane, sent->key);
    double left = canvas_x(canvas, sent->t_ns), right = canvas_end_x(canvas, sent);
    double y = row.top + row.height / 2;
    char class[CANVAS_CLASS];
    snprintf(class, sizeof class, "c%d wait", lane->number % 8);
    canvas_begin_mark(canvas, sent);
    svg_line(canvas->out, class, left, y, right, y);
    canvas_end_mark(canvas);
    labels_take(&canvas->labels, left, y - 1, right, y + 1);
    if (right - left > 60 && !lanes_is_thin(lane) && row.height > 18)
        client_marks_ask(
            canvas, lane,
            (struct label){
                .class = "small", .place = LABELS_AT, .rank = CANVAS_PLAIN, .x = left + 4, .y = y - 7},
            "waits");
}

/* In as many words as there is room for. */
static void name_belief(struct canvas *canvas, const struct lock_hold *hold, const struct event *granted,
                        const struct canvas_row *row, double width) {
    char texts[4][80];
    const char *key = canvas->lanes.key_count > 1 ? hold->key : "the lock";
    int last = granted->fence != 0 ? 4 : 2;
    snprintf(texts[0], sizeof texts[0], "believes it holds %.30s", key);
    snprintf(texts[1], sizeof texts[1], "%.30s", canvas->lanes.key_count > 1 ? key : "holds");
    if (granted->fence != 0) {
        snprintf(texts[0], sizeof texts[0], "believes it holds %.30s, fence %" PRIu64, key, granted->fence);
        snprintf(texts[1], sizeof texts[1], "holds %.30s, fence %" PRIu64, key, granted->fence);
        snprintf(texts[2], sizeof texts[2], "fence %" PRIu64, granted->fence);
        snprintf(texts[3], sizeof texts[3], "%" PRIu64, granted->fence);
    }
    struct label label = {.class = "on-bar",
                          .bold = true,
                          .place = LABELS_AT,
                          .rank = CANVAS_BAR,
                          .x = canvas_x(canvas, hold->from_ns) + 6,
                          .y = row->top + row->height / 2 + 4};
    for (int i = 0, length = 0; i < last; i++) {
        if (svg_text_width(texts[i], 12, true) < width - 10)
            length += snprintf(label.text + length, sizeof label.text - (size_t)length, "%.56s\n", texts[i]);
    }
    labels_ask(&canvas->labels, &label);
}

/* What the client does under the grant when the lease is over. */
static void draw_after(struct canvas *canvas, const struct lane *lane, const struct canvas_row *row,
                       double until, double last) {
    double margin = row->height / 6;
    canvas_bar(canvas, "after", -1, until, row->top + margin, last, row->height - 2 * margin);
    canvas_bar(canvas, "beyond", lane->number, until, row->top + margin, last, row->height - 2 * margin);
    svg_line(canvas->out, "tick", until, row->top - 3, until, row->top + row->height + 3);
    if (!lanes_is_thin(lane))
        client_marks_ask(canvas, lane,
                         (struct label){.class = "small",
                                        .place = LABELS_AT,
                                        .rank = CANVAS_PLAIN,
                                        .x = until + 3,
                                        .y = row->top - 1},
                         "lease over");
}

void client_marks_hold(struct canvas *canvas, const struct lock_hold *hold) {
    const struct event *granted = &canvas->log->events[hold->begun_n - 1];
    const struct lane *lane = lanes_of(&canvas->lanes, LANE_CLIENT, hold->who);
    if (!lane)
        return;
    const struct canvas_row row = canvas_row(canvas, lane, hold->key);
    double left = canvas_x(canvas, hold->from_ns), right = canvas_x(canvas, hold->to_ns);
    double until = canvas_x(canvas, hold->until_ns), last = canvas_end_x(canvas, granted);
    double margin = row.height / 8;
    canvas_begin_mark(canvas, granted);
    char class[CANVAS_CLASS]; /* labels may lie on a lease */
    snprintf(class, sizeof class, "c%d lease%s%s", lane->number % 8, hold->possible ? " possible" : "",
             lanes_is_thin(lane) ? " thin" : "");
    svg_rect(canvas->out, class, left, row.top, until > left ? until - left : 0, row.height, 2);
    if (!hold->possible) {
        canvas_bar(canvas, "", lane->number, left, row.top + margin, right, row.height - 2 * margin);
        if (row.height > 13)
            name_belief(canvas, hold, granted, &row, right - left);
    }
    if (last > until)
        draw_after(canvas, lane, &row, until, last);
    canvas_end_mark(canvas);
    if (hold->possible && !lanes_is_thin(lane))
        client_marks_ask(canvas, lane,
                         (struct label){.class = "small",
                                        .place = LABELS_AT,
                                        .rank = CANVAS_BAR,
                                        .x = left + 6,
                                        .y = row.top + row.height / 2 - 4},
                         "perhaps it holds the lock");
}

/* holder.paused, in the lanes of the target, which may be a server; within the mark of the fault. */
static void client_marks_pause(struct canvas *canvas, const struct event *paused) {
    const struct lane *lane = canvas_client(canvas, paused->target);
    double left = canvas_x(canvas, paused->t_ns), right = canvas_end_x(canvas, paused);
    if (lane)
        canvas_bar(canvas, "pause", -1, left, lane->top_px + 1, right, lane->height_px - 2);
    for (int i = 0; i < canvas->lanes.count; i++) {
        const struct lane *server = &canvas->lanes.lanes[i];
        if (server->kind == LANE_SERVER && strcmp(server->name, paused->target) == 0)
            canvas_bar(canvas, "pause", -1, left, server->top_px + 2, right, server->height_px - 4);
    }
}

/* ---- what happens at one moment ---- */

static void draw_diamond(const struct canvas *canvas, enum event_kind kind, double x, double y,
                         double radius) {
    char class[CANVAS_CLASS];
    double arm = radius * 0.45;
    snprintf(class, sizeof class, "%s%s",
             kind == EVENT_WRITE_ACCEPTED  ? "write"
             : kind == EVENT_WRITE_REFUSED ? "refused"
                                           : "open",
             radius < 7 ? " fine" : "");
    svg_diamond(canvas->out, class, x, y, radius);
    if (kind == EVENT_WRITE_REFUSED) {
        snprintf(class, sizeof class, "cross%s", radius < 7 ? " fine" : "");
        svg_line(canvas->out, class, x - arm, y - arm, x + arm, y + arm);
        svg_line(canvas->out, class, x - arm, y + arm, x + arm, y - arm);
    }
}

/* One request for several items was not answered: that is said once. */
static bool was_said(const struct canvas *canvas, const struct event *unknown) {
    for (const struct event *other = canvas->log->events; other < unknown; other++) {
        if (other->kind == EVENT_WRITE_UNKNOWN && other->op == unknown->op && other->op != 0 &&
            strcmp(other->who, unknown->who) == 0)
            return true;
    }
    return false;
}

static void draw_write(struct canvas *canvas, const struct event *write, const struct lane *lane) {
    const struct canvas_row row = canvas_row(canvas, lane, key_of_grant(canvas, write->grant));
    const struct lane *stock = lanes_of(&canvas->lanes, LANE_STOCK, write->item);
    double x = canvas_x(canvas, write->t_ns), y = row.top + row.height / 2;
    double radius = row.height < 18 ? row.height / 2 + 1 : 9;
    bool accepted = write->kind == EVENT_WRITE_ACCEPTED, unknown = write->kind == EVENT_WRITE_UNKNOWN;
    char text[80];
    canvas_begin_mark(canvas, write);
    if (stock && !unknown)
        svg_line(canvas->out, lanes_is_thin(lane) ? "drop faint" : "drop", x, y + radius, x,
                 stock->top_px + (accepted ? stock->height_px / 2 : 0));
    double room = canvas->labels.right_px - x;
    if (unknown) /* it may have reached the stock, now or later */
        svg_rect(canvas->out, "unsure", x, y - radius / 2, room < FADE_PX ? room : FADE_PX, radius, 0);
    draw_diamond(canvas, write->kind, x, y, radius);
    canvas_end_mark(canvas);
    labels_take_mark(&canvas->labels, x, y, radius);
    if (accepted)
        snprintf(text, sizeof text, write->quantity != 0 ? "sells %" PRId64 : "writes", write->quantity);
    else
        snprintf(text, sizeof text, "%.60s", unknown ? "no answer" : write->reason);
    if (unknown && was_said(canvas, write))
        return;
    bool common = accepted || strcmp(text, "sold-out") == 0; /* in a crowd that is nothing special */
    if (!common || !lanes_is_thin(lane))
        client_marks_ask(canvas, lane,
                         (struct label){.class = accepted ? "small name" : "small bad",
                                        .bold = true,
                                        .place = LABELS_BESIDE,
                                        .rank = common ? CANVAS_PLAIN : CANVAS_FAULT,
                                        .x = x,
                                        .y = y,
                                        .away_px = radius},
                         text);
}

/* What a client hears, as a line across its lane. NULL: the kind has none. */
static const char *tick_text(enum event_kind kind) {
    switch (kind) {
    case EVENT_RENEW_LOST: return "lost";
    case EVENT_RENEW_UNKNOWN: return "no answer to its renewal";
    case EVENT_RELEASE_NOT_OWNER: return "was not the owner";
    case EVENT_RELEASE_UNKNOWN: return "no answer to its release";
    case EVENT_ACQUIRE_TIMEOUT: return "gives up";
    default: return NULL;
    }
}

static void draw_tick(struct canvas *canvas, const struct event *event, const struct lane *lane) {
    const struct canvas_row row = canvas_row(canvas, lane, event->key);
    double x = canvas_x(canvas, event->t_ns), y = row.top + row.height / 2;
    canvas_begin_mark(canvas, event);
    svg_line(canvas->out, "cross", x, row.top - 1, x, row.top + row.height + 1);
    canvas_end_mark(canvas);
    labels_take(&canvas->labels, x - 1, row.top - 1, x + 1, row.top + row.height + 1);
    client_marks_ask(
        canvas, lane,
        (struct label){
            .class = "small bad", .bold = true, .place = LABELS_BESIDE, .rank = CANVAS_FAULT, .x = x, .y = y},
        tick_text(event->kind));
}

/* A renewal moves the end of the bar, and has no label: a watchdog renews all the time. */
static void draw_renewal(struct canvas *canvas, const struct event *event, const struct lane *lane) {
    const struct canvas_row row = canvas_row(canvas, lane, event->key);
    double x = canvas_x(canvas, event->t_ns);
    canvas_begin_mark(canvas, event);
    svg_line(canvas->out, "tick", x, row.top - 2, x, row.top + row.height / 5);
    canvas_end_mark(canvas);
}

static void draw_note(struct canvas *canvas, const struct event *event, const struct lane *lane) {
    const struct canvas_row row = canvas_row(canvas, lane, NULL);
    double x = canvas_x(canvas, event->t_ns), y = row.top + row.height / 2;
    double radius = row.height < 10 ? row.height / 2 : 4;
    canvas_begin_mark(canvas, event);
    svg_circle(canvas->out, "dot", x, y, radius);
    canvas_end_mark(canvas);
    labels_take_mark(&canvas->labels, x, y, radius);
    client_marks_ask(canvas, lane,
                     (struct label){.class = "small",
                                    .place = LABELS_BESIDE,
                                    .rank = CANVAS_EXTRA,
                                    .x = x,
                                    .y = y,
                                    .away_px = radius},
                     event->text);
}

void client_marks_moment(struct canvas *canvas, const struct event *event) {
    const struct lane *lane = lanes_of(&canvas->lanes, LANE_CLIENT, event->who);
    if (!lane)
        return;
    switch (event->kind) {
    case EVENT_WRITE_ACCEPTED:
    case EVENT_WRITE_REFUSED:
    case EVENT_WRITE_UNKNOWN: draw_write(canvas, event, lane); break;
    case EVENT_RENEW_OK: draw_renewal(canvas, event, lane); break;
    case EVENT_NOTE: draw_note(canvas, event, lane); break;
    default:
        if (tick_text(event->kind))
            draw_tick(canvas, event, lane);
        break;
    }
}

/* ---- faults ---- */

enum { BAR_PX = 18, SPACE_PX = 12 };

/* A bar with its text in it or behind it, or before it at the right edge. */
struct fault {
    const struct event *start;
    double left, right; /* of the bar */
    double text_left, text_width;
    int row;
    char text[LABELS_TEXT];
};

static void fault_measure(const struct canvas *canvas, const struct event *start, struct fault *fault) {
    double most = canvas->labels.right_px - canvas->labels.left_px - 40;
    char what[DESCRIBE_SIZE];
    fault->start = start;
    fault->left = canvas_x(canvas, start->t_ns);
    fault->right = canvas_end_x(canvas, start);
    fault->right = fault->right > fault->left + 3 ? fault->right : fault->left + 3;
    describe_event(start, what);
    snprintf(fault->text, sizeof fault->text, "%.115s", what);
    svg_text_fit(fault->text, 12, true, most);
    fault->text_width = svg_text_width(fault->text, 12, true);
    if (fault->text_width < fault->right - fault->left - 16)
        fault->text_left = fault->left + 8;
    else if (fault->right + 6 + fault->text_width < canvas->labels.right_px - 4)
        fault->text_left = fault->right + 6;
    else
        fault->text_left = fault->left - 6 - fault->text_width;
}

/* The row whose last mark ends first, if none is free. Rows are filled from the top. */
static int take_row(double taken_px[FAULT_MARKS_ROWS], const struct fault *fault) {
    double text_right = fault->text_left + fault->text_width;
    double begin = fault->text_left < fault->left ? fault->text_left : fault->left;
    int row = 0;
    for (int i = FAULT_MARKS_ROWS - 1; i > 0; i--)
        row = taken_px[i] < taken_px[row] ? i : row;
    for (int i = FAULT_MARKS_ROWS - 1; i >= 0; i--)
        row = taken_px[i] <= begin ? i : row;
    taken_px[row] = SPACE_PX + (text_right > fault->right ? text_right : fault->right);
    return row;
}

/* The next fault that is shown; false: there is none. */
static bool next_fault(const struct canvas *canvas, size_t *at, double taken_px[FAULT_MARKS_ROWS],
                       struct fault *fault) {
    for (; *at < canvas->log->count; (*at)++) {
        const struct event *event = &canvas->log->events[*at];
        if ((event->kind != EVENT_FAULT_START && event->kind != EVENT_HOLDER_PAUSED) ||
            !canvas_shows(canvas, event))
            continue;
        fault_measure(canvas, event, fault);
        fault->row = take_row(taken_px, fault);
        (*at)++;
        return true;
    }
    return false;
}

int fault_marks_rows(const struct canvas *canvas) {
    double taken_px[FAULT_MARKS_ROWS] = {0};
    struct fault fault;
    int rows = 1;
    for (size_t at = 0; next_fault(canvas, &at, taken_px, &fault);)
        rows = fault.row + 1 > rows ? fault.row + 1 : rows;
    return rows;
}

void fault_marks_draw(struct canvas *canvas) {
    const struct lane *lane = lanes_of(&canvas->lanes, LANE_FAULT, "");
    double taken_px[FAULT_MARKS_ROWS] = {0};
    struct fault fault;
    if (!lane)
        return;
    for (size_t at = 0; next_fault(canvas, &at, taken_px, &fault);) {
        double top = lane->top_px + 6 + fault.row * LANES_FAULT_ROW_PX;
        bool inside = fault.text_left > fault.left && fault.text_left < fault.right;
        canvas_begin_mark(canvas, fault.start);
        if (fault.start->kind == EVENT_HOLDER_PAUSED)
            client_marks_pause(canvas, fault.start);
        canvas_bar(canvas, "fault", -1, fault.left, top, fault.right, BAR_PX);
        canvas_end_mark(canvas);
        struct label label = {.class = inside ? "on-bar" : "small name",
                              .bold = true,
                              .place = LABELS_AT,
                              .rank = CANVAS_FAULT,
                              .x = fault.text_left,
                              .y = top + 13};
        snprintf(label.text, sizeof label.text, "%s", fault.text);
        labels_ask(&canvas->labels, &label);
    }
}
