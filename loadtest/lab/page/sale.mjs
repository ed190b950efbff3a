/* The sale, live: one crowd for each of two ways to sell, side by side. */

import {stopRun} from "./api.mjs";
import {h, number, say, svg} from "./dom.mjs";
import {Plot} from "./plot.mjs";
import {excess} from "./reducer.mjs";
import {RunView} from "./run_view.mjs";

const FIGURES = [["orders", "orders a second"], ["refused", "refused"], ["p50", "p50"], ["p99", "p99"]];

const latency = (us) => (us >= 10000 ? `${Math.round(us / 1000)} ms` : `${(us / 1000).toFixed(1)} ms`);

/* One side. */
class SalePanel {
    constructor(way) {
        this.way = way;
        this.left = h("p", {class: "big"}, "–");
        this.bar = svg("svg", {class: "drain", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true"},
                       svg("rect", {class: "drain-all", x: 0, y: 0, width: 100, height: 6}), svg("rect", {class: "drain-left", x: 0, y: 0, width: 100, height: 6}));
        this.oversold = h("p", {class: "oversold"}, "");
        this.values = {};
        const figures = FIGURES.map(([key, name]) => h("div", {}, h("dt", {}, name), this.values[key] = h("dd", {}, "–")));
        this.speeds = new Plot((most) => `Orders a second, up to ${number(most)}`, ["plot-orders"]);
        this.latencies = new Plot((most) => `Latency, up to ${latency(most)}: p50 (solid), p99 (dashed)`, ["plot-p50", "plot-p99"]);
        this.root = h("section", {class: "card sale", "data-sale": way.id, "data-sold": 0, "data-initial": 0, "data-oversold": 0, "aria-label": way.name},
                      h("h2", {}, way.name), h("p", {class: "soft"}, way.about), this.left, this.bar, this.oversold, h("dl", {class: "figures"}, ...figures),
                      this.speeds.root, this.latencies.root);
    }

    update(i) {
        const over = excess(i), {sold} = i;
        Object.assign(this.root.dataset, {sold, initial: i.initial, oversold: over});
        say(this.left, `${number(Math.max(0, i.available))} left of ${number(i.initial)}`);
        this.bar.lastChild.setAttribute("width", i.initial > 0 ? Math.max(0, i.available) / i.initial * 100 : 0);
        say(this.oversold, over > 0 ? `✕ ${number(over)} sold that were not there` : `✓ ${number(sold)} sold, none too many`);
        this.oversold.className = over > 0 ? "oversold bad" : "oversold good";
        const c = i.crowd;
        say(this.values.orders, !c ? "–" : over > 0 ? "does not count" : number(c.perSecond));
        say(this.values.refused, c ? number(c.rejected) : "–");
        say(this.values.p50, c ? latency(c.p50Us) : "–");
        say(this.values.p99, c ? latency(c.p99Us) : "–");
    }

    /* Events that tell of this side's crowd: those whose speed counts, and all. */
    plot(counts, crowd, end, fastest, slowest) {
        this.speeds.draw([counts.map((e) => [e.t, e.per_second])], end, fastest);
        this.latencies.draw([crowd.map((e) => [e.t, e.p50_us]), crowd.map((e) => [e.t, e.p99_us])], end, slowest);
    }
}

export class SaleView {
    constructor(app) {
        this.app = app;
        this.panels = [];
        this.view = new RunView((error) => app.problem(error), (state) => this.update(state));
        this.go = h("button", {id: "sale-go", type: "submit", class: "primary"}, "Open the sale");
        this.stop = h("button", {id: "sale-stop", type: "button", disabled: true, onclick: () => this.stopSale()}, "Close it now");
        this.sides = h("div", {class: "pair"});
        this.root = h("div", {}, h("h1", {}, "A sale, live"),
                      h("p", {class: "lead"}, "Two ways to sell the same stock to the same crowd, each with a Redis and a service of its own. Which one sells more than there is?"),
                      this.form(), this.sides, this.view.root);
        this.saved = "";
    }

    form() {
        const {ways, limits} = this.app.lab;
        const options = (chosen, none) => [...(none ? [h("option", {value: ""}, "nothing")] : []),
                                           ...ways.map((way) => h("option", {value: way.id, selected: way.id === chosen}, way.safe ? way.name : `${way.name} (wrong)`))];
        const field = (label, name, value, max) => h("label", {}, label, h("input", {name, type: "number", min: 1, max, value, required: true}));
        this.fields = h("form", {id: "sale-form", class: "card form", onsubmit: (event) => { event.preventDefault(); this.begin(); }},
                        h("label", {}, "This way", h("select", {name: "left"}, ...options("naive"))),
                        h("label", {}, "beside", h("select", {name: "right"}, ...options("lua", true))),
                        field("Units in stock", "stock", 20000, limits.stock), field("Buyers at once", "buyers", 64, limits.buyers),
                        field("Seconds", "seconds", 8, limits.seconds), h("p", {class: "buttons"}, this.go, " ", this.stop));
        return this.fields;
    }

    begin() {
        const {left, right, stock, buyers, seconds} = Object.fromEntries(new FormData(this.fields));
        this.app.begin({kind: "sale", ways: [left, right].filter((way) => way !== ""), stock: Number(stock), buyers: Number(buyers), seconds: Number(seconds)});
    }

    async stopSale() {
        try {
            await stopRun(this.app.run.run);
        } catch (error) {
            this.app.problem(error);
        }
    }

    wants(run) {
        return run.kind === "sale";
    }

    begun(run, recording) {
        this.panels = run.options.ways.map((id) => new SalePanel(this.app.lab.ways.find((way) => way.id === id)));
        this.sides.replaceChildren(...this.panels.map((panel) => panel.root));
        this.view.forget();
        this.view.load(recording, "broken", true);
        this.setBusy(true);
    }

    setBusy(busy) {
        this.busy(busy);
        this.stop.disabled = !busy;
    }

    /* Some run goes on, this one or another. */
    busy(busy) {
        this.go.disabled = busy;
    }

    update(state) {
        const crowds = this.view.active.events.slice(0, this.view.player.count).filter((e) => e.ev === "sale.crowd");
        const sides = this.panels.map((panel) => {
            const i = state.items[panel.way.id] || {initial: 0, available: 0, sold: 0, crowd: null}; /* before its first event */
            panel.update(i);
            const crowd = crowds.filter((e) => e.item === panel.way.id);
            return {panel, crowd, counts: excess(i) > 0 ? [] : crowd}; /* what oversells has no speed */
        });
        const fastest = Math.max(0, ...sides.flatMap(({counts}) => counts.map((e) => e.per_second)));
        const slowest = Math.max(0, ...crowds.map((e) => e.p99_us)), end = Math.max(0, ...crowds.map((e) => e.t));
        for (const {panel, crowd, counts} of sides)
            panel.plot(counts, crowd, end, fastest, slowest);
    }

    grown() {
        this.view.grown();
    }

    ended() {
        this.setBusy(false);
        this.view.ended();
    }

    close() {
        this.view.close();
    }
}
