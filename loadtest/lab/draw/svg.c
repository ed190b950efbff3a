#include "loadtest/lab/draw/svg.h"

#include <ctype.h>
#include <string.h>

#include "colours.css.h"

static const char definitions[] =
    "<pattern id=\"after\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
    "<path class=\"pattern\" d=\"M0 6L6 0\" stroke-width=\"1.4\"/></pattern>"
    "<pattern id=\"pause\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
    "<path class=\"pattern\" d=\"M0 0L6 6M0 6L6 0\"/></pattern>"
    "<pattern id=\"down\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">"
    "<path class=\"pattern\" d=\"M0 0L5 5\" stroke-opacity=\".7\"/></pattern>"
    "<pattern id=\"band\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">"
    "<path class=\"pattern-bad\" d=\"M0 8L8 0\" stroke-opacity=\".4\"/></pattern>"
    "<linearGradient id=\"ramp\"><stop offset=\".2\" stop-color=\"#fff\"/>"
    "<stop offset=\"1\" stop-color=\"#000\"/></linearGradient>"
    "<mask id=\"fade\" maskContentUnits=\"objectBoundingBox\">"
    "<path d=\"M0 0H1V1H0z\" fill=\"url(#ramp)\"/></mask>"
    "<marker id=\"head\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\">"
    "<path class=\"tip\" d=\"M0 1L7 4L0 7z\"/></marker>"
    "<marker id=\"bad-head\" markerWidth=\"6\" markerHeight=\"6\" refX=\"5\" refY=\"3\" orient=\"auto\">"
    "<path class=\"tip-bad\" d=\"M0 0L6 3L0 6z\"/></marker>";

/* The bytes of the character that begins here; 0: it is cut, or no document may have it. */
static int character_bytes(const char *text) {
    unsigned char c = (unsigned char)*text;
    int bytes = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 0;
    if (c < ' ' || c == 127 || strncmp(text, "\xef\xbf\xbe", 3) == 0 || strncmp(text, "\xef\xbf\xbf", 3) == 0)
        return 0;
    for (int i = 1; i < bytes; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return 0;
    }
    return bytes;
}

void svg_escape(FILE *out, const char *text) {
    while (*text != '\0') {
        int bytes = character_bytes(text);
        switch (*text) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fwrite(text, 1, (size_t)bytes, out); break;
        }
        text += bytes > 0 ? bytes : 1;
    }
}

void svg_begin(FILE *out, double width, double height, const char *title) {
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
        "role=\"graphics-document\"><title>",
        width, height, width, height);
    svg_escape(out, title);
    fprintf(out, "</title><style>%s</style><defs>%s</defs>\n", colours_css, definitions);
}

void svg_end(FILE *out) {
    fputs("</svg>\n", out);
}

void svg_mark_begin(FILE *out, const char *id, const char *title, const char *description) {
    fprintf(out, "<g id=\"%s\" tabindex=\"0\" role=\"img\"><title>", id);
    svg_escape(out, title);
    fputs("</title><desc>", out);
    svg_escape(out, description);
    fputs("</desc>", out);
}

void svg_mark_end(FILE *out) {
    fputs("</g>\n", out);
}

void svg_rect(FILE *out, const char *class, double x, double y, double width, double height, double radius) {
    fprintf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%.1f\"/>",
            class, x, y, width, height, radius);
}

void svg_line(FILE *out, const char *class, double x1, double y1, double x2, double y2) {
    fprintf(out, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>", class, x1, y1, x2, y2);
}

void svg_diamond(FILE *out, const char *class, double x, double y, double radius) {
    fprintf(out, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fz\"/>", class, x, y - radius,
            x + radius, y, x, y + radius, x - radius, y);
}

void svg_circle(FILE *out, const char *class, double x, double y, double radius) {
    fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>", class, x, y, radius);
}

void svg_text(FILE *out, const char *class, double x, double y, enum svg_anchor anchor, const char *text) {
    static const char *const anchors[] = {"start", "middle", "end"};
    fprintf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", class, x, y,
            anchors[anchor]);
    svg_escape(out, text);
    fputs("</text>", out);
}

double svg_text_width(const char *text, double size_px, bool bold) {
    double width = 0;
    for (; *text != '\0'; text++) {
        char c = *text;
        if (((unsigned char)c & 0xc0) == 0x80) /* the rest of a character */
            continue;
        if (strchr("ijl.,:;|!'()[]It f-r/", c))
            width += 0.33;
        else if (strchr("mwMW%@", c))
            width += 0.86;
        else
            width += isupper((unsigned char)c) ? 0.69 : 0.56;
    }
    return width * size_px * (bold ? 1.06 : 1);
}

void svg_text_fit(char *text, double size_px, bool bold, double width_px) {
    size_t length = strlen(text);
    if (svg_text_width(text, size_px, bold) <= width_px)
        return;
    while (length > 0 && svg_text_width(text, size_px, bold) > width_px - size_px) {
        do
            length--;
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80);
        text[length] = '\0';
    }
    while (length > 0 && text[length - 1] == ' ')
        length--;
    if (length > 0)
        memcpy(text + length, "\xe2\x80\xa6", sizeof "\xe2\x80\xa6");
}
