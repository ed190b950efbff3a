#include "loadtest/lab/draw/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/marks.h"
#include "loadtest/lab/draw/svg.h"

/* ---- the legend: a sample of each mark that occurs, and its name ---- */

enum { LEGEND_LEFT_PX = 30, LEGEND_LINE_PX = 26, SAMPLE_PX = 26, TEXT_PX = 34, APART_PX = 20 };

/* What is not a kind of event. */
enum { AFTER = EVENT_KINDS, BAND };

enum shape { BAR, LINE, DIAMOND, TICK, DOT };

static const struct sample {
    int what;
    enum shape shape;
    const char *class, *text;
} samples[] = {
    {EVENT_ACQUIRE_SENT, LINE, "c0 wait", "waits"},
    {EVENT_ACQUIRE_OK, BAR, "c0 lease", "lease, by the client's clock"},
    {EVENT_ACQUIRE_OK, BAR, "c0", "believes that it holds"},
    {EVENT_ACQUIRE_UNKNOWN, BAR, "c0 lease possible", "perhaps it holds"},
    {AFTER, BAR, "after", "goes on after the lease"},
    {EVENT_RENEW_OK, TICK, "tick", "renewed"},
    {EVENT_HOLDER_PAUSED, BAR, "pause", "paused"},
    {EVENT_NOTE, DOT, "dot", "note"},
    {EVENT_WRITE_ACCEPTED, DIAMOND, "write", "write accepted"},
    {EVENT_WRITE_REFUSED, DIAMOND, "refused", "write refused"},
    {EVENT_WRITE_UNKNOWN, DIAMOND, "open", "write without an answer"},
    {BAND, BAR, "band", "two believe at once"},
    {EVENT_SERVER_DOWN, BAR, "down", "server down"},
};

static bool occurs_in(const struct judged_play *play, const struct view_play *view, int what) {
    if (what == BAND)
        return play->judgement.holds.overlap_count > 0;
    for (size_t i = 0; what == AFTER && i < play->judgement.holds.count; i++) {
        const struct lock_hold *hold = &play->judgement.holds.holds[i];
        if (view->to_ns[hold->begun_n - 1] > hold->until_ns)
            return true;
    }
    for (size_t i = 0; i < play->log.count; i++) {
        if ((int)play->log.events[i].kind == what)
            return true;
    }
    return false;
}

static void draw_sample(FILE *out, const struct sample *sample, double x, double top) {
    double middle = x + SAMPLE_PX / 2.0;
    switch (sample->shape) {
    case BAR: svg_rect(out, sample->class, x, top, SAMPLE_PX, 16, 3); break;
    case LINE: svg_line(out, sample->class, x, top + 8, x + SAMPLE_PX, top + 8); break;
    case DIAMOND: svg_diamond(out, sample->class, middle, top + 8, 8); break;
    case TICK: svg_line(out, sample->class, middle, top + 3, middle, top + 13); break;
    case DOT: svg_circle(out, sample->class, middle, top + 8, 4); break;
    }
    if (sample->what == EVENT_WRITE_REFUSED) {
        svg_line(out, "cross", middle - 4, top + 4, middle + 4, top + 12);
        svg_line(out, "cross", middle - 4, top + 12, middle + 4, top + 4);
    }
    svg_text(out, "soft", x + TEXT_PX, top + 12, SVG_START, sample->text);
}

/* Draws the legend from `top_px` on; returns where it ends. */
static double legend_draw(FILE *out, const struct judged_play plays[], int count, const struct view *view,
                          double top_px, double right_px) {
    double x = LEGEND_LEFT_PX;
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        double width = TEXT_PX + svg_text_width(samples[i].text, 12, false);
        bool occurs = false;
        for (int k = 0; k < count; k++)
            occurs = occurs || occurs_in(&plays[k], &view->plays[k], samples[i].what);
        if (!occurs)
            continue;
        if (x + width > right_px) {
            x = LEGEND_LEFT_PX;
            top_px += LEGEND_LINE_PX;
        }
        draw_sample(out, &samples[i], x, top_px);
        x += width + APART_PX;
    }
    fputc('\n', out);
    return top_px + (x > LEGEND_LEFT_PX ? LEGEND_LINE_PX : 0);
}

