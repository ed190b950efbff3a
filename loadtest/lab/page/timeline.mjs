/* The picture: lanes from top to bottom (faults, clients, lock servers, stock), time from left to right in true
 * scale. It is drawn from the events up to the cursor, so that it grows as they happen. */

import {describeWhole} from "./describe.mjs";
import {svg} from "./dom.mjs";
import {lanesOf} from "./lanes.mjs";
import {holdsOf, overlapsOf, lastingOf} from "./spans.mjs";

const NAMES = 132, RIGHT = 16, TOP = 30, LANE = 36, AXIS = 26, BAR = 16, LEFT_OUT = 16, CHARACTER = 6.4;
/* More marks are no picture: then only the last stretch of time is drawn. */
const EVENTS_MAX = 1500;

let patterns = 0;

function definitions(id) {
    const pattern = (name, size, d) => svg("pattern", {id: `${name}-${id}`, width: size, height: size, patternUnits: "userSpaceOnUse"},
                                           svg("path", {class: `pattern ${name}`, d}));
    return svg("defs", {}, pattern("after", 6, "M0 6L6 0"), pattern("pause", 6, "M0 0L6 6M0 6L6 0"), pattern("band", 8, "M0 8L8 0"));
}

/* ---- what is drawn ---- */

class Drawing {
    constructor(element, recording, view) {
        this.element = element;
        this.recording = recording;
        this.id = element.dataset.patterns ||= ++patterns;
        this.events = recording.events.slice(0, view.count);
        this.t = view.t;
        this.width = view.width;
        this.end = Math.max(view.end, 1);
        this.from = 0;
        if (this.events.length > EVENTS_MAX)
            this.from = this.recording.times[this.events.length - EVENTS_MAX];
        this.shown = this.events.filter((e) => e.t >= this.from);
        this.lanes = lanesOf(recording);
        this.top = TOP + (this.from > 0 ? LEFT_OUT : 0);
        this.height = this.top + this.lanes.all.length * LANE + AXIS;
        this.parts = [definitions(this.id)];
    }

    x(t) {
        const last = this.from > 0 ? Math.max(this.t, this.from + 1) : this.end;
        return NAMES + (Math.min(Math.max(t, this.from), last) - this.from) / (last - this.from) * (this.width - NAMES - RIGHT);
    }

    y(lane) {
        return this.top + lane.index * LANE + LANE / 2;
    }

    add(...parts) {
        this.parts.push(...parts);
    }

    /* A mark: clicked, it moves the player to its event. */
    mark(e, ...parts) {
        this.add(svg("g", {"data-n": e.n}, svg("title", {}, describeWhole(e)), ...parts));
    }

    bar(name, from, to, lane, height, fill) {
        const x = this.x(from);
        return svg("rect", {class: name, x, y: this.y(lane) - height / 2, width: Math.max(1.5, this.x(to) - x), height, rx: 2, fill});
    }

    /* A text that fits between two times. */
    label(name, from, to, lane, text) {
        const x = this.x(from) + 4, room = this.x(to) - x;
        if (text.length * CHARACTER > room)
            return null;
        return svg("text", {class: name, x, y: this.y(lane) + 4}, text);
    }
}

function drawGround(d) {
    for (const lane of d.lanes.all) {
        d.add(svg("line", {class: "rule", x1: NAMES, x2: d.width - RIGHT, y1: d.y(lane) + LANE / 2, y2: d.y(lane) + LANE / 2}));
        d.add(svg("text", {class: "lane-name", x: 6, y: d.y(lane) + (lane.about ? -1 : 4)}, lane.name));
        if (lane.about)
            d.add(svg("text", {class: "soft", x: 6, y: d.y(lane) + 12}, lane.about));
    }
}

