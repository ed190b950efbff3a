/* A small plot: lines over time. Plots that stand side by side are given one scale. */

import {h, say, svg} from "./dom.mjs";

const WIDE = 200, HIGH = 40;

export class Plot {
    /* `title(most)` says what it shows, and the value at its upper edge; `lines` are their classes. */
    constructor(title, lines) {
        this.title = title;
        this.paths = lines.map((line) => svg("path", {class: `plot-line ${line}`, "vector-effect": "non-scaling-stroke"}));
        this.caption = h("figcaption", {class: "soft"}, title(0));
        this.root = h("figure", {class: "plot"}, this.caption,
                      svg("svg", {viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true"}, ...this.paths));
    }

    /* For each line its points: [when, value]. The plot ends at `end`, and its upper edge is `most`. */
    draw(lines, end, most) {
        const x = (when) => (when / Math.max(1, end) * WIDE).toFixed(1);
        const y = (value) => (HIGH - 2 - value / Math.max(1, most) * (HIGH - 4)).toFixed(1);
        lines.forEach((points, i) =>
            this.paths[i].setAttribute("d", points.map(([when, value], k) => `${k === 0 ? "M" : "L"}${x(when)} ${y(value)}`).join("")));
        say(this.caption, this.title(most));
    }
}