/* ---- the panel: one play as a picture ---- */

/* Its height is at most `most_px`, unless there are more lanes than fit. */
struct panel_place {
    double top_px, width_px, most_px;
    bool own_axis; /* it says so: the other play is drawn on another */
};

enum { MARGIN = 14, TEXT_LEFT = 30, AXIS_PX = 30, FOLDS_PX = 14, LINE_PX = 18, NAME_PX = 14 };

static void timeline_ask(struct canvas *p, double middle, double base, const char *text) {
    double half = svg_text_width(text, 12, false) / 2;
    double left = middle + half > p->labels.right_px - 2 ? p->labels.right_px - 2 - 2 * half : middle - half;
    struct label label = {.class = "soft", .place = LABELS_AT, .rank = CANVAS_FAULT, .x = left, .y = base};
    snprintf(label.text, sizeof label.text, "%s", text);
    labels_ask(&p->labels, &label);
}

static void draw_ticks(struct canvas *p) {
    double bottom = p->lanes.bottom_px;
    bool seconds = p->scale->tick_ns % 1000000000 == 0;
    for (int64_t t_ns = -1; (t_ns = scale_next_tick(p->scale, t_ns)) >= 0;) {
        char text[32];
        if (p->scale->tick_ns >= 1000000)
            snprintf(text, sizeof text, seconds ? "%.0f s" : "%.0f ms", (double)t_ns / (seconds ? 1e9 : 1e6));
        else
            snprintf(text, sizeof text, "%.3f ms", (double)t_ns / 1e6);
        svg_line(p->out, "rule", canvas_x(p, t_ns), p->lanes_top_px, canvas_x(p, t_ns), bottom + 4);
        timeline_ask(p, canvas_x(p, t_ns), bottom + 18, text);
    }
}

static void draw_folds(struct canvas *p) {
    double bottom = p->lanes.bottom_px;
    for (int i = 0; i < p->scale->fold_count; i++) {
        const struct scale_fold *fold = &p->scale->folds[i];
        double left = canvas_x(p, fold->from_ns), right = canvas_x(p, fold->to_ns);
        double seconds = (double)(fold->to_ns - fold->from_ns) / 1e9;
        char text[48];
        snprintf(text, sizeof text, seconds < 1 ? "%.0f ms left out" : "%.1f s left out",
                 seconds < 1 ? seconds * 1e3 : seconds);
        fprintf(p->out, "<g><title>%s</title>", text);
        svg_rect(p->out, "gap", left, p->lanes_top_px, right - left, bottom - p->lanes_top_px, 0);
        for (int k = 1; k <= 2; k++)
            fprintf(p->out, "<path class=\"fold\" d=\"M%.1f %.1fl5 -12l-5 -12\"/>",
                    left + k * (right - left) / 3, bottom + 12);
        fputs("</g>", p->out);
        timeline_ask(p, (left + right) / 2, bottom + 34, text);
    }
}

/* In thin lanes only every so many names have room. */
static int names_apart(const struct lanes *lanes) {
    for (int i = 0; i < lanes->count; i++) {
        if (lanes->lanes[i].kind == LANE_CLIENT)
            return 1 + (int)(NAME_PX / (lanes->lanes[i].height_px + 1));
    }
    return 1;
}