function drawAxis(d) {
    const last = d.from > 0 ? d.t : d.end, span = (last - d.from) / 1e6;
    const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 60000];
    const parts = Math.max(2, (d.width - NAMES) / 90);
    const step = steps.find((s) => span / s <= parts) || 60000;
    for (let at = Math.ceil(d.from / 1e6 / step) * step; at <= last / 1e6; at += step)
        d.add(svg("text", {class: "soft", x: d.x(at * 1e6), y: d.height - 8, "text-anchor": at === 0 ? "start" : "middle"}, `${at.toLocaleString("en-US")} ms`));
    if (d.from > 0)
        d.add(svg("text", {class: "soft", x: NAMES, y: 12},
                  `The last ${d.shown.length} events; ${(d.events.length - d.shown.length).toLocaleString("en-US")} earlier ones are left out`));
}

function drawHolds(d, holds) {
    for (const hold of holds) {
        const lane = d.lanes.client(hold.who);
        if (!lane || hold.until < d.from)
            continue;
        const until = Math.min(hold.until, Math.max(d.end, d.t)), to = Math.min(hold.to, d.t);
        const colour = `c${lane.colour}`;
        d.mark(hold.begun, d.bar(`lease ${colour}`, hold.from, until, lane, BAR + 6), d.bar(`belief ${colour}`, hold.from, to, lane, BAR),
               d.label("on-bar", hold.from, to, lane, "holds"));
        if (hold.after > hold.until)
            d.add(d.bar("after", hold.until, Math.min(hold.after, d.t), lane, BAR, `url(#after-${d.id})`));
    }
}

function drawOverlaps(d, overlaps) {
    if (overlaps.length === 0)
        return;
    for (const o of overlaps.slice(0, 40)) {
        const x = d.x(o.from), to = Math.min(o.to, d.t);
        d.add(svg("rect", {class: "band", x, y: d.top, width: Math.max(2, d.x(to) - x), height: d.lanes.all.length * LANE, fill: `url(#band-${d.id})`}));
    }
    const first = overlaps[0], ms = Math.round((Math.min(first.to, d.t) - first.from) / 1e6);
    const text = `${first.one} and ${first.other} both believe that they hold it: ${ms.toLocaleString("en-US")} ms`;
    const wide = text.length * 6.1 + 12, x = Math.min(Math.max(d.x(first.from), NAMES), d.width - RIGHT - wide);
    d.add(svg("g", {"data-n": first.n}, svg("rect", {class: "caption", x, y: d.top - 20, width: wide, height: 18, rx: 4}),
              svg("text", {class: "caption-text", x: x + 6, y: d.top - 7}, text)));
}

function drawLasting(d, lasting) {
    for (const span of lasting) {
        const lane = d.lanes.find(span.lane, span.name);
        if (!lane || span.to < d.from)
            continue;
        const to = Math.min(span.to, d.t);
        if (span.kind === "wait")
            d.mark(span.event, svg("line", {class: `wait c${lane.colour}`, x1: d.x(span.from), x2: d.x(to), y1: d.y(lane), y2: d.y(lane)}));
        else if (span.kind === "pause")
            d.mark(span.event, d.bar("pause", span.from, to, lane, LANE - 8, `url(#pause-${d.id})`));
        else
            d.mark(span.event, d.bar(span.kind, span.from, to, lane, BAR), d.label(`on-${span.kind}`, span.from, to, lane, span.text));
    }
}

function diamond(name, x, y, size) {
    return svg("path", {class: name, d: `M${x} ${y - size}L${x + size} ${y}L${x} ${y + size}L${x - size} ${y}z`});
}

function drawWrite(d, e, lane) {
    const x = d.x(e.t), y = d.y(lane), stock = d.lanes.find("stock", e.item);
    const parts = [];
    if (stock && e.ev === "write.accepted")
        parts.push(svg("line", {class: "drop", x1: x, x2: x, y1: y, y2: d.y(stock)}));
    parts.push(diamond({"write.accepted": "write", "write.refused": "refused"}[e.ev] || "unknown", x, y, 6));
    if (e.ev === "write.refused")
        parts.push(svg("path", {class: "cross", d: `M${x - 4} ${y - 4}L${x + 4} ${y + 4}M${x - 4} ${y + 4}L${x + 4} ${y - 4}`}));
    d.mark(e, ...parts);
}

