/* SVG: shapes and texts, as one writes them. Numbers have one decimal, so the same picture has the same
 * bytes. Colours and fonts come from the style sheet at its head, by class. */
#ifndef LOADTEST_LAB_DRAW_SVG_H
#define LOADTEST_LAB_DRAW_SVG_H

#include <stdbool.h>
#include <stdio.h>

void svg_begin(FILE *out, double width, double height, const char *title);
void svg_end(FILE *out);

/* Text for people: <, > and & become entities, and what is not printable, or cut, is
 * dropped. */
void svg_escape(FILE *out, const char *text);

/* A group that can be focused and linked: with an id, a title that is shown at the pointer and read aloud,
 * and more of it. */
void svg_mark_begin(FILE *out, const char *id, const char *title, const char *description);
void svg_mark_end(FILE *out);

void svg_rect(FILE *out, const char *class, double x, double y, double width, double height, double radius);
void svg_line(FILE *out, const char *class, double x1, double y1, double x2, double y2);
/* A diamond around its middle. */
void svg_diamond(FILE *out, const char *class, double x, double y, double radius);
void svg_circle(FILE *out, const char *class, double x, double y, double radius);

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };

void svg_text(FILE *out, const char *class, double x, double y, enum svg_anchor anchor, const char *text);

/* The width of a text in pixels, as Arial and its likes have it; other fonts differ a little. */
double svg_text_width(const char *text, double size_px, bool bold);

/* Cuts a text that is wider, and ends it with "…". `text` has room for two bytes more than it has. */
void svg_text_fit(char *text, double size_px, bool bold, double width_px);

#endif
