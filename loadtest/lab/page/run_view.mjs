/* What lessons, live locks and recordings show alike: the player, the picture, the state beside it, all events as
 * a list, and the verdict. */

import {makeReport} from "./api.mjs";
import {describeWhole} from "./describe.mjs";
import {h, show, svg, throttled} from "./dom.mjs";
import {Player} from "./player.mjs";
import {StatePanel} from "./state_panel.mjs";
import {drawTimeline} from "./timeline.mjs";
import {clearVerdict, drawVerdict} from "./verdict.mjs";

const LIST_MAX = 1000;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/* On a large screen the picture grows as the text does. */
const scale = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;

/* Saves a file without another address. */
function save(blob, name) {
    const url = URL.createObjectURL(blob), link = h("a", {href: url, download: name});
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export class RunView {
    /* `problem(error)` shows what failed; `onState(state, t)` hears what the player shows. */
    constructor(problem, onState = () => {}) {
        this.problem = problem;
        this.onState = onState;
        this.broken = null; /* recordings */
        this.fixed = null;
        this.player = new Player(() => this.draw());
        this.panel = new StatePanel();
        this.verdict = h("section", {id: "verdict", "aria-live": "polite", "aria-label": "Verdict"});
        this.svg = svg("svg", {id: "timeline", role: "img", "aria-label": "Timeline"});
        this.svgFixed = svg("svg", {id: "timeline-fixed", role: "img", "aria-label": "Timeline of the fix"});
        this.extras = new Map(); /* of a recording: what stands behind its verdict */
        this.head = h("h2", {}, h("button", {type: "button", class: "link", onclick: () => this.select(this.broken)}, "Broken"));
        this.headFixed = h("h2", {}, h("button", {type: "button", class: "link", onclick: () => this.select(this.fixed)}, "Fixed"));
        this.figure = h("div", {class: "pictures", tabindex: 0, role: "region", "aria-label": "Pictures"}, this.head, this.svg, this.headFixed, this.svgFixed);
        this.list = h("ol", {class: "events"});
        this.all = h("details", {ontoggle: () => this.fillList()}, h("summary", {}, "All events, as a list"), this.list);
        this.saveButton = h("button", {id: "save-report", type: "button", onclick: () => this.saveReport()}, "Save report");
        this.root = h("div", {class: "run"}, this.verdict, this.player.root,
                      h("div", {class: "beside"}, this.figure, this.panel.root), this.all, h("p", {}, this.saveButton));
        /* A run that goes on is drawn ten times a second: its servers need the processor. */
        this.draw = throttled(() => this.redraw(), () => (calm.matches ? 250 : this.player.growing ? 100 : 40));
        this.figure.addEventListener("click", (event) => this.onClick(event));
        this.resized = new ResizeObserver(() => this.draw());
        this.resized.observe(this.figure);
        show(this.root, false);
    }

    close() {
        this.player.growing = false;
        this.player.stay();
        this.resized.disconnect();
    }

    get active() {
        return this.player.recording;
    }

    /* A recording becomes the one that the player moves in; `growing`: it is live. */
    load(recording, play, growing) {
        if (play === "fixed")
            this.fixed = recording;
        else
            this.broken = recording;
        show(this.root, true);
        clearVerdict(this.verdict);
        this.player.load(recording, growing);
        this.list.replaceChildren();
        this.all.open = false;
    }

    forget() {
        this.broken = this.fixed = null;
        clearVerdict(this.verdict);
        show(this.root, false);
    }

    grown() {
        this.player.grown();
    }

    /* The active recording is whole. `more`: what stands behind its verdict. */
    ended(...more) {
        this.extras.set(this.active, more);
        this.player.ended();
        this.tell();
    }

    tell() {
        if (this.active.verdict)
            drawVerdict(this.verdict, this.active, (n) => this.seek(n), ...(this.extras.get(this.active) || []));
    }

    /* The player moves in the other recording from now on, and the verdict is its. */
    select(recording) {
        if (recording === this.active || this.player.growing)
            return;
        this.player.load(recording, false);
        this.list.replaceChildren();
        this.all.open = false;
        this.tell();
    }

    seek(n) {
        this.player.seekEvent(n);
        this.figure.scrollIntoView({block: "nearest"});
    }

    onClick(event) {
        const mark = event.target.closest("[data-n]"), picture = event.target.closest("svg");
        const recording = picture === this.svgFixed ? this.fixed : this.broken || this.fixed;
        if (!mark || !recording)
            return;
        this.select(recording);
        if (recording !== this.active)
            return; /* a run goes on */
        this.player.seekEvent(Number(mark.dataset.n));
    }

    /* ---- drawing ---- */

    drawOne(element, head, recording, titled, end) {
        show(head, Boolean(recording) && titled);
        head.firstChild.setAttribute("aria-pressed", String(recording === this.active));
        element.toggleAttribute("hidden", !recording);
        element.style.display = recording ? "" : "none";
        if (!recording)
            return;
        const active = recording === this.active, width = Math.max((this.figure.clientWidth - 2) / scale(), 640);
        drawTimeline(element, recording, {count: active ? this.player.count : recording.events.length, t: active ? this.player.t : recording.end, end, width});
    }

    redraw() {
        if (!this.active || this.root.hidden)
            return;
        const both = this.broken !== null && this.fixed !== null;
        const end = Math.max(this.broken ? this.broken.end : 0, this.fixed ? this.fixed.end : 0, this.player.end);
        this.drawOne(this.svg, this.head, this.broken || this.fixed, both, end);
        this.drawOne(this.svgFixed, this.headFixed, both ? this.fixed : null, both, end);
        const state = this.active.stateAfter(this.player.count);
        this.panel.update(state, this.player.t);
        this.onState(state, this.player.t);
    }

    fillList() {
        if (!this.all.open || !this.active || this.list.children.length > 0)
            return;
        const events = this.active.events;
        this.list.replaceChildren(...events.slice(0, LIST_MAX).map((e) =>
            h("li", {value: e.n}, h("button", {type: "button", class: "link", onclick: () => this.player.seekEvent(e.n)}, describeWhole(e)))));
        if (events.length > LIST_MAX)
            this.list.append(h("li", {value: LIST_MAX + 1}, `… and ${(events.length - LIST_MAX).toLocaleString("en-US")} more; the report has them all`));
    }

    async saveReport() {
        const whole = [this.broken, this.fixed].filter((r) => r && r.verdict);
        try {
            const name = whole.length > 0 ? whole[0].play.scenario : "run";
            save(await makeReport((whole.length > 0 ? whole : [this.active]).map((r) => r.text)), `${name}.html`);
        } catch (error) {
            this.problem(error);
        }
    }
}
