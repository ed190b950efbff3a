#include "loadtest/lab/draw/svg.h"

#include <ctype.h>
#include <string.h>

/* Colours that colour-blind readers tell apart (Okabe and Ito, 2008), each with a pattern or a text beside
 * it. c0 to c7 are the clients. No variables: not all programs that show pictures know them. */
static const char style[] =
    ":root{color-scheme:light dark}"
    "svg{background:#f5f7fa;font-family:Arial,Helvetica,'Liberation Sans',sans-serif}"
    ".panel{fill:#fff;stroke:#dfe3e8}.rule{stroke:#e3e6ea}.gap{fill:#eef0f4}"
    "text{fill:#17191c;font-size:13px}.soft{fill:#5b6067;font-size:12px}.name{font-weight:bold}"
    ".head{font-size:15px;font-weight:bold}.small{font-size:12px;stroke:#fff;stroke-width:3px;"
    "stroke-linejoin:round;paint-order:stroke}.bad{fill:#b3261e;font-weight:bold}"
    ".on-bar{fill:#fff;font-size:12px;font-weight:bold}.on-badge,.caption-text{fill:#fff;font-weight:bold}"
    ".caption-text{font-size:12px}"
    ".badge-broken,.caption{fill:#b3261e}.badge-fixed{fill:#1b6e3c}"
    ".c0{fill:#0072b2;stroke:#0072b2}.c1{fill:#a86400;stroke:#a86400}.c2{fill:#007a5e;stroke:#007a5e}"
    ".c3{fill:#a0457d;stroke:#a0457d}.c4{fill:#b94700;stroke:#b94700}.c5{fill:#5f6672;stroke:#5f6672}"
    ".c6{fill:#6b6b00;stroke:#6b6b00}.c7{fill:#5a4fa0;stroke:#5a4fa0}"
    ".fault{fill:#4a4f57}.wait{stroke-width:2;stroke-dasharray:2 4;fill:none}"
    ".lease{stroke-width:1.5;fill-opacity:.18}.thin{stroke:none}.after{fill:url(#after)}.pause{fill:url(#"
    "pause)}"
    ".beyond{fill:none;stroke-dasharray:4 3}.down{fill:url(#down);stroke:#17191c;stroke-dasharray:2 2}"
    ".possible{mask:url(#fade);stroke-dasharray:4 3;fill-opacity:.3}"
    ".unsure{fill:#17191c;mask:url(#fade);fill-opacity:.5}"
    ".owner{stroke-width:1;fill-opacity:.18}.band{fill:url(#band);stroke:#b3261e;stroke-dasharray:4 3}"
    ".write,.dot{fill:#17191c;stroke:#fff}.refused,.open{fill:#fff;stroke:#b3261e;stroke-width:2}"
    ".fine{stroke-width:1}.open{stroke:#17191c;stroke-dasharray:3 2}.cross{stroke:#b3261e;stroke-width:2}"
    ".drop{stroke:#17191c;stroke-dasharray:1 "
    "4}.faint{stroke-opacity:.35}.arrow{stroke:#5b6067;fill:none;marker-end:url(#head)}"
    ".theft{stroke:#b3261e;stroke-width:2;fill:none;marker-end:url(#bad-head)}"
    ".stock{stroke:#17191c;stroke-width:2.5}.below{stroke:#b3261e;stroke-width:2.5}.tick{stroke:#17191c}"
    ".fold{stroke:#5b6067;fill:none}.pattern{stroke:#5b6067;fill:none}.pattern-bad{stroke:#b3261e}"
    ".tip{fill:#5b6067}.tip-bad{fill:#b3261e}"
    "g[tabindex]:focus,g:target{outline:3px solid #17191c;outline-offset:3px}"
    "@media screen and (prefers-color-scheme:dark){svg{background:#14161a}"
    ".panel{fill:#1e2127;stroke:#343941}.rule{stroke:#343941}.gap{fill:#15171c}"
    "text,.write,.dot,.unsure{fill:#eceff3}.write,.dot{stroke:#1e2127}.soft,.tip{fill:#a9b0b9}.small{stroke:#"
    "1e2127}"
    ".bad,.badge-broken,.caption,.tip-bad{fill:#ff8a80}.badge-fixed{fill:#7fd7a0}.on-badge,.caption-text{"
    "fill:#14161a}"
    ".on-bar{fill:#fff}.fault{fill:#5d646e}.refused,.open{fill:#1e2127}"
    ".refused,.cross,.below,.band,.theft,.pattern-bad{stroke:#ff8a80}"
    ".open,.drop,.stock,.tick,.down{stroke:#eceff3}.arrow,.fold{stroke:#a9b0b9}.pattern{stroke:#c3c9d1}"
    ".c0{stroke:#4ba9e0}.c1{stroke:#e0a040}.c2{stroke:#35b595}.c3{stroke:#d884b8}.c4{stroke:#f08048}"
    ".c5{stroke:#a0a8b4}.c6{stroke:#b8b840}.c7{stroke:#9c92e0}"
    "g[tabindex]:focus,g:target{outline-color:#eceff3}}"
    "@media print{svg,.panel,.gap{background:#fff;fill:#fff}text{fill:#000}.soft{fill:#333}.bad{fill:#8c1d18}"
    ".on-bar,.on-badge,.caption-text{fill:#fff}.rule{stroke:#ddd}g:target{outline:none}}";

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
    fprintf(out, "</title><style>%s</style><defs>%s</defs>\n", style, definitions);
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
