#include "loadtest/lab/draw/view.h"

#include <stdlib.h>
#include <string.h>

/* ---- spans ----
 * Until when the mark of each event lasts. A request lasts until its answer, a grant until the
 * deadline or the last use of it, a fault until its end, what a server or the stock says until it says
 * something else; what never ends lasts for ever (INT64_MAX), and all else is over at once. */

/* What is open and waits for its end. It is small, since it is compared with every later event. */
struct open {
    size_t at;           /* of the event that began it */
    enum event_kind end; /* the kind that ends it; of a request: any with its operation */
    uint64_t op;
    const char *one, *two; /* texts that the end must have too; NULL: none */
};

static bool same(const char *a, const char *b) {
    return !a || (b && strcmp(a, b) == 0);
}

/* False: the event is over at once. */
static bool opens(const struct event *event, struct open *open) {
    *open = (struct open){.end = event->kind};
    switch (event->kind) {
    case EVENT_ACQUIRE_SENT: open->op = event->op; return true;
    case EVENT_HOLDER_PAUSED: open->end = EVENT_HOLDER_RESUMED; break;
    case EVENT_FAULT_START: open->end = EVENT_FAULT_END; break;
    case EVENT_SERVER_DOWN: open->end = EVENT_SERVER_UP; break;
    case EVENT_STORE_KEY:
    case EVENT_SERVER_ROLE:
    case EVENT_SALE_STOCK: break;
    default: return false;
    }
    bool stock = event->kind == EVENT_SALE_STOCK, store = event->kind == EVENT_STORE_KEY;
    open->one = stock ? event->item : event->server ? event->server : event->target;
    open->two = store ? event->key : NULL;
    return true;
}

static bool ends(const struct open *open, const struct event *event) {
    if (open->end == EVENT_ACQUIRE_SENT)
        return open->op != 0 && event->op == open->op;
    if (event->kind != open->end)
        return false;
    const char *one = event->kind == EVENT_SALE_STOCK ? event->item
                      : event->server                 ? event->server
                                                      : event->target;
    return same(open->one, one) && same(open->two, event->key);
}

static void spans_follow(const struct event_log *log, struct open *all, int64_t *to_ns) {
    size_t count = 0;
    for (size_t i = 0; i < log->count; i++) {
        const struct event *event = &log->events[i];
        for (size_t k = 0; k < count;) {
            if (ends(&all[k], event)) {
                to_ns[all[k].at] = event->t_ns;
                all[k] = all[--count];
            } else {
                k++;
            }
        }
        to_ns[i] = event->t_ns;
        if (opens(event, &all[count])) {
            to_ns[i] = INT64_MAX;
            all[count++].at = i;
        }
    }
}

/* A client may use a grant after its deadline. */
static void follow_grants(const struct judged_play *play, int64_t *to_ns) {
    const struct lock_holds *holds = &play->judgement.holds;
    for (size_t i = 0; i < holds->count; i++)
        to_ns[holds->holds[i].begun_n - 1] = holds->holds[i].until_ns;
    for (size_t i = 0; i < play->log.count; i++) {
        const struct event *event = &play->log.events[i];
        const struct lock_hold *hold = event->grant != 0 ? lock_holds_of_grant(holds, event->grant) : NULL;
        if (hold && strcmp(event->who, hold->who) == 0 && event->t_ns > to_ns[hold->begun_n - 1])
            to_ns[hold->begun_n - 1] = event->t_ns;
    }
}

/* Returns a time in nanoseconds for each event, to be freed, or NULL when out of memory. */
static int64_t *spans_find(const struct judged_play *play) {
    int64_t *to_ns = calloc(play->log.count + 1, sizeof *to_ns);
    struct open *all = calloc(play->log.count + 1, sizeof *all);
    if (!to_ns || !all) {
        free(to_ns);
        free(all);
        return NULL;
    }
    spans_follow(&play->log, all, to_ns);
    free(all);
    follow_grants(play, to_ns);
    return to_ns;
}

