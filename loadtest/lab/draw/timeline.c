#include "loadtest/lab/draw/timeline.h"

#include <stdlib.h>

#include "loadtest/lab/draw/panel.h"
#include "loadtest/lab/draw/svg.h"

enum { WIDTH_PX = 1200, LANES_LEFT_PX = 160, RIGHT_PX = 1160, HEAD_PX = 16, GAP_PX = 16, LEGEND_PX = 44 };

/* A sample of each mark, and its name. */
static void draw_legend(FILE *out, double top) {
    static const struct {
        const char *class, *text;
    } samples[] = {{"c0 lease", "lease, by the client's clock"},
                   {"c0", "believes that it holds"},
                   {"after", "goes on after the lease"},
                   {"write", "write accepted"},
                   {"refused", "write refused"},
                   {"band", "two believe at once"},
                   {"pause", "paused"}};
    double x = 30;
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        if (i == 3 || i == 4)
            svg_diamond(out, samples[i].class, x + 13, top + 8, 8);
        else
            svg_rect(out, samples[i].class, x, top, 26, 16, 3);
        svg_text(out, "soft", x + 34, top + 12, SVG_START, samples[i].text);
        x += 54 + svg_text_width(samples[i].text, 12, false);
    }
    fputc('\n', out);
}

/* The plays have to be drawn before the height is known, which is at the beginning of the file. */
bool timeline_draw(FILE *out, const struct judged_play plays[], int count) {
    char *text = NULL;
    size_t size = 0;
    struct scale scale;
    double bottom = HEAD_PX;
    FILE *body = open_memstream(&text, &size);
    bool good = body != NULL && scale_fit(&scale, plays, count, LANES_LEFT_PX, RIGHT_PX);
    for (int i = 0; good && i < count; i++)
        bottom = panel_draw(body, &plays[i], &scale, bottom, WIDTH_PX, &good) + GAP_PX;
    if (good)
        draw_legend(body, bottom);
    good = body != NULL && fclose(body) == 0 && good;
    if (good) {
        svg_begin(out, WIDTH_PX, bottom + LEGEND_PX, plays[0].log.play.scenario);
        fwrite(text, 1, size, out);
        svg_end(out);
    }
    free(text);
    return good;
}
