/* The lock, live: three clients take turns, and the user breaks things. */

import {breakRun, stopRun} from "./api.mjs";
import {h, say} from "./dom.mjs";
import {RunView} from "./run_view.mjs";

const words = {pause: "❚❚ Pause", resume: "▶ Resume", kill: "✕ Kill", revive: "↻ Start again", cut: "✂ Cut off", heal: "⇄ Connect again", "kill-master": "✕ Kill the master",
               jump: "» Clock + 60 s"};
/* What makes sense now. */
const possible = {
    pause: (c) => c && !c.paused && !c.dead, resume: (c) => c && c.paused && !c.dead, kill: (c) => c && !c.dead, revive: (c) => c && c.dead,
    cut: (s) => !s || !s.cut, heal: (s) => s && s.cut, "kill-master": (s) => !s || !s.down, jump: () => true,
};

export class LockView {
    constructor(app) {
        this.app = app;
        this.going = false;
        this.buttons = [];
        this.view = new RunView((error) => app.problem(error), (state) => this.update(state));
        this.go = h("button", {id: "lock-go", type: "submit", class: "primary"}, "Start");
        this.stop = h("button", {id: "lock-stop", type: "button", disabled: true, onclick: () => this.try(() => stopRun(app.run.run))}, "End and judge");
        this.about = h("p", {class: "soft"}, "");
        this.faults = h("section", {class: "card faults", "aria-label": "Break something", hidden: true});
        this.root = h("div", {}, h("h1", {}, "The lock, live"),
                      h("p", {class: "lead"}, "Three clients take turns: each takes the lock, reads the stock, works for a second, sells a lamp, releases. A lease lasts two seconds. " +
                        "Break something, and watch who believes what."), this.form(), this.faults, this.view.root);
        this.choose();
    }

    form() {
        this.fencing = h("input", {name: "fencing", type: "checkbox"});
        this.locks = h("select", {name: "lock", onchange: () => this.choose()}, ...this.app.lab.locks.map((lock) => h("option", {value: lock.id}, lock.name)));
        return h("form", {id: "lock-form", class: "card form", onsubmit: (event) => { event.preventDefault(); this.begin(); }},
                 h("label", {}, "Lock", this.locks), h("label", {class: "check"}, this.fencing, " The stock checks the fencing token"), this.about,
                 h("p", {class: "buttons"}, this.go, " ", this.stop));
    }

    get lock() {
        return this.app.lab.locks.find((lock) => lock.id === this.locks.value);
    }

    choose() {
        say(this.about, this.lock.about);
        this.fencing.disabled = !this.lock.fence;
        this.fencing.checked = this.fencing.checked && this.lock.fence;
    }

    begin() {
        this.app.begin({kind: "lock", lock: this.lock.id, fencing: this.fencing.checked});
    }

    async try(what) {
        try {
            await what();
        } catch (error) {
            this.app.problem(error);
        }
    }

    wants(run) {
        return run.kind === "lock";
    }

    begun(run, recording) {
        this.locks.value = run.options.lock;
        this.fencing.checked = run.options.fencing;
        this.choose();
        this.showFaults();
        this.view.forget();
        this.view.load(recording, "broken", true);
        this.setGoing(true);
    }

    showFaults() {
        const targets = [...new Set(this.lock.faults.map((fault) => fault.target))];
        this.buttons = [];
        const rows = targets.map((target) => h("div", {class: "fault-row"}, h("b", {}, target),
            ...this.lock.faults.filter((fault) => fault.target === target).map(({fault}) => {
                const button = h("button", {type: "button", "data-fault": fault, "data-target": target, "aria-label": `${words[fault].replace(/^\S+ /, "")}: ${target}`,
                                            onclick: () => this.break(button)}, words[fault]);
                this.buttons.push(button);
                return button;
            })));
        this.faults.replaceChildren(h("h2", {}, "Break something"), h("div", {class: "fault-rows"}, ...rows));
        this.faults.hidden = false;
    }

    async break(button) {
        button.setAttribute("aria-busy", "true");
        await this.try(() => breakRun(this.app.run.run, button.dataset.fault, button.dataset.target));
        button.removeAttribute("aria-busy");
    }

    setGoing(going) {
        this.going = going;
        this.busy(going);
        this.stop.disabled = !going;
        if (!going)
            for (const button of this.buttons)
                button.disabled = true;
    }

    /* Some run goes on, this one or another. */
    busy(busy) {
        this.go.disabled = busy;
    }

    /* The buttons follow the newest state, wherever the player is. */
    update(state) {
        if (!this.going)
            return;
        const {recording} = this.view.player, newest = this.view.player.follows ? state : recording.stateAfter(recording.events.length);
        for (const button of this.buttons) {
            const of = newest.clients[button.dataset.target] || newest.servers[button.dataset.target];
            button.disabled = !possible[button.dataset.fault](of);
        }
    }

    grown() {
        this.view.grown();
    }

    ended() {
        this.setGoing(false);
        this.view.ended();
    }

    close() {
        this.view.close();
    }
}
