#include "loadtest/lab/draw/panel.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/labels.h"
#include "loadtest/lab/draw/lanes.h"
#include "loadtest/lab/draw/svg.h"

enum { MARGIN = 14, TEXT_LEFT = 30, AXIS_PX = 34, LINE_PX = 18 };

struct panel {
    FILE *out;
    const struct event_log *log;
    const struct judgement *judgement;
    const struct scale *scale;
    struct lanes lanes;
    struct labels labels;
    double lanes_top;
};

static double x_of(const struct panel *p, int64_t t_ns) {
    return scale_x(p->scale, t_ns < p->scale->end_ns ? t_ns : p->scale->end_ns);
}

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

/* ---- the ground: lanes and time ---- */

static void draw_ticks(struct panel *p) {
    double bottom = p->lanes.bottom_px;
    for (int64_t t_ns = -1; (t_ns = scale_next_tick(p->scale, t_ns)) >= 0;) {
        char text[32];
        snprintf(text, sizeof text, "%g ms", (double)t_ns / 1e6);
        svg_line(p->out, "rule", x_of(p, t_ns), p->lanes_top, x_of(p, t_ns), bottom + 4);
        svg_text(p->out, "soft", x_of(p, t_ns), bottom + 20, SVG_MIDDLE, text);
    }
    for (int i = 0; i < p->scale->fold_count; i++) {
        const struct scale_fold *fold = &p->scale->folds[i];
        double left = x_of(p, fold->from_ns), right = x_of(p, fold->to_ns);
        char text[48];
        snprintf(text, sizeof text, "%.3g s left out", (double)(fold->to_ns - fold->from_ns) / 1e9);
        fprintf(p->out, "<g><title>%s</title>", text);
        for (double x = left + 9; x < right - 4; x += 8)
            fprintf(p->out, "<path class=\"fold\" d=\"M%.1f %.1fl6 -12l-6 -12\" fill=\"none\"/>", x,
                    bottom + 12);
        fputs("</g>", p->out);
        labels_write_at(&p->labels, p->out, "soft", false,
                        (left + right - svg_text_width(text, 12, false)) / 2, bottom + 32, text);
    }
}

