/* The lessons: a ladder from no lock at all to one script, and behind each rung a lesson. It asks first what will
 * happen, plays the real thing, says the verdict with its evidence, shows the lines at fault, and plays the fix. */

import {h, say, show} from "./dom.mjs";
import {noteProgress, progressOf} from "./progress.mjs";
import {RunView} from "./run_view.mjs";
import {drawSteps} from "./verdict.mjs";

const marks = {open: ["○", "not seen yet"], broken: ["◐", "fault seen"], done: ["●", "fault and fix seen"]};
const READY = "Real servers, a few seconds.";
const readable = (name) => name.replaceAll("-", " ");

function ladder(scenarios, current) {
    const rungs = scenarios.map((s) => {
        const progress = progressOf(s.name), [sign, words] = marks[progress];
        return h("li", {}, h("a", {href: `#/lessons/${s.name}`, "data-scenario": s.name, "data-progress": progress,
                                   "aria-current": s.name === current ? "page" : null},
                             h("span", {"aria-hidden": "true"}, `${sign} `), readable(s.name), h("span", {class: "unseen"}, `, ${words}`)));
    });
    return h("nav", {id: "ladder", "aria-label": "Lessons"}, h("h2", {}, "The ladder"), h("ol", {class: "plain"}, ...rungs));
}

const paragraphs = (text) => text.split("\n\n").map((part) => h("p", {}, part));

function code(title, text, lines, says) {
    const rows = text.split("\n").flatMap((line, i) => {
        const marked = lines.includes(i + 1);
        return marked ? [h("mark", {}, line || " "), h("b", {class: "here"}, `  ← ${says}`), "\n"] : [`${line}\n`];
    });
    return h("div", {}, h("h3", {}, title), h("pre", {tabindex: 0, "aria-label": `Code, ${title}`}, h("code", {}, ...rows)));
}

/* ---- all lessons ---- */

export class LessonsView {
    constructor(app) {
        const cards = app.lab.scenarios.map((s) => {
            const [sign, words] = marks[progressOf(s.name)];
            return h("li", {class: "card"}, h("h2", {}, h("a", {href: `#/lessons/${s.name}`, "data-card": s.name}, readable(s.name))),
                     h("p", {}, progressOf(s.name) === "open" ? s.question : s.title), h("p", {class: "soft"}, `${sign} ${words}`));
        });
        this.root = h("div", {}, h("h1", {}, "How a sale goes wrong"),
                      h("p", {class: "lead"}, "Each lesson breaks a sale with real servers, shows what happened, and plays the fix. Start at the first, " +
                        "or at the one that you have met at night."),
                      h("ol", {class: "cards plain"}, ...cards));
    }

    wants() {
        return false;
    }

    close() {}
}

/* ---- one lesson ---- */

export class LessonView {
    constructor(app, name) {
        this.app = app;
        this.scenario = app.lab.scenarios.find((s) => s.name === name) || app.lab.scenarios[0];
        this.play = "broken";
        this.view = new RunView((error) => app.problem(error));
        this.root = h("div", {class: "with-ladder"}, ladder(app.lab.scenarios, this.scenario.name), this.build());
        this.restore();
    }

