#include "loadtest/lab/serve/pages.h"

#include <string.h>

#include "api.mjs.h"
#include "app.mjs.h"
#include "describe.mjs.h"
#include "dom.mjs.h"
#include "icon.svg.h"
#include "index.html.h"
#include "lanes.mjs.h"
#include "lessons.mjs.h"
#include "lock.mjs.h"
#include "main.mjs.h"
#include "player.mjs.h"
#include "plot.mjs.h"
#include "progress.mjs.h"
#include "recordings.mjs.h"
#include "reducer.mjs.h"
#include "run_view.mjs.h"
#include "sale.mjs.h"
#include "source.mjs.h"
#include "spans.mjs.h"
#include "state_panel.mjs.h"
#include "style.css.h"
#include "timeline.mjs.h"
#include "verdict.mjs.h"

#define MODULE(name)                                                                                         \
    { "/" #name ".mjs", "text/javascript; charset=utf-8", name##_mjs, sizeof name##_mjs - 1 }

static const struct page pages[] = {
    {"/", "text/html; charset=utf-8", index_html, sizeof index_html - 1},
    {"/style.css", "text/css; charset=utf-8", style_css, sizeof style_css - 1},
    {"/icon.svg", "image/svg+xml", icon_svg, sizeof icon_svg - 1},
    MODULE(api),
    MODULE(app),
    MODULE(describe),
    MODULE(dom),
    MODULE(lanes),
    MODULE(lessons),
    MODULE(lock),
    MODULE(main),
    MODULE(player),
    MODULE(plot),
    MODULE(progress),
    MODULE(recordings),
    MODULE(reducer),
    MODULE(run_view),
    MODULE(sale),
    MODULE(source),
    MODULE(spans),
    MODULE(state_panel),
    MODULE(timeline),
    MODULE(verdict),
};

const struct page *pages_find(const char *path) {
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        if (strcmp(pages[i].path, path) == 0)
            return &pages[i];
    }
    return NULL;
}