/* ---- the view ---- */

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
        const struct lock_holds *holds = &plays[i].judgement.holds;
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
        if (!view->plays[i].to_ns || !view->plays[i].shown) {
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

/* Returns the window that has this time; -1: none. */
static int view_window_of(const struct view *view, int64_t t_ns) {
    for (int i = 0; i < view->window_count; i++) {
        if (view->windows[i].from_ns <= t_ns && t_ns <= view->windows[i].to_ns)
            return i;
    }
    return -1;
}

/* ---- the time axis ---- */

enum { FOLD_TTLS = 3, TICKS = 12 };

static void add_fold(struct scale *scale, int64_t from_ns, int64_t to_ns) {
    to_ns = to_ns < scale->end_ns ? to_ns : scale->end_ns;
    if (scale->fold_count < SCALE_FOLDS && from_ns < to_ns)
        scale->folds[scale->fold_count++] = (struct scale_fold){from_ns, to_ns};
}

static int by_begin(const void *a, const void *b) {
    const struct scale_fold *x = a, *y = b;
    return (x->from_ns > y->from_ns) - (x->from_ns < y->from_ns);
}

/* `times` is sorted. A tenth of a gap stays visible at each side, so that one sees where it begins. */
static void find_folds(struct scale *scale, const struct view *view, const int64_t *times, size_t count,
                       int64_t fold_ns) {
    for (int i = 1; i < view->window_count; i++)
        add_fold(scale, view->windows[i - 1].to_ns, view->windows[i].from_ns);
    for (size_t i = 1; i < count; i++) {
        int64_t gap_ns = times[i] - times[i - 1];
        if (gap_ns > fold_ns && view_window_of(view, times[i]) == view_window_of(view, times[i - 1]))
            add_fold(scale, times[i - 1] + gap_ns / 10, times[i] - gap_ns / 10);
    }
    qsort(scale->folds, (size_t)scale->fold_count, sizeof scale->folds[0], by_begin);
}

/* A lease that ends a little after the last event is drawn to its end. */
static int64_t end_of_leases(const struct judged_play plays[], int count, int64_t last_ns) {
    int64_t end_ns = last_ns, most_ns = last_ns + last_ns / 10;
    for (int i = 0; i < count; i++) {
        for (size_t k = 0; k < plays[i].log.count; k++) {
            int64_t until_ns = plays[i].log.events[k].until_ns;
            if (until_ns > end_ns)
                end_ns = until_ns < most_ns ? until_ns : most_ns;
        }
    }
    return end_ns;
}

/* The times of all events in the windows, sorted. */
static size_t find_times(int64_t *times, const struct judged_play plays[], int count,
                         const struct view *view) {
    size_t filled = 0;
    for (int i = 0; i < count; i++) {
        for (size_t k = 0; k < plays[i].log.count; k++) {
            if (view_window_of(view, plays[i].log.events[k].t_ns) >= 0)
                times[filled++] = plays[i].log.events[k].t_ns;
        }
    }
    qsort(times, filled, sizeof *times, by_time);
    return filled;
}

/* Once the folds are known. */
static void stretch(struct scale *scale) {
    int64_t shown_ns = scale->end_ns;
    for (int i = 0; i < scale->fold_count; i++)
        shown_ns -= scale->folds[i].to_ns - scale->folds[i].from_ns;
    shown_ns = shown_ns > 0 ? shown_ns : 1;
    double px = scale->right_px - scale->left_px - scale->fold_count * (double)SCALE_FOLD_PX;
    scale->px_per_ns = px / (double)shown_ns;
    scale->tick_ns = 1000;
    for (int i = 0; shown_ns / scale->tick_ns > TICKS; i++)
        scale->tick_ns = i % 3 == 1 ? scale->tick_ns / 2 * 5 : scale->tick_ns * 2;
}

bool scale_fit(struct scale *scale, const struct judged_play plays[], int count, const struct view *view,
               double left_px, double right_px) {
    struct scale fitted = {.left_px = left_px, .right_px = right_px, .end_ns = 1000000};
    size_t all = 0;
    int64_t fold_ns = INT64_MAX;
    for (int i = 0; i < count; i++) {
        all += plays[i].log.count;
        if (plays[i].log.play.ttl_ms > 0)
            fold_ns = FOLD_TTLS * plays[i].log.play.ttl_ms * 1000000;
    }
    int64_t *times = calloc(all + 1, sizeof *times);
    if (!times)
        return false;
    size_t filled = find_times(times, plays, count, view);
    if (filled > 0 && times[filled - 1] > fitted.end_ns)
        fitted.end_ns = times[filled - 1];
    fitted.end_ns = end_of_leases(plays, count, fitted.end_ns);
    find_folds(&fitted, view, times, filled, fold_ns);
    free(times);
    stretch(&fitted);
    *scale = fitted;
    return true;
}

double scale_x(const struct scale *scale, int64_t t_ns) {
    double x = scale->left_px;
    int64_t from_ns = 0;
    for (int i = 0; i < scale->fold_count && t_ns > scale->folds[i].from_ns; i++) {
        const struct scale_fold *fold = &scale->folds[i];
        x += (double)(fold->from_ns - from_ns) * scale->px_per_ns;
        if (t_ns < fold->to_ns) /* within the break */
            return x + SCALE_FOLD_PX * (double)(t_ns - fold->from_ns) / (double)(fold->to_ns - fold->from_ns);
        x += SCALE_FOLD_PX;
        from_ns = fold->to_ns;
    }
    return x + (double)(t_ns - from_ns) * scale->px_per_ns;
}

int64_t scale_next_tick(const struct scale *scale, int64_t t_ns) {
    int64_t tick_ns = t_ns < 0 ? 0 : t_ns + scale->tick_ns;
    for (int i = 0; i < scale->fold_count; i++) {
        const struct scale_fold *fold = &scale->folds[i];
        if (tick_ns >= fold->from_ns && tick_ns <= fold->to_ns)
            tick_ns = (fold->to_ns / scale->tick_ns + 1) * scale->tick_ns;
    }
    return tick_ns <= scale->end_ns ? tick_ns : -1;
}
