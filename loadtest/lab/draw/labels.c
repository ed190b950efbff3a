#include "loadtest/lab/draw/labels.h"

#include <string.h>

#include "loadtest/lab/draw/svg.h"

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
