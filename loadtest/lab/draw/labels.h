/* Labels find room: none lies on another, and none is cut at the edge. */
#ifndef LOADTEST_LAB_DRAW_LABELS_H
#define LOADTEST_LAB_DRAW_LABELS_H

#include <stdbool.h>
#include <stdio.h>

enum { LABELS_BOXES = 4096 };

/* What is taken. All zero but the edges is an empty one. */
struct labels {
    double left_px, right_px;
    struct labels_box {
        double left, top, right, bottom;
        bool is_text;
    } boxes[LABELS_BOXES];
    int count;
};

/* Takes an area for a mark or a bar. */
void labels_take(struct labels *labels, double left, double top, double right, double bottom);

/* Writes the label of the mark at (x, y) beside it, or above or below it, where there is room. False: there
 * is none, and it is left out; the mark's title has it too. */
bool labels_write(struct labels *labels, FILE *out, const char *class, bool bold, double x, double y,
                  const char *text);

/* Writes a text that begins at x, on the base line y, on whatever mark is there. False: it would be cut or
 * lie on another text, and is left out. */
bool labels_write_at(struct labels *labels, FILE *out, const char *class, bool bold, double x, double y,
                     const char *text);

#endif