function drawMoments(d) {
    for (const e of d.shown) {
        const lane = d.lanes.of(e);
        if (!lane)
            continue;
        const x = d.x(e.t), y = d.y(lane);
        if (e.ev === "write.accepted" || e.ev === "write.refused" || e.ev === "write.unknown")
            drawWrite(d, e, lane);
        else if (e.ev === "note")
            d.mark(e, svg("circle", {class: "dot", cx: x, cy: y - BAR / 2 - 4, r: 2.5}));
        else if (e.ev === "server.role" || e.ev === "server.clock")
            d.mark(e, svg("line", {class: "news", x1: x, x2: x, y1: y - LANE / 2 + 3, y2: y + LANE / 2 - 3}),
                   svg("text", {class: "soft", x: x + 4, y: y - 8}, e.ev === "server.role" ? `now ${e.role}` : "clock jumps"));
        else if (e.ev === "fault.start" && e.what.startsWith("killed"))
            d.mark(e, svg("path", {class: "cross", d: `M${x - 6} ${y - 6}L${x + 6} ${y + 6}M${x - 6} ${y + 6}L${x + 6} ${y - 6}`}));
    }
}

/* Steps of what is left; below zero, or more sold than there was, in red, and in words. */
function drawStock(d) {
    for (const lane of d.lanes.all.filter((one) => one.kind === "stock")) {
        const all = d.events.filter((e) => e.ev === "sale.stock" && e.item === lane.name);
        const most = Math.max(1, ...all.map((e) => e.available));
        const level = (e) => d.y(lane) + 10 - Math.max(-0.3, e.available / most) * 18;
        let path = "";
        for (const e of all)
            path += path === "" ? `M${d.x(e.t)} ${level(e)}` : `H${d.x(e.t)}V${level(e)}`;
        if (path === "")
            continue;
        const last = all[all.length - 1], over = Math.max(0, last.sold + Math.max(0, last.available) - last.initial);
        d.add(svg("path", {class: over > 0 ? "stock over" : "stock", d: `${path}H${d.x(d.t)}`}));
        const words = over > 0 ? `${last.sold} sold of ${last.initial}: ${over} too many` : `${last.available} left`;
        d.add(svg("text", {class: over > 0 ? "bad" : "soft", x: Math.min(d.x(last.t) + 6, d.width - RIGHT - words.length * CHARACTER), y: d.y(lane) + (level(last) < d.y(lane) ? 12 : -6)}, words));
    }
}

/* ---- the picture ---- */

/* `view`: count events have happened, it is `t`, the axis ends at `end`, and the picture is `width` wide. */
export function drawTimeline(element, recording, view) {
    const d = new Drawing(element, recording, view);
    const holds = holdsOf(d.events, d.t);
    const overlaps = overlapsOf(holds, d.t).filter((o) => o.to >= d.from);
    drawGround(d);
    drawAxis(d);
    drawOverlaps(d, overlaps);
    drawLasting(d, lastingOf(d.events, d.t));
    drawHolds(d, holds);
    drawStock(d);
    drawMoments(d);
    d.add(svg("line", {class: "cursor", x1: d.x(d.t), x2: d.x(d.t), y1: d.top - 4, y2: d.height - AXIS + 4}));
    const play = recording.play ? `${recording.play.scenario}, ${recording.play.play}` : "nothing yet";
    element.setAttribute("viewBox", `0 0 ${d.width} ${d.height}`);
    element.setAttribute("aria-label", `Timeline of ${play}: ${d.events.length} events, ${overlaps.length === 0 ? "no time with two holders" : "two holders at once"}`);
    element.replaceChildren(...d.parts);
}