static void draw_lanes(const struct panel *p, double right) {
    for (int i = 0; i < p->lanes.count; i++) {
        const struct lane *lane = &p->lanes.lanes[i];
        double middle = lane->top_px + lane->height_px / 2;
        static const char *const under[] = {[LANE_SERVER] = "says who has it", [LANE_STOCK] = "units left"};
        svg_line(p->out, "rule", TEXT_LEFT, lane->top_px, right, lane->top_px);
        bool two_lines = lane->kind >= LANE_SERVER;
        svg_text(p->out, "name", TEXT_LEFT, middle + (two_lines ? -1 : 5), SVG_START, lane->name);
        if (two_lines)
            svg_text(p->out, "soft", TEXT_LEFT, middle + 14, SVG_START, under[lane->kind]);
    }
    svg_line(p->out, "rule", TEXT_LEFT, p->lanes.bottom_px, right, p->lanes.bottom_px);
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
    double left = x_of(p, start->t_ns), right = x_of(p, end != NULL ? end->t_ns : p->scale->end_ns);
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
    double left = x_of(p, sent->t_ns), right = x_of(p, answer != NULL ? answer->t_ns : p->scale->end_ns);
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
    double left = x_of(p, hold->from_ns), right = x_of(p, hold->to_ns), until = x_of(p, hold->until_ns);
    double top = lane->top_px + 12, height = lane->height_px - 24, inside = height - 10;
    char class[32], text[80] = "believes it holds the lock";
    snprintf(class, sizeof class, "c%d lease", lane->colour);
    begin_mark(p, granted);
    svg_rect(p->out, class, left, top, until - left, height, 3);
    snprintf(class, sizeof class, "c%d", lane->colour);
    if (!hold->possible)
        svg_rect(p->out, class, left, top + 5, right - left, inside, 2);
    if (granted->fence != 0)
        snprintf(text, sizeof text, "believes it holds the lock, fence %" PRIu64, granted->fence);
    if (svg_text_width(text, 12, true) > right - left - 12)
        snprintf(text, sizeof text, granted->fence != 0 ? "%" PRIu64 : "holds", granted->fence);
    if (svg_text_width(text, 12, true) < right - left - 8 && !hold->possible)
        labels_write_at(&p->labels, p->out, "on-bar", true, left + 6, top + height / 2 + 4, text);
    labels_take(&p->labels, left, top, right, top + height);
    if (hold->until_ns < last_use_ns(p, hold)) {
        svg_rect(p->out, "after", until, top + 5, x_of(p, last_use_ns(p, hold)) - until, inside, 0);
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
    double x = x_of(p, write->t_ns), y = lane->top_px + lane->height_px / 2;
    bool accepted = write->kind == EVENT_WRITE_ACCEPTED;
    char text[64];
    begin_mark(p, write);
    if (stock != NULL)
        svg_line(p->out, "drop", x, y + 8, x, stock->top_px + (accepted ? stock->height_px / 2 : 0));
    svg_diamond(p->out, accepted ? "write" : "refused", x, y, 9);
    if (!accepted) {
        svg_line(p->out, "cross", x - 4, y - 4, x + 4, y + 4);
        svg_line(p->out, "cross", x - 4, y + 4, x + 4, y - 4);
    }
    labels_take(&p->labels, x - 9, y - 9, x + 9, y + 9);
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
    double x = x_of(p, event->t_ns), y = lane->top_px + lane->height_px / 2;
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
    double left = x_of(p, key->t_ns), right = x_of(p, next < end ? next->t_ns : p->scale->end_ns);
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

/* From this event of the stock to the next one. The line is the lower, the fewer units are left. */
static void draw_stock(struct panel *p, const struct event *stock) {
    const struct lane *lane = lanes_of(&p->lanes, LANE_STOCK, stock->item);
    if (lane == NULL)
        return;
    const struct event *next = stock + 1, *end = p->log->events + p->log->count;
    while (next < end && (next->kind != EVENT_SALE_STOCK || strcmp(next->item, stock->item) != 0))
        next++;
    double span = stock->initial > 0 ? (double)stock->initial : 1;
    double zero = lane->top_px + 40, top = lane->top_px + 20;
    double y = zero - (zero - top) * (double)stock->available / span;
    double next_y = next < end ? zero - (zero - top) * (double)next->available / span : y;
    y = y > lane->top_px + 56 ? lane->top_px + 56 : y;
    next_y = next_y > lane->top_px + 56 ? lane->top_px + 56 : next_y;
    double left = x_of(p, stock->t_ns), right = x_of(p, next < end ? next->t_ns : p->scale->end_ns);
    char text[48];
    begin_mark(p, stock);
    svg_line(p->out, stock->available < 0 ? "below" : "stock", left, y, right, y);
    if (next_y != y)
        svg_line(p->out, "stock", right, y, right, next_y);
    labels_take(&p->labels, left, y - 2, right, y + 2);
    snprintf(text, sizeof text, stock->available < 0 ? "%" PRId64 ": sold twice" : "%" PRId64 " left",
             stock->available);
    labels_write(&p->labels, p->out, stock->available < 0 ? "small bad" : "small", stock->available < 0, left,
                 y - 9, text);
    svg_mark_end(p->out);
}

/* From the client's request to what it did to the key. */
static void draw_arrow(const struct panel *p, const struct event *key) {
    const struct event *cause = key->cause != 0 ? &p->log->events[key->cause - 1] : NULL;
    const struct lane *from = cause != NULL ? lanes_of(&p->lanes, LANE_CLIENT, cause->who) : NULL;
    const struct lane *to = lanes_of(&p->lanes, LANE_SERVER, key->server);
    if (from != NULL && to != NULL && cause->kind == EVENT_RELEASE_SENT)
        svg_line(p->out, "arrow", x_of(p, cause->t_ns), from->top_px + from->height_px / 2 + 8,
                 x_of(p, key->t_ns), to->top_px + 4);
}

/* ---- overlaps ---- */

static void draw_overlaps(struct panel *p) {
    for (size_t i = 0; i < p->judgement->holds.overlap_count; i++) {
        const struct overlap *overlap = &p->judgement->holds.overlaps[i];
        double left = x_of(p, overlap->from_ns), right = x_of(p, overlap->to_ns);
        svg_rect(p->out, "band", left, p->lanes_top, right - left > 1 ? right - left : 1,
                 p->lanes.bottom_px - p->lanes_top, 0);
    }
    if (p->judgement->holds.overlap_count == 0)
        return;
    const struct overlap *first = p->judgement->holds.overlaps;
    char text[200];
    size_t more = p->judgement->holds.overlap_count - 1;
    int length = snprintf(text, sizeof text, "%.40s and %.40s both believe: %.0f ms", first->one->who,
                          first->other->who, (double)(first->to_ns - first->from_ns) / 1e6);
    if (more > 0)
        snprintf(text + length, sizeof text - (size_t)length, ", and %zu more times", more);
    double middle = (x_of(p, first->from_ns) + x_of(p, first->to_ns)) / 2,
           half = svg_text_width(text, 12, true) / 2 + 8;
    if (middle + half > p->labels.right_px)
        middle = p->labels.right_px - half;
    if (middle - half < p->labels.left_px)
        middle = p->labels.left_px + half;
    svg_rect(p->out, "caption", middle - half, p->lanes_top - 21, 2 * half, 19, 4);
    svg_text(p->out, "on-badge small", middle, p->lanes_top - 7, SVG_MIDDLE, text);
}

/* ---- the whole ---- */

/* Wraps it. */
static void draw_sentence(FILE *out, const char *sentence, double top, double width) {
    char line[JUDGE_SENTENCE_SIZE] = "";
    while (*sentence != '\0') {
        size_t word = strcspn(sentence, " "), length = strlen(line);
        snprintf(line + length, sizeof line - length, "%s%.*s", length > 0 ? " " : "", (int)word, sentence);
        if (length > 0 && svg_text_width(line, 13, false) > width) {
            line[length] = '\0';
            svg_text(out, "", TEXT_LEFT, top, SVG_START, line);
            top += LINE_PX;
            snprintf(line, sizeof line, "%.*s", (int)word, sentence);
        }
        sentence += word;
        sentence += strspn(sentence, " ");
    }
    svg_text(out, "", TEXT_LEFT, top, SVG_START, line);
}

static void draw_events(struct panel *p) {
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

double panel_draw(FILE *out, const struct judged_play *played, const struct scale *scale, double top_px,
                  double width_px, bool *good) {
    struct panel *p = calloc(1, sizeof *p);
    const char *play = played->log.play.play;
    char badge[32], head[200];
    *good = p != NULL;
    if (p == NULL)
        return top_px;
    p->out = out;
    p->log = &played->log;
    p->judgement = &played->judgement;
    p->scale = scale;
    p->labels.left_px = scale->left_px - 20;
    p->labels.right_px = width_px - MARGIN - 4;
    snprintf(badge, sizeof badge, "badge-%.8s", play);
    snprintf(head, sizeof head, "%.60s: %.30s", played->log.play.scenario, played->verdict.outcome);
    double sentence_px = svg_text_width(played->verdict.sentence, 13, false);
    double right = width_px - MARGIN, inner = right - 2 * TEXT_LEFT;
    p->lanes_top = top_px + 82 + LINE_PX * (double)(int)(sentence_px * 1.1 / inner);
    lanes_find(&p->lanes, &played->log, p->lanes_top);
    double bottom = p->lanes.bottom_px + AXIS_PX;
    svg_rect(out, "panel", MARGIN, top_px, right - MARGIN, bottom - top_px + 6, 8);
    svg_rect(out, badge, TEXT_LEFT, top_px + 14, 86, 22, 11);
    svg_text(out, "on-badge", TEXT_LEFT + 43, top_px + 30, SVG_MIDDLE,
             strcmp(play, "fixed") == 0 ? "FIXED" : "BROKEN");
    svg_text(out, "head", TEXT_LEFT + 98, top_px + 31, SVG_START, head);
    draw_sentence(out, played->verdict.sentence, top_px + 54, inner);
    draw_lanes(p, right - MARGIN);
    draw_ticks(p);
    draw_overlaps(p);
    draw_events(p);
    free(p);
    return bottom + 6;
}
