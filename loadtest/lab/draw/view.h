/* Which events of two plays are drawn, and where on the time axis. */
#ifndef LOADTEST_LAB_DRAW_VIEW_H
#define LOADTEST_LAB_DRAW_VIEW_H

#include "loadtest/lab/judge/judge.h"

/* ---- the view ----
 * Which events are drawn: all of them, if no play has more than VIEW_MOST. Else only windows of
 * time, the same for both plays, by this rule:
 * - What matters are points in time: the first and the last event, where the first overlap begins and ends,
 * and the evidence; of those at most VIEW_WINDOWS that are not close to another, in this order.
 * - A window is the time within a distance of such a point; windows that touch are one.
 * - The distance is the largest for which no play shows more than VIEW_MOST events.
 * An event is shown if its span reaches into a window. If there are more than VIEW_MOST even at
 * the distance 0, the first of them are shown. */

enum { VIEW_MOST = 2000, VIEW_WINDOWS = 12, VIEW_PLAYS = 2 };

struct view {
    struct view_window {
        int64_t from_ns, to_ns;
    } windows[VIEW_WINDOWS]; /* in order of time, apart from each other; the first begins before all events
                                and the last ends after them */
    int window_count;
    struct view_play {
        int64_t *to_ns; /* of each event: where its span ends */
        bool *shown;    /* of each event */
        size_t left_out;
    } plays[VIEW_PLAYS];
};

/* False when out of memory. */
bool view_make(struct view *view, const struct judged_play plays[], int count);
void view_free(struct view *view);

/* Whether a span reaches into a window. */
bool view_shows(const struct view *view, int64_t from_ns, int64_t to_ns);

/* ---- the time axis ----
 * From left to right in true scale. A gap in which nothing happens in any play, longer than
 * three times to live, is folded into a short break; so is what lies between the windows of a view. */

enum { SCALE_FOLDS = 16, SCALE_FOLD_PX = 28 };

struct scale {
    double left_px, right_px;
    double px_per_ns; /* outside of folds */
    int64_t end_ns;
    struct scale_fold {
        int64_t from_ns, to_ns;
    } folds[SCALE_FOLDS];
    int fold_count;
    int64_t tick_ns; /* between two ticks: 1, 2 or 5 times a power of ten */
};

/* One axis for all plays. False when out of memory. */
bool scale_fit(struct scale *scale, const struct judged_play plays[], int count, const struct view *view,
               double left_px, double right_px);

double scale_x(const struct scale *scale, int64_t t_ns);

/* The next tick after `t_ns` (-1: the first) that is not within a fold; -1: there is none. */
int64_t scale_next_tick(const struct scale *scale, int64_t t_ns);

#endif
