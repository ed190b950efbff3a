#include "loadtest/lab/draw/timeline.h"

#include <stdlib.h>

#include "loadtest/lab/draw/legend.h"
#include "loadtest/lab/draw/panel.h"
#include "loadtest/lab/draw/svg.h"

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
    bool good = body != NULL && draw_panels(body, plays, count, &view, &bottom);
    if (good)
        bottom = legend_draw(body, plays, count, &view, bottom, RIGHT_PX);
    good = body != NULL && fclose(body) == 0 && good;
    if (good) {
        svg_begin(out, WIDTH_PX, bottom + 4, plays[0].log.play.scenario);
        fwrite(text, 1, size, out);
        svg_end(out);
    }
    free(text);
    view_free(&view);
    return good;
}
