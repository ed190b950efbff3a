/* Labels find room: none lies on another, and none is cut at the edge. Marks take their areas first; the
 * labels are asked for meanwhile, and find their places when all marks are there. */
#ifndef LOADTEST_LAB_DRAW_LABELS_H
#define LOADTEST_LAB_DRAW_LABELS_H

#include <stdbool.h>
#include <stdio.h>

enum { LABELS_BOXES = 8192, LABELS_ASKED = 4096, LABELS_TEXT = 240 };

enum labels_place {
    LABELS_AT,      /* begins at x, on the base line y, on bars and lines too */
    LABELS_BESIDE,  /* beside the mark at (x, y), or above or below it, on no mark */
    LABELS_IN_LINE, /* only right or left of it */
};

struct label {
    const char *class;
    bool bold;
    enum labels_place place;
    int rank; /* the lower finds its place earlier */
    double x, y;
    double away_px;         /* from the middle of its mark: half of the mark's width */
    char text[LABELS_TEXT]; /* or several, a line each: the first that finds a place is written */
};

/* What is taken and asked for. All zero but the edges is an empty one. */
struct labels {
    double left_px, right_px;
    struct labels_box {
        double left, top, right, bottom;
        bool solid; /* a text, or a small mark: nothing lies on it */
    } boxes[LABELS_BOXES];
    int count;
    struct label asked[LABELS_ASKED];
    int asked_count;
};

/* Takes an area for a bar or a line. */
void labels_take(struct labels *labels, double left, double top, double right, double bottom);

/* Takes an area for a small mark, as wide as high. */
void labels_take_mark(struct labels *labels, double x, double y, double radius);

/* Asks for a place. A label that finds none is left out; the title of its mark says the same. */
void labels_ask(struct labels *labels, const struct label *label);

/* Writes the labels that find a place, those that were asked first before the others of their rank. */
void labels_write(struct labels *labels, FILE *out);

#endif
