#include "loadtest/lab/draw/svg.h"

#include <ctype.h>
#include <string.h>

/* Colours that colour-blind readers tell apart (Okabe and Ito, 2008), each with a pattern or a letter beside
 * it. c0 to c7 are the clients. */
static const char style[] =
    ":root{color-scheme:light dark}"
    "svg{background:var(--page);font-family:Arial,Helvetica,'Liberation Sans',sans-serif;"
    "--page:#f5f7fa;--panel:#fff;--ink:#17191c;--soft:#5b6067;--rule:#e3e6ea;--bad:#b3261e;--good:#1b6e3c}"
    "@media(prefers-color-scheme:dark){svg{--page:#14161a;--panel:#1e2127;--ink:#eceff3;--soft:#a9b0b9;"
    "--rule:#343941;--bad:#ff8a80;--good:#7fd7a0}}"
    "@media "
    "print{svg{--page:#fff;--panel:#fff;--ink:#000;--soft:#333;--rule:#bbb;--bad:#8c1d18;--good:#0d4d27}}"
    ".panel{fill:var(--panel);stroke:var(--rule)}.rule{stroke:var(--rule)}"
    "text{fill:var(--ink);font-size:13px}.soft{fill:var(--soft);font-size:12px}.name{font-weight:bold}"
    ".title{font-size:22px;font-weight:bold}.head{font-size:15px;font-weight:bold}"
    ".badge-broken{fill:var(--bad)}.badge-fixed{fill:var(--good)}.on-badge{fill:var(--panel);font-weight:"
    "bold}"
    ".small{font-size:12px}.bad{fill:var(--bad);font-weight:bold}.on-bar{fill:#fff;font-size:12px;font-"
    "weight:bold}"
    ".fault{fill:#4a4f57}.wait{stroke-width:2;stroke-dasharray:2 4;fill:none}"
    ".lease{stroke-width:1.5;fill-opacity:.18}.after{fill:url(#after)}.pause{fill:url(#pause)}"
    ".owner{stroke-width:1;fill-opacity:.18}.band{fill:url(#band);stroke:var(--bad);stroke-dasharray:4 3}"
    ".caption{fill:var(--bad)}.write{fill:var(--ink)}.refused{fill:var(--panel);stroke:var(--bad);stroke-"
    "width:2}"
    ".cross{stroke:var(--bad);stroke-width:2}.drop{stroke:var(--ink);stroke-dasharray:2 3}"
    ".arrow{stroke:var(--soft);fill:none;marker-end:url(#head)}.stock{stroke:var(--ink);stroke-width:2.5}"
    ".below{stroke:var(--bad);stroke-width:2.5}.tick{stroke:var(--ink)}.fold{stroke:var(--soft);fill:var(--"
    "panel)}"
    ".c0{fill:#0072b2;stroke:#0072b2}.c1{fill:#c77700;stroke:#c77700}.c2{fill:#007a5e;stroke:#007a5e}"
    ".c3{fill:#a0457d;stroke:#a0457d}.c4{fill:#b94700;stroke:#b94700}.c5{fill:#1f7fb8;stroke:#1f7fb8}"
    ".c6{fill:#6b6b00;stroke:#6b6b00}.c7{fill:#5a4fa0;stroke:#5a4fa0}"
    "g[tabindex]:focus{outline:2px solid var(--ink);outline-offset:2px}";

static const char patterns[] =
    "<pattern id=\"after\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
    "<path d=\"M0 6L6 0\" stroke=\"#5b6067\" stroke-width=\"1.4\"/></pattern>"
    "<pattern id=\"pause\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
    "<path d=\"M0 0L6 6M0 6L6 0\" stroke=\"#5b6067\"/></pattern>"
    "<pattern id=\"band\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">"
    "<path d=\"M0 8L8 0\" stroke=\"#b3261e\" stroke-opacity=\".3\"/></pattern>"
    "<marker id=\"head\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\">"
    "<path d=\"M0 1L7 4L0 7z\" fill=\"#5b6067\"/></marker>";

void svg_escape(FILE *out, const char *text) {
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default:
            if ((unsigned char)*text >= ' ' && *text != 127)
                fputc(*text, out);
        }
    }
}

void svg_begin(FILE *out, double width, double height, const char *title) {
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
        "role=\"graphics-document\"><title>",
        width, height, width, height);
    svg_escape(out, title);
    fprintf(out, "</title><style>%s</style><defs>%s</defs>\n", style, patterns);
}

void svg_end(FILE *out) {
    fputs("</svg>\n", out);
}

void svg_mark_begin(FILE *out, const char *id, const char *title, const char *description) {
    fprintf(out, "<g id=\"%s\" tabindex=\"0\"><title>", id);
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
        if (strchr("ijl.,:;|!'()[]It f-r/", c) != NULL)
            width += 0.33;
        else if (strchr("mwMW%@", c) != NULL)
            width += 0.86;
        else
            width += isupper((unsigned char)c) ? 0.69 : 0.56;
    }
    return width * size_px * (bold ? 1.06 : 1);
}
