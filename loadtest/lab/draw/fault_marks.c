#include "loadtest/lab/draw/fault_marks.h"

#include "loadtest/lab/draw/client_marks.h"
#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/svg.h"

enum { BAR_PX = 18, SPACE_PX = 12 };

/* A bar with its text in it or behind it, or before it at the right edge. */
struct fault {
    const struct event *start;
    double left, right; /* of the bar */
    double text_left, text_width;
    int row;
    char text[LABELS_TEXT];
};

static void measure(const struct canvas *canvas, const struct event *start, struct fault *fault) {
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
        measure(canvas, event, fault);
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
    if (lane == NULL)
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
