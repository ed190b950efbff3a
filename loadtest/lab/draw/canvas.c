#include "loadtest/lab/draw/canvas.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/svg.h"

/* ---- lanes ---- */

enum { CLIENT_PX = 52, THINNEST_PX = 4, SERVER_PX = 36, NEWS_PX = 14, STOCK_PX = 64 };

static bool lanes_is_same(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

const struct lane *lanes_of(const struct lanes *lanes, enum lane_kind kind, const char *name) {
    for (int i = 0; name && i < lanes->count; i++) {
        const struct lane *lane = &lanes->lanes[i];
        if (lane->kind == kind && (kind == LANE_FAULT || strcmp(lane->name, name) == 0))
            return lane;
    }
    return NULL;
}

const struct lane *lanes_of_key(const struct lanes *lanes, const char *server, const char *key) {
    for (int i = 0; i < lanes->count; i++) {
        const struct lane *lane = &lanes->lanes[i];
        if (lane->kind == LANE_SERVER && lanes_is_same(lane->name, server) && lanes_is_same(lane->key, key))
            return lane;
    }
    return NULL;
}

static bool is_news(const struct event *event) {
    return event->kind >= EVENT_SERVER_ROLE && event->kind <= EVENT_SERVER_UP;
}

/* The lane that an event opens, if it is of this kind; NULL: none. */
static const char *name_in(enum lane_kind kind, const struct event *event) {
    switch (kind) {
    case LANE_FAULT:
        return event->kind == EVENT_FAULT_START || event->kind == EVENT_HOLDER_PAUSED ? "faults" : NULL;
    case LANE_CLIENT: return event->kind <= EVENT_WRITE_UNKNOWN ? event->who : NULL;
    case LANE_SERVER: return event->kind == EVENT_STORE_KEY || is_news(event) ? event->server : NULL;
    default: return event->kind == EVENT_SALE_STOCK ? event->item : NULL;
    }
}

/* The lane of an event that a server has said; NULL: it has none yet. */
static struct lane *server_lane(struct lanes *lanes, const struct event *event) {
    for (int i = 0; i < lanes->count; i++) {
        struct lane *lane = &lanes->lanes[i];
        if (lane->kind != LANE_SERVER || strcmp(lane->name, event->server) != 0)
            continue;
        if (event->kind == EVENT_STORE_KEY && !lane->key) /* known by its news only, so far */
            lane->key = event->key;
        if (event->kind != EVENT_STORE_KEY || strcmp(lane->key, event->key) == 0)
            return lane;
    }
    return NULL;
}

static void add_lanes(struct lanes *lanes, const struct event_log *log, enum lane_kind kind) {
    int number = 0;
    for (size_t i = 0; i < log->count; i++) {
        const struct event *event = &log->events[i];
        const char *name = name_in(kind, event);
        if (!name)
            continue;
        struct lane *lane = kind == LANE_SERVER ? server_lane(lanes, event) : NULL;
        if (!lane && (kind == LANE_SERVER || !lanes_of(lanes, kind, name))) {
            if (lanes->count == LANES_MAX) {
                lanes->left_out++;
                continue;
            }
            lane = &lanes->lanes[lanes->count++];
            *lane = (struct lane){.kind = kind,
                                  .name = name,
                                  .key = event->kind == EVENT_STORE_KEY ? event->key : NULL,
                                  .number = number};
            number++;
            lanes->clients += kind == LANE_CLIENT;
        }
        if (lane && is_news(event))
            lane->has_news = true;
    }
}

/* "buyer-12" is one of a crowd, and its stem is "buyer-". */
static size_t stem_length(const char *name) {
    const char *dash = strrchr(name, '-');
    return dash ? (size_t)(dash + 1 - name) : strlen(name);
}

static bool is_numbered(const char *name) {
    size_t length = strlen(name);
    return length > 0 && name[length - 1] >= '0' && name[length - 1] <= '9';
}

/* Those who have a name of their own come before a crowd that is numbered. */
static int by_name(const void *a, const void *b) {
    const struct lane *x = a, *y = b;
    size_t stem = stem_length(x->name);
    bool are_kin = stem == stem_length(y->name) && strncmp(x->name, y->name, stem) == 0;
    if (!are_kin && is_numbered(x->name) != is_numbered(y->name))
        return is_numbered(x->name) ? 1 : -1;
    int names = strverscmp(x->name, y->name);
    return names != 0 ? names : x->number - y->number;
}

/* client-2 before client-10: so one finds them, and in both plays at the same place. */
static void lanes_sort(struct lanes *lanes, enum lane_kind kind) {
    int from = 0, to;
    while (from < lanes->count && lanes->lanes[from].kind != kind)
        from++;
    for (to = from; to < lanes->count && lanes->lanes[to].kind == kind; to++)
        ;
    qsort(&lanes->lanes[from], (size_t)(to - from), sizeof lanes->lanes[0], by_name);
    for (int i = from; i < to; i++)
        lanes->lanes[i].number = i - from;
}

static void add_keys(struct lanes *lanes, const struct event_log *log) {
    for (size_t i = 0; i < log->count && lanes->key_count < LANES_KEYS; i++) {
        const struct event *event = &log->events[i];
        int known = 0;
        if (event->kind != EVENT_ACQUIRE_OK)
            continue;
        while (known < lanes->key_count && strcmp(lanes->keys[known], event->key) != 0)
            known++;
        if (known == lanes->key_count)
            lanes->keys[lanes->key_count++] = event->key;
    }
}

void lanes_find(struct lanes *lanes, const struct event_log *log) {
    *lanes = (struct lanes){.count = 0};
    for (int kind = LANE_FAULT; kind <= LANE_STOCK; kind++)
        add_lanes(lanes, log, (enum lane_kind)kind);
    lanes_sort(lanes, LANE_CLIENT);
    lanes_sort(lanes, LANE_SERVER);
    add_keys(lanes, log);
}

static double height_px(const struct lane *lane, double client_px, int fault_rows) {
    switch (lane->kind) {
    case LANE_FAULT: return 6 + LANES_FAULT_ROW_PX * fault_rows;
    case LANE_CLIENT: return client_px;
    case LANE_SERVER: return SERVER_PX + (lane->has_news ? NEWS_PX : 0);
    default: return STOCK_PX;
    }
}

void lanes_place(struct lanes *lanes, double top_px, double most_px, int fault_rows) {
    double others_px = 0, client_px = CLIENT_PX;
    for (int i = 0; i < lanes->count; i++)
        others_px += height_px(&lanes->lanes[i], 0, fault_rows);
    if (lanes->clients > 0 && lanes->clients * client_px > most_px - others_px)
        client_px = (double)(int)((most_px - others_px) / lanes->clients);
    client_px = client_px < THINNEST_PX ? THINNEST_PX : client_px;
    for (int i = 0; i < lanes->count; i++) {
        struct lane *lane = &lanes->lanes[i];
        lane->top_px = top_px;
        lane->height_px = height_px(lane, client_px, fault_rows);
        top_px += lane->height_px;
    }
    lanes->bottom_px = top_px;
}

/* ---- labels ---- */

enum { SIZE_PX = 12, ABOVE_PX = 17, BELOW_PX = 24, RANKS = 4 };

void labels_take(struct labels *labels, double left, double top, double right, double bottom) {
    if (labels->count < LABELS_BOXES)
        labels->boxes[labels->count++] = (struct labels_box){left, top, right, bottom, false};
}

void labels_take_mark(struct labels *labels, double x, double y, double radius) {
    if (labels->count < LABELS_BOXES)
        labels->boxes[labels->count++] =
            (struct labels_box){x - radius, y - radius, x + radius, y + radius, true};
}

void labels_ask(struct labels *labels, const struct label *label) {
    if (labels->asked_count < LABELS_ASKED)
        labels->asked[labels->asked_count++] = *label;
}

/* Texts must not lie on each other; one beside a mark must not lie on a bar either. */
static bool is_free(const struct labels *labels, const struct labels_box *box, bool on_bars) {
    if (box->left < labels->left_px || box->right > labels->right_px)
        return false;
    for (int i = 0; i < labels->count; i++) {
        const struct labels_box *taken = &labels->boxes[i];
        if (on_bars && !taken->solid)
            continue;
        if (box->left < taken->right && taken->left < box->right && box->top < taken->bottom &&
            taken->top < box->bottom)
            return false;
    }
    return true;
}

static bool write_if_free(struct labels *labels, FILE *out, const struct label *label, const char *text,
                          double left, double base) {
    double width = svg_text_width(text, SIZE_PX, label->bold);
    struct labels_box box = {left - 2, base - SIZE_PX + 2, left + width + 2, base + 3, true};
    if (labels->count == LABELS_BOXES || !is_free(labels, &box, label->place == LABELS_AT))
        return false;
    labels->boxes[labels->count++] = box;
    svg_text(out, label->class, left, base, SVG_START, text);
    return true;
}

static bool write_text(struct labels *labels, FILE *out, const struct label *label, const char *text) {
    /* Where the text begins or ends, and its base line, from the middle of the mark; the first and the second
     * lie beside it. */
    static const struct {
        double dx, dy;
        int side;
        enum svg_anchor anchor;
    } places[] = {
        {2, 4, 1, SVG_START},        {-2, 4, -1, SVG_END},        {4, -ABOVE_PX, 0, SVG_START},
        {-4, -ABOVE_PX, 0, SVG_END}, {4, BELOW_PX, 0, SVG_START}, {-4, BELOW_PX, 0, SVG_END},
    };
    if (label->place == LABELS_AT)
        return write_if_free(labels, out, label, text, label->x, label->y);
    double width = svg_text_width(text, SIZE_PX, label->bold);
    size_t count = label->place == LABELS_IN_LINE ? 2 : sizeof places / sizeof places[0];
    for (size_t i = 0; i < count; i++) {
        double left = label->x + places[i].side * label->away_px + places[i].dx -
                      (places[i].anchor == SVG_END ? width : 0);
        if (write_if_free(labels, out, label, text, left, label->y + places[i].dy))
            return true;
    }
    return false;
}

static void write_label(struct labels *labels, FILE *out, const struct label *label) {
    for (const char *text = label->text; *text != '\0';) {
        char one[LABELS_TEXT];
        size_t length = strcspn(text, "\n");
        snprintf(one, sizeof one, "%.*s", (int)length, text);
        if (write_text(labels, out, label, one))
            return;
        text += length + (text[length] == '\n');
    }
}

void labels_write(struct labels *labels, FILE *out) {
    for (int rank = 0; rank < RANKS; rank++) {
        for (int i = 0; i < labels->asked_count; i++) {
            if (labels->asked[i].rank == rank)
                write_label(labels, out, &labels->asked[i]);
        }
    }
}

/* ---- the canvas ---- */

enum { COLOURS = 8 };

double canvas_x(const struct canvas *canvas, int64_t t_ns) {
    int64_t end_ns = canvas->scale->end_ns;
    return scale_x(canvas->scale, t_ns < 0 ? 0 : t_ns < end_ns ? t_ns : end_ns);
}

double canvas_end_x(const struct canvas *canvas, const struct event *event) {
    return canvas_x(canvas, canvas->shown->to_ns[event - canvas->log->events]);
}

bool canvas_shows(const struct canvas *canvas, const struct event *event) {
    return canvas->shown->shown[event - canvas->log->events];
}

struct canvas_row canvas_row(const struct canvas *canvas, const struct lane *lane, const char *key) {
    const struct lanes *lanes = &canvas->lanes;
    double margin = lane->height_px / 5, height = lane->height_px - 2 * margin;
    if (lanes->key_count < 2 || lanes_is_thin(lane))
        key = NULL;
    for (int i = 0; key && i < lanes->key_count; i++) {
        double share = (lane->height_px - 6) / lanes->key_count;
        if (strcmp(lanes->keys[i], key) == 0)
            return (struct canvas_row){lane->top_px + 3 + i * share, share - 1};
    }
    return (struct canvas_row){lane->top_px + margin, height};
}

void canvas_begin_mark(const struct canvas *canvas, const struct event *event) {
    char id[32], title[DESCRIBE_SIZE], what[DESCRIBE_SIZE];
    describe_id(canvas->log, event->n, id);
    describe_whole(event, title);
    snprintf(what, sizeof what, "event %" PRIu64 ", %s", event->n, event_kind_name(event->kind));
    svg_mark_begin(canvas->out, id, title, what);
}

void canvas_end_mark(const struct canvas *canvas) {
    svg_mark_end(canvas->out);
}

void canvas_bar(struct canvas *canvas, const char *class, int client, double left, double top, double right,
                double height) {
    char all[CANVAS_CLASS];
    double width = right - left > 1 ? right - left : 1;
    if (client >= 0)
        snprintf(all, sizeof all, "c%d%s%.30s", client % COLOURS, *class != '\0' ? " " : "", class);
    else
        snprintf(all, sizeof all, "%.30s", class);
    svg_rect(canvas->out, all, left, top, width, height, height < 8 ? 0 : 2);
    labels_take(&canvas->labels, left, top, left + width, top + height);
}

const struct lane *canvas_client(const struct canvas *canvas, const char *name) {
    char whole[80];
    snprintf(whole, sizeof whole, "client-%.64s", name);
    const struct lane *lane = lanes_of(&canvas->lanes, LANE_CLIENT, name);
    return lane ? lane : lanes_of(&canvas->lanes, LANE_CLIENT, whole);
}
