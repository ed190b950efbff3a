/* The page: its parts, its addresses (#/lessons/maotai), its theme. */

import {App} from "./app.mjs";
import {LessonsView, LessonView} from "./lessons.mjs";
import {LockView} from "./lock.mjs";
import {keepTheme, keptTheme} from "./progress.mjs";
import {RecordingsView} from "./recordings.mjs";
import {SaleView} from "./sale.mjs";

const byId = (id) => document.getElementById(id);
const main = byId("view");
const app = new App({status: byId("status"), problem: byId("problem")}, showRunView);

/* ---- addresses ---- */

function makeView([page, name]) {
    switch (page) {
    case "sale": return new SaleView(app);
    case "lock": return new LockView(app);
    case "recordings": return new RecordingsView(app);
    default: return name ? new LessonView(app, name) : new LessonsView(app);
    }
}

function route() {
    const parts = location.hash.replace(/^#\//, "").split("/");
    const page = ["sale", "lock", "recordings"].includes(parts[0]) ? parts[0] : "lessons";
    const view = makeView([page, parts[1]]);
    main.replaceChildren(view.root);
    for (const tab of ["lessons", "sale", "lock", "recordings"])
        byId(`tab-${tab}`).toggleAttribute("aria-current", tab === page);
    byId(`tab-${page}`).setAttribute("aria-current", "page");
    document.title = `${main.querySelector("h1").textContent} – seckill lab`;
    app.show(view);
}

const addressOf = (run) => (run.kind === "scenario" ? `#/lessons/${run.name}` : `#/${run.kind}`);

/* To the view of a run that goes on, unless it is there. */
function showRunView(run) {
    if (run.state === "playing" && app.view && !app.view.wants(run))
        location.hash = addressOf(run);
}

/* ---- theme ---- */

const themes = ["system", "light", "dark"];

function setTheme(theme) {
    const button = byId("theme");
    if (theme === "system")
        delete document.documentElement.dataset.theme;
    else
        document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
    button.dataset.theme = theme;
    keepTheme(theme);
}

byId("theme").addEventListener("click", () => setTheme(themes[(themes.indexOf(byId("theme").dataset.theme) + 1) % themes.length]));
setTheme(keptTheme());

/* The address is the view's: this link must not change it. */
document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
});

/* ---- files dropped anywhere ---- */

document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
    event.preventDefault();
    const {files} = event.dataTransfer;
    if (!files.length)
        return;
    if (!(app.view instanceof RecordingsView)) {
        history.pushState(null, "", "#/recordings");
        route();
    }
    app.view.open(files);
});

/* ---- begin ---- */

addEventListener("hashchange", () => {
    route();
    scrollTo(0, 0);
    main.focus({preventScroll: true});
});

async function begin() {
    await app.refresh();
    if (!app.lab) { /* the page came from a lab that has ended since */
        setTimeout(begin, 1000);
        return;
    }
    const {run} = app.lab;
    if (run && run.state === "playing" && location.hash !== addressOf(run))
        history.replaceState(null, "", addressOf(run));
    route();
}

begin();
