#include "loadtest/lab/draw/labels.h"

#include "loadtest/lab/draw/svg.h"

enum { SIZE_PX = 12, AWAY_PX = 11, ABOVE_PX = 17, BELOW_PX = 24 };

void labels_take(struct labels *labels, double left, double top, double right, double bottom) {
    if (labels->count < LABELS_BOXES)
        labels->boxes[labels->count++] = (struct labels_box){left, top, right, bottom, false};
}

/* Texts must not lie on each other; one beside a mark must not lie on a mark either. */
static bool is_free(const struct labels *labels, const struct labels_box *box, bool on_marks) {
    if (box->left < labels->left_px || box->right > labels->right_px)
        return false;
    for (int i = 0; i < labels->count; i++) {
        const struct labels_box *taken = &labels->boxes[i];
        if (on_marks && !taken->is_text)
            continue;
        if (box->left < taken->right && taken->left < box->right && box->top < taken->bottom &&
            taken->top < box->bottom)
            return false;
    }
    return true;
}

static bool write_if_free(struct labels *labels, FILE *out, const char *class, double left, double base,
                          double width, const char *text, bool on_marks) {
    struct labels_box box = {left - 2, base - SIZE_PX + 2, left + width + 2, base + 3, true};
    if (labels->count == LABELS_BOXES || !is_free(labels, &box, on_marks))
        return false;
    labels->boxes[labels->count++] = box;
    svg_text(out, class, left, base, SVG_START, text);
    return true;
}

bool labels_write(struct labels *labels, FILE *out, const char *class, bool bold, double x, double y,
                  const char *text) {
    /* Where the text begins or ends, and its base line, from the middle of the mark. */
    static const struct {
        double dx, dy;
        enum svg_anchor anchor;
    } places[] = {
        {AWAY_PX, 4, SVG_START}, {4, -ABOVE_PX, SVG_START}, {-4, -ABOVE_PX, SVG_END},
        {-AWAY_PX, 4, SVG_END},  {4, BELOW_PX, SVG_START},  {-4, BELOW_PX, SVG_END},
    };
    double width = svg_text_width(text, SIZE_PX, bold);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        double left = x + places[i].dx - (places[i].anchor == SVG_END ? width : 0);
        if (write_if_free(labels, out, class, left, y + places[i].dy, width, text, false))
            return true;
    }
    return false;
}

bool labels_write_at(struct labels *labels, FILE *out, const char *class, bool bold, double x, double y,
                     const char *text) {
    return write_if_free(labels, out, class, x, y, svg_text_width(text, SIZE_PX, bold), text, true);
}
