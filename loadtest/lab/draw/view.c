#include "loadtest/lab/draw/view.h"

#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/draw/spans.h"

/* Points that are closer than this part of the whole time are one. */
enum { CLOSE_PARTS = 200 };

struct points {
    int64_t t_ns[VIEW_WINDOWS];
    int count;
    int64_t close_ns;
};

static void add_point(struct points *points, int64_t t_ns) {
    for (int i = 0; i < points->count; i++) {
        if (llabs(points->t_ns[i] - t_ns) <= points->close_ns)
            return;
    }
    if (points->count < VIEW_WINDOWS)
        points->t_ns[points->count++] = t_ns;
}

static int by_time(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The k-th evidence of a play; false: it has fewer. */
static bool add_evidence(struct points *points, const struct judged_play *play, int k) {
    uint64_t n = play->verdict.evidence[k];
    if (n == 0 || n > play->log.count)
        return false;
    add_point(points, play->log.events[n - 1].t_ns);
    return true;
}

static void find_points(struct points *points, const struct judged_play plays[], int count) {
    int64_t first_ns = INT64_MAX, last_ns = 0;
    for (int i = 0; i < count; i++) {
        for (size_t k = 0; k < plays[i].log.count; k++) {
            int64_t t_ns = plays[i].log.events[k].t_ns;
            first_ns = t_ns < first_ns ? t_ns : first_ns;
            last_ns = t_ns > last_ns ? t_ns : last_ns;
        }
    }
    *points = (struct points){.close_ns = (last_ns - first_ns) / CLOSE_PARTS};
    add_point(points, first_ns);
    add_point(points, last_ns);
    for (int i = 0; i < count; i++) {
        const struct holds *holds = &plays[i].judgement.holds;
        if (holds->overlap_count > 0) {
            add_point(points, holds->overlaps[0].from_ns);
            add_point(points, holds->overlaps[0].to_ns);
        }
    }
    bool more = true;
    for (int k = 0; more && k < EVENT_EVIDENCE; k++) {
        more = false;
        for (int i = 0; i < count; i++)
            more = add_evidence(points, &plays[i], k) || more;
    }
    qsort(points->t_ns, (size_t)points->count, sizeof points->t_ns[0], by_time);
}

static void open_windows(struct view *view, const struct points *points, int64_t distance_ns) {
    view->window_count = 0;
    for (int i = 0; i < points->count; i++) {
        int64_t from_ns = points->t_ns[i] - distance_ns, to_ns = points->t_ns[i] + distance_ns;
        if (view->window_count > 0 && from_ns <= view->windows[view->window_count - 1].to_ns)
            view->windows[view->window_count - 1].to_ns = to_ns;
        else
            view->windows[view->window_count++] = (struct view_window){from_ns, to_ns};
    }
}

bool view_shows(const struct view *view, int64_t from_ns, int64_t to_ns) {
    for (int i = 0; i < view->window_count; i++) {
        if (from_ns <= view->windows[i].to_ns && view->windows[i].from_ns <= to_ns)
            return true;
    }
    return false;
}

static bool fits(const struct view *view, const struct judged_play plays[], int count) {
    for (int i = 0; i < count; i++) {
        size_t shown = 0;
        for (size_t k = 0; k < plays[i].log.count; k++)
            shown += view_shows(view, plays[i].log.events[k].t_ns, view->plays[i].to_ns[k]);
        if (shown > VIEW_MOST)
            return false;
    }
    return true;
}

static void find_windows(struct view *view, const struct judged_play plays[], int count) {
    struct points points;
    bool small = true;
    for (int i = 0; i < count; i++)
        small = small && plays[i].log.count <= VIEW_MOST;
    if (small) {
        view->window_count = 1;
        view->windows[0] = (struct view_window){INT64_MIN, INT64_MAX};
        return;
    }
    find_points(&points, plays, count);
    int64_t fits_ns = 0, too_far_ns = points.t_ns[points.count - 1] + 1;
    while (too_far_ns - fits_ns > 1000) {
        int64_t middle_ns = fits_ns + (too_far_ns - fits_ns) / 2;
        open_windows(view, &points, middle_ns);
        if (fits(view, plays, count))
            fits_ns = middle_ns;
        else
            too_far_ns = middle_ns;
    }
    open_windows(view, &points, fits_ns);
}

bool view_make(struct view *view, const struct judged_play plays[], int count) {
    *view = (struct view){.window_count = 0};
    for (int i = 0; i < count; i++) {
        view->plays[i].to_ns = spans_find(&plays[i]);
        view->plays[i].shown = calloc(plays[i].log.count + 1, sizeof *view->plays[i].shown);
        if (view->plays[i].to_ns == NULL || view->plays[i].shown == NULL) {
            view_free(view);
            return false;
        }
    }
    find_windows(view, plays, count);
    for (int i = 0; i < count; i++) {
        struct view_play *play = &view->plays[i];
        size_t shown = 0;
        for (size_t k = 0; k < plays[i].log.count; k++) {
            play->shown[k] =
                shown < VIEW_MOST && view_shows(view, plays[i].log.events[k].t_ns, play->to_ns[k]);
            shown += play->shown[k];
        }
        play->left_out = plays[i].log.count - shown;
    }
    return true;
}

void view_free(struct view *view) {
    for (int i = 0; i < VIEW_PLAYS; i++) {
        free(view->plays[i].to_ns);
        free(view->plays[i].shown);
    }
    memset(view, 0, sizeof *view);
}

int view_window_of(const struct view *view, int64_t t_ns) {
    for (int i = 0; i < view->window_count; i++) {
        if (view->windows[i].from_ns <= t_ns && t_ns <= view->windows[i].to_ns)
            return i;
    }
    return -1;
}
