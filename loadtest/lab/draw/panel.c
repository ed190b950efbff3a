#include "loadtest/lab/draw/panel.h"

#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/draw/marks.h"
#include "loadtest/lab/draw/svg.h"

enum { MARGIN = 14, TEXT_LEFT = 30, AXIS_PX = 34, LINE_PX = 18 };

/* ---- the ground: lanes and time ---- */

static void draw_ticks(struct panel *p) {
    double bottom = p->lanes.bottom_px;
    for (int64_t t_ns = -1; (t_ns = scale_next_tick(p->scale, t_ns)) >= 0;) {
        char text[32];
        snprintf(text, sizeof text, "%g ms", (double)t_ns / 1e6);
        svg_line(p->out, "rule", marks_x(p, t_ns), p->lanes_top, marks_x(p, t_ns), bottom + 4);
        svg_text(p->out, "soft", marks_x(p, t_ns), bottom + 20, SVG_MIDDLE, text);
    }
    for (int i = 0; i < p->scale->fold_count; i++) {
        const struct scale_fold *fold = &p->scale->folds[i];
        double left = marks_x(p, fold->from_ns), right = marks_x(p, fold->to_ns);
        char text[48];
        snprintf(text, sizeof text, "%.3g s left out", (double)(fold->to_ns - fold->from_ns) / 1e9);
        fprintf(p->out, "<g><title>%s</title>", text);
        for (int k = 1; k <= 2; k++)
            fprintf(p->out, "<path class=\"fold\" d=\"M%.1f %.1fl6 -12l-6 -12\" fill=\"none\"/>",
                    left + k * (right - left) / 3, bottom + 12);
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

/* ---- overlaps ---- */

static void draw_band(const struct panel *p, int64_t from_ns, int64_t to_ns) {
    double left = marks_x(p, from_ns), right = marks_x(p, to_ns);
    svg_rect(p->out, "band", left, p->lanes_top, right - left > 1 ? right - left : 1,
             p->lanes.bottom_px - p->lanes_top, 0);
}

/* The first overlap is named above its band. */
static void draw_caption(struct panel *p, const struct overlap *first, size_t more) {
    char text[200];
    int length = snprintf(text, sizeof text, "%.40s and %.40s both believe: %.0f ms", first->one->who,
                          first->other->who, (double)(first->to_ns - first->from_ns) / 1e6);
    if (more > 0)
        snprintf(text + length, sizeof text - (size_t)length, ", and %zu more times", more);
    double half = svg_text_width(text, 12, true) / 2 + 8;
    double middle = (marks_x(p, first->from_ns) + marks_x(p, first->to_ns)) / 2;
    if (middle + half > p->labels.right_px)
        middle = p->labels.right_px - half;
    if (middle - half < p->labels.left_px)
        middle = p->labels.left_px + half;
    svg_rect(p->out, "caption", middle - half, p->lanes_top - 21, 2 * half, 19, 4);
    labels_write_at(&p->labels, p->out, "on-badge small", true, middle - half + 8, p->lanes_top - 7, text);
}

/* They are sorted by begin, for each key: those that touch are one band. */
static void draw_overlaps(struct panel *p) {
    const struct holds *holds = &p->judgement->holds;
    for (size_t i = 0; i < holds->overlap_count;) {
        const struct overlap *first = &holds->overlaps[i];
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
    marks_draw(p);
    free(p);
    return bottom + 6;
}