    build() {
        const s = this.scenario;
        this.runBroken = h("button", {id: "run-broken", type: "submit", class: "primary", disabled: true}, "Run it");
        this.hint = h("span", {id: "guess-hint", class: "soft"}, "Choose an answer first. Then real servers show it.");
        this.runFixed = h("button", {id: "run-fixed", type: "button", class: "primary fix", onclick: () => this.begin("fixed")}, "Run the fix");
        this.next = h("a", {id: "next-lesson", class: "button", href: `#/lessons/${this.nextName()}`}, "Next lesson");
        const answers = s.answers.map((answer, i) =>
            h("label", {}, h("input", {type: "radio", name: "answer", value: i, onchange: () => this.guessed()}), " ", answer));
        this.guess = h("form", {id: "guess", class: "card", onsubmit: (event) => { event.preventDefault(); this.begin("broken"); }},
                       h("fieldset", {}, h("legend", {}, "What will happen?"), h("p", {}, s.question), ...answers),
                       h("p", {}, this.runBroken, " ", this.hint));
        this.code = h("section", {id: "code", class: "card", hidden: true}, h("h2", {}, "The lines at fault"),
                      h("div", {class: "pair"}, code("Broken", s.broken_code, s.broken_lines, "here it goes wrong"),
                        code("Fixed", s.fixed_code, s.fixed_lines, "this mends it")));
        this.story = h("details", {class: "card", hidden: true}, h("summary", {}, "The story"), ...paragraphs(s.story));
        this.lesson = h("p", {class: "lead", hidden: true}, s.title); /* it is the answer */
        return h("div", {}, h("h1", {class: "name"}, readable(s.name)), this.lesson, this.guess, this.view.root, this.code, this.story);
    }

    nextName() {
        const all = this.app.lab.scenarios, at = all.indexOf(this.scenario);
        return all[(at + 1) % all.length].name;
    }

    /* What was played before, since the page was loaded. */
    restore() {
        const kept = this.app.kept(this.scenario.name);
        for (const play of ["broken", "fixed"])
            if (kept[play])
                this.view.load(kept[play], play, false);
        if (kept.broken || kept.fixed) {
            this.play = kept.fixed ? "fixed" : "broken";
            this.told();
        }
    }

    guessed() {
        this.runBroken.disabled = this.app.playing;
        say(this.hint, READY);
    }

    begin(play) {
        this.app.begin({kind: "scenario", name: this.scenario.name, play});
    }

    wants(run) {
        return run.kind === "scenario" && run.name === this.scenario.name;
    }

    begun(run, recording) {
        this.play = run.play;
        if (run.play === "broken")
            this.view.forget();
        this.view.load(recording, run.play, true);
        this.setBusy(true);
        this.view.root.scrollIntoView({block: "nearest"});
    }

    grown() {
        this.view.grown();
    }

    ended(recording) {
        this.setBusy(false);
        if (!recording.verdict)
            return;
        this.app.keep(this.scenario.name, this.play, recording);
        const outcome = recording.verdict.outcome;
        if (this.play === "broken" && outcome === "reproduced")
            noteProgress(this.scenario.name, "broken");
        if (this.play === "fixed" && outcome === "held")
            noteProgress(this.scenario.name, "done");
        this.root.firstChild.replaceWith(ladder(this.app.lab.scenarios, this.scenario.name));
        this.told();
    }

    /* Some run goes on, this one or another. */
    busy(busy) {
        this.setBusy(busy);
    }

    setBusy(busy) {
        this.runBroken.disabled = busy || (this.guess.elements.answer.value === "" && !this.view.broken);
        this.runFixed.disabled = busy;
    }

    /* Whether the guess was right. */
    answerText() {
        const chosen = this.guess.elements.answer.value, right = this.scenario.answers[this.scenario.right];
        if (this.play !== "broken" || chosen === "")
            return "";
        return Number(chosen) === this.scenario.right ? "You were right." : `You guessed otherwise. The answer: ${right}`;
    }

    told() {
        const buttons = this.play === "broken" ? [this.runFixed] : [this.next, h("button", {type: "button", onclick: () => this.begin("broken")}, "Break it again")];
        say(this.runBroken, "Run it again");
        say(this.hint, READY);
        this.setBusy(this.app.playing);
        show(this.lesson, true);
        show(this.code, true);
        show(this.story, true);
        this.view.ended(this.answerText() ? h("p", {id: "answer"}, this.answerText()) : null,
                        drawSteps(this.view.active, (n) => this.view.seek(n)), h("p", {class: "buttons"}, ...buttons));
    }

    close() {
        this.view.close();
    }
}