static void draw_name(const struct canvas *p, const struct lane *lane) {
    double middle = lane->top_px + lane->height_px / 2, width = p->scale->left_px - TEXT_LEFT - 6;
    char name[100], under[100] = "";
    snprintf(name, sizeof name - 4, "%s", lane->name);
    if (lane->kind == LANE_SERVER && lane->key)
        snprintf(under, sizeof under - 4, "says who has %s", lane->key);
    else if (lane->kind == LANE_STOCK)
        snprintf(under, sizeof under, "units left");
    bool thin = lane->kind == LANE_CLIENT && lanes_is_thin(lane);
    svg_text_fit(name, 13, true, width);
    svg_text_fit(under, 12, false, width);
    middle = lane->kind == LANE_SERVER ? lane->top_px + 18 : middle;
    svg_text(p->out, thin ? "soft" : "name", TEXT_LEFT,
             middle + (*under != '\0' ? -1
                       : thin         ? 4
                                      : 5),
             SVG_START, name);
    if (*under != '\0')
        svg_text(p->out, "soft", TEXT_LEFT, middle + 14, SVG_START, under);
}

static void draw_lanes(const struct canvas *p, double right) {
    int apart = names_apart(&p->lanes);
    for (int i = 0; i < p->lanes.count; i++) {
        const struct lane *lane = &p->lanes.lanes[i];
        if (lane->kind == LANE_CLIENT && lane->number % apart != 0)
            continue;
        bool thin = lane->kind == LANE_CLIENT && lanes_is_thin(lane); /* no line through its name */
        svg_line(p->out, "rule", thin ? p->scale->left_px : TEXT_LEFT, lane->top_px, right, lane->top_px);
        draw_name(p, lane);
    }
    svg_line(p->out, "rule", TEXT_LEFT, p->lanes.bottom_px, right, p->lanes.bottom_px);
}

static void draw_band(const struct canvas *p, int64_t from_ns, int64_t to_ns) {
    if (!view_shows(p->view, from_ns, to_ns))
        return;
    double left = canvas_x(p, from_ns), right = canvas_x(p, to_ns);
    svg_rect(p->out, "band", left, p->lanes_top_px, right - left > 1 ? right - left : 1,
             p->lanes.bottom_px - p->lanes_top_px, 0);
}

/* The first overlap is named above its band. */
static void draw_caption(struct canvas *p, const struct lock_overlap *first, size_t more) {
    char text[200];
    double ms = (double)(first->to_ns - first->from_ns) / 1e6;
    int length = snprintf(text, sizeof text, "%.40s and %.40s both believe: %.*f ms", first->one->who,
                          first->other->who, ms < 10, ms);
    if (more > 0)
        snprintf(text + length, sizeof text - (size_t)length, ", and %zu more times", more);
    double half = svg_text_width(text, 12, true) / 2 + 8;
    double middle = (canvas_x(p, first->from_ns) + canvas_x(p, first->to_ns)) / 2;
    if (middle + half > p->labels.right_px)
        middle = p->labels.right_px - half;
    if (middle - half < p->labels.left_px)
        middle = p->labels.left_px + half;
    svg_rect(p->out, "caption", middle - half, p->lanes_top_px - 21, 2 * half, 19, 4);
    svg_text(p->out, "caption-text", middle - half + 8, p->lanes_top_px - 7, SVG_START, text);
}

/* They are sorted by begin, for each key: those that touch are one band. */
static void draw_overlaps(struct canvas *p) {
    const struct lock_holds *holds = &p->judgement->holds;
    for (size_t i = 0; i < holds->overlap_count;) {
        const struct lock_overlap *first = &holds->overlaps[i];
        int64_t to_ns = first->to_ns;
        for (i++; i < holds->overlap_count && holds->overlaps[i].from_ns <= to_ns &&
                  strcmp(holds->overlaps[i].one->key, first->one->key) == 0;
             i++)
            to_ns = holds->overlaps[i].to_ns > to_ns ? holds->overlaps[i].to_ns : to_ns;
        draw_band(p, first->from_ns, to_ns);
    }
    if (holds->overlap_count > 0)
        draw_caption(p, holds->overlaps, holds->overlap_count - 1);
}

/* The bytes of `text` that fit into a line: whole words, but at least one of them. */
static size_t line_length(const char *text, double width) {
    char line[JUDGE_SENTENCE_SIZE];
    size_t fits = 0;
    for (size_t end = 0; end < sizeof line - 1 && text[end] != '\0';) {
        end += strspn(text + end, " ");
        end += strcspn(text + end, " ");
        snprintf(line, sizeof line, "%.*s", (int)end, text);
        if (fits > 0 && svg_text_width(line, 13, false) > width)
            break;
        fits = end;
    }
    return fits;
}

/* Wraps it; returns the base line of the next one. */
static double draw_sentence(FILE *out, const char *sentence, double base, double width) {
    while (*sentence != '\0') {
        char line[JUDGE_SENTENCE_SIZE];
        size_t length = line_length(sentence, width);
        snprintf(line, sizeof line, "%.*s", (int)length, sentence);
        svg_text_fit(line, 13, false, width);
        svg_text(out, "", TEXT_LEFT, base, SVG_START, line);
        sentence += length;
        sentence += strspn(sentence, " ");
        base += LINE_PX;
    }
    return base;
}

static double draw_remark(const struct canvas *p, const char *text, double base) {
    svg_text(p->out, "soft", TEXT_LEFT, base, SVG_START, text);
    return base + LINE_PX;
}

/* The badge, the outcome, the sentence, and what is left out. Returns where the lanes may begin. */
static double draw_head(const struct canvas *p, const struct judged_play *played, double top, double width,
                        bool own_axis) {
    const struct event_play *play = &played->log.play;
    bool fixed = strcmp(play->play, "fixed") == 0;
    char head[200], text[200], out[32], all[32];
    snprintf(head, sizeof head, "%.60s: %.30s", play->scenario, played->verdict.outcome);
    svg_rect(p->out, fixed ? "badge-fixed" : "badge-broken", TEXT_LEFT, top + 14, 86, 22, 11);
    svg_text(p->out, "on-badge", TEXT_LEFT + 43, top + 30, SVG_MIDDLE, fixed ? "FIXED" : "BROKEN");
    svg_text(p->out, "head", TEXT_LEFT + 98, top + 31, SVG_START, head);
    double base = draw_sentence(p->out, played->verdict.sentence, top + 54, width);
    if (p->shown->left_out > 0 || p->lanes.left_out > 0) {
        describe_count(p->shown->left_out + p->lanes.left_out, out);
        describe_count(p->log->count, all);
        snprintf(text, sizeof text, "%s of %s events left out here; the file of events has all", out, all);
        base = draw_remark(p, text, base);
    }
    if (own_axis)
        base = draw_remark(p, "The two plays differ much in length: each has a time axis of its own", base);
    return base + 10;
}

/* Draws all of it but its ground. */
static double draw_content(struct canvas *p, const struct judged_play *played,
                           const struct panel_place *place) {
    double right = place->width_px - 2 * MARGIN;
    lanes_find(&p->lanes, p->log);
    p->lanes_top_px = draw_head(p, played, place->top_px, right - 2 * TEXT_LEFT, place->own_axis);
    if (p->lanes.count == 0) /* nothing has happened */
        return p->lanes_top_px;
    p->lanes_top_px += p->judgement->holds.overlap_count > 0 ? LINE_PX : 0;
    double axis = AXIS_PX + (p->scale->fold_count > 0 ? FOLDS_PX : 0);
    lanes_place(&p->lanes, p->lanes_top_px, place->most_px - (p->lanes_top_px - place->top_px) - axis,
                fault_marks_rows(p));
    draw_folds(p);
    draw_lanes(p, right);
    draw_ticks(p);
    draw_overlaps(p);
    marks_draw(p);
    return p->lanes.bottom_px + axis;
}

/* Draws a play; returns where it ends. Sets `*good` to false when out of memory. */
static double panel_draw(FILE *out, const struct judged_play *played, const struct view *view,
                         const struct view_play *shown, const struct scale *scale,
                         const struct panel_place *place, bool *good) {
    struct canvas *p = calloc(1, sizeof *p);
    char *content = NULL;
    size_t size = 0;
    double bottom = place->top_px;
    FILE *body = p ? open_memstream(&content, &size) : NULL;
    *good = body;
    if (*good) {
        p->out = body;
        p->log = &played->log;
        p->judgement = &played->judgement;
        p->view = view;
        p->shown = shown;
        p->scale = scale;
        p->labels.left_px = scale->left_px - 20;
        p->labels.right_px = place->width_px - MARGIN - 4;
        bottom = draw_content(p, played, place);
        *good = fclose(body) == 0;
    }
    if (*good) { /* the ground lies below, and is as high as the content */
        svg_rect(out, "panel", MARGIN, place->top_px, place->width_px - 2 * MARGIN, bottom - place->top_px,
                 8);
        fwrite(content, 1, size, out);
    }
    free(content);
    free(p);
    return bottom;
}

/* ---- the timeline: all plays ---- */

enum { WIDTH_PX = 1200, MOST_PX = 1560, LANES_LEFT_PX = 160, RIGHT_PX = 1160 };
enum { HEAD_PX = 16, GAP_PX = 16, LEGEND_PX = 60 };

/* On one axis a play of which the other is so many times as long would be a heap at its left end. */
enum { MUCH_LONGER = 6 };

static bool are_of_a_length(const struct judged_play plays[], int count) {
    int64_t shortest_ns = INT64_MAX, longest_ns = 0;
    for (int i = 0; i < count; i++) {
        int64_t end_ns = 0;
        for (size_t k = 0; k < plays[i].log.count; k++)
            end_ns = plays[i].log.events[k].t_ns > end_ns ? plays[i].log.events[k].t_ns : end_ns;
        longest_ns = end_ns > longest_ns ? end_ns : longest_ns;
        if (end_ns > 0)
            shortest_ns = end_ns < shortest_ns ? end_ns : shortest_ns;
    }
    return longest_ns / MUCH_LONGER <= shortest_ns;
}

static bool draw_panels(FILE *body, const struct judged_play plays[], int count, const struct view *view,
                        double *bottom_px) {
    struct panel_place place = {HEAD_PX, WIDTH_PX, (MOST_PX - HEAD_PX - LEGEND_PX) / 2.0 - GAP_PX, false};
    bool good = true;
    place.own_axis = !are_of_a_length(plays, count);
    for (int i = 0; good && i < count; i++) {
        struct scale scale;
        const struct judged_play *on_axis = place.own_axis ? &plays[i] : plays;
        good = scale_fit(&scale, on_axis, place.own_axis ? 1 : count, view, LANES_LEFT_PX, RIGHT_PX);
        if (good)
            place.top_px = GAP_PX + panel_draw(body, &plays[i], view, &view->plays[i], &scale, &place, &good);
    }
    *bottom_px = place.top_px;
    return good;
}

/* The plays have to be drawn before the height is known, which is at the beginning of the file. */
bool timeline_draw(FILE *out, const struct judged_play plays[], int count) {
    char *text = NULL;
    size_t size = 0;
    double bottom = HEAD_PX;
    struct view view;
    if (!view_make(&view, plays, count))
        return false;
    FILE *body = open_memstream(&text, &size);
    bool good = body && draw_panels(body, plays, count, &view, &bottom);
    if (good)
        bottom = legend_draw(body, plays, count, &view, bottom, RIGHT_PX);
    good = body && fclose(body) == 0 && good;
    if (good) {
        svg_begin(out, WIDTH_PX, bottom + 4, plays[0].log.play.scenario);
        fwrite(text, 1, size, out);
        svg_end(out);
    }
    free(text);
    view_free(&view);
    return good;
}
